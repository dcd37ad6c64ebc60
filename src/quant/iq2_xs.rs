//! IQ2_XS: eight weights a lattice point, 2.3125 bits per weight. Groups of 256 in 74 bytes.
//!
//! ```text
//! offset 0    f16 d
//! offset 2    u16 qs[32]   for 8 elements each: bits 0-8 index of the point, bits 9-15 signs, seven of eight (`lattice`)
//! offset 66   scales[8]    for 32 elements each: low nibble for the first 16, high nibble for the others
//! ```
//! `w = d * (scale + 0.5) / 4 * x`, x with its sign; exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::GROUP;
use super::tables::iq2_xs::{LEVELS, POINTS};
use super::{Format, lattice};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::IQ2_XS.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [[u8; 2]; GROUP / 8],
    scales: [u8; GROUP / 32],
}

/// The format of `iq2_xs` tensors.
pub(super) struct Iq2Xs;

impl Format for Iq2Xs {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ2_XS
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            for (i, weights) in group.as_chunks_mut().0.iter_mut().enumerate() {
                let scale = block.scales[i / 4] >> (4 * (i / 2 % 2)) & 15;
                let scale = half(block.d) * (0.5 + f32::from(scale)) * 0.25;
                let packed = u16::from_le_bytes(block.qs[i]);
                let point = lattice::eight(POINTS[usize::from(packed & 511)], &LEVELS);
                lattice::write(weights, scale, point, lattice::even_signs((packed >> 9) as u8));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn sixteen_elements_share_a_scale() {
        let mut block = Block { d: to_half(1.0), qs: [[0; 2]; 32], scales: [0; 8] };
        block.scales[7] = 0x30; // elements 240..256
        block.qs[31] = (1u16 << 9 | 1).to_le_bytes(); // point 1 = (43, 8, ..), signs 0 and 7
        let mut values = [9.0; GROUP];
        Iq2Xs.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!(values[247..], [7.0, -37.625, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, -7.0]);
        assert_eq!(values[239], 1.0); // 0.5 / 4 * 8
    }
}
