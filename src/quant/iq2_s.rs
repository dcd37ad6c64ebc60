//! IQ2_S: eight weights a lattice point, 2.5625 bits per weight. Groups of 256 in 82 bytes.
//!
//! ```text
//! offset 0    f16 d
//! offset 2    qs[32]      bits 0-7 of the index of the point of 8 elements each
//! offset 34   signs[32]   a bit an element
//! offset 66   qh[8]       bits 8-9 of the indices: those of 8 elements, number i, are bits 2 (i % 4) of qh[i / 4]
//! offset 74   scales[8]   for 32 elements each: low nibble for the first 16, high nibble for the others
//! ```
//! `w = d * (scale + 0.5) / 4 * x`, x with its sign; exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::GROUP;
use super::tables::iq2_s::{LEVELS, POINTS};
use super::{Format, lattice};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::IQ2_S.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [u8; GROUP / 8],
    signs: [u8; GROUP / 8],
    qh: [u8; GROUP / 32],
    scales: [u8; GROUP / 32],
}

/// The format of `iq2_s` tensors.
pub(super) struct Iq2S;

impl Format for Iq2S {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ2_S
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            for (i, weights) in group.as_chunks_mut().0.iter_mut().enumerate() {
                let scale = block.scales[i / 4] >> (4 * (i / 2 % 2)) & 15;
                let scale = half(block.d) * (0.5 + f32::from(scale)) * 0.25;
                let high = block.qh[i / 4] >> (2 * (i % 4)) & 3;
                let index = usize::from(block.qs[i]) | usize::from(high) << 8;
                lattice::write(weights, scale, lattice::eight(POINTS[index], &LEVELS), block.signs[i]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn the_index_has_ten_bits() {
        let mut block = Block { d: to_half(1.0), qs: [0; 32], signs: [0; 32], qh: [0; 8], scales: [0; 8] };
        block.scales[7] = 0x30; // elements 240..256
        block.qs[31] = 0xff;
        block.qh[7] = 0b1100_0000; // point 1023 = (43, 43, ..)
        block.signs[31] = 0x80;
        let mut values = [9.0; GROUP];
        Iq2S.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!(values[247..250], [7.0, 37.625, 37.625]);
        assert_eq!((values[255], values[239]), (-37.625, 1.0));
    }
}
