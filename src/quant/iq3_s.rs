//! IQ3_S: four weights a lattice point, 3.4375 bits per weight. Groups of 256 in 110 bytes.
//!
//! ```text
//! offset 0     f16 d
//! offset 2     qs[64]      bits 0-7 of the index of the point of 4 elements each
//! offset 66    qh[8]       bit 8: that of point i is bit i % 8 of qh[i / 8]
//! offset 74    signs[32]   a bit an element
//! offset 106   scales[4]   a nibble for 32 elements, low one first
//! ```
//! `w = d * (2 scale + 1) * x`, x with its sign; exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::GROUP;
use super::tables::iq3_s::{LEVELS, POINTS};
use super::{Format, lattice};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::IQ3_S.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [u8; GROUP / 4],
    qh: [u8; GROUP / 32],
    signs: [u8; GROUP / 8],
    scales: [u8; GROUP / 64],
}

impl Block {
    /// The code of point `i` of 64.
    fn code(&self, i: usize) -> u16 {
        let high = self.qh[i / 8] >> (i % 8) & 1;
        POINTS[usize::from(self.qs[i]) | usize::from(high) << 8]
    }
}

/// The format of `iq3_s` tensors.
pub(super) struct Iq3S;

impl Format for Iq3S {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ3_S
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            for (i, weights) in group.as_chunks_mut().0.iter_mut().enumerate() {
                let scale = block.scales[i / 8] >> (4 * (i / 4 % 2)) & 15;
                let scale = half(block.d) * f32::from(2 * scale + 1);
                let codes = [block.code(2 * i), block.code(2 * i + 1)];
                lattice::write(weights, scale, lattice::four_and_four(codes, &LEVELS), block.signs[i]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn the_index_has_nine_bits() {
        let mut block = Block { d: to_half(0.5), qs: [0; 64], qh: [0; 8], signs: [0; 32], scales: [0; 4] };
        block.scales[3] = 0x30; // elements 224..256: 2 * 3 + 1
        block.qs[63] = 0xff;
        block.qh[7] = 0x80; // point 511 = (1, 1, 15, 15)
        block.signs[31] = 0b1001_0000;
        let mut values = [9.0; GROUP];
        Iq3S.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!(values[251..], [3.5, -3.5, 3.5, 52.5, -52.5]);
        assert_eq!(values[223], 0.5);
    }
}
