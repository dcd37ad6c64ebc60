//! IQ3_XXS: four weights a lattice point, 3.0625 bits per weight. Groups of 256 in 98 bytes.
//!
//! ```text
//! offset 0    f16 d
//! offset 2    qs[64]       the index of the point of 4 elements each
//! offset 66   u32 sas[8]   for 32 elements each: bits 7 l: the signs of elements 8 l .. 8 l + 7, seven bits of eight
//!                          (`lattice`); bits 28-31: scale
//! ```
//! `w = d * (scale + 0.5) / 2 * x`, x with its sign; exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::GROUP;
use super::tables::iq3_xxs::{LEVELS, POINTS};
use super::{Format, lattice};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::IQ3_XXS.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [[u8; 2]; GROUP / 8],
    signs_and_scales: [[u8; 4]; GROUP / 32],
}

/// The format of `iq3_xxs` tensors.
pub(super) struct Iq3Xxs;

impl Format for Iq3Xxs {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ3_XXS
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            for (i, weights) in group.as_chunks_mut().0.iter_mut().enumerate() {
                let packed = u32::from_le_bytes(block.signs_and_scales[i / 4]);
                let scale = half(block.d) * (0.5 + (packed >> 28) as f32) * 0.5;
                let signs = lattice::even_signs((packed >> (7 * (i % 4))) as u8);
                let codes = block.qs[i].map(|index| POINTS[usize::from(index)]);
                lattice::write(weights, scale, lattice::four_and_four(codes, &LEVELS), signs);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn eight_signs_belong_to_two_points() {
        let mut block = Block { d: to_half(1.0), qs: [[0; 2]; 32], signs_and_scales: [[0; 4]; 8] };
        block.signs_and_scales[7] = (3u32 << 28 | 1 << 14).to_le_bytes(); // elements 224..256
        block.qs[30] = [0, 1]; // elements 240..248: points (4, 4, 4, 4) and (20, 4, 4, 4), signs 0 and 7
        let mut values = [9.0; GROUP];
        Iq3Xxs.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!(values[239..249], [7.0, -7.0, 7.0, 7.0, 7.0, 35.0, 7.0, 7.0, -7.0, 7.0]);
        assert_eq!(values[0], 1.0); // 0.5 / 2 * 4
    }
}
