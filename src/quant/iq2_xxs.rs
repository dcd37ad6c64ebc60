//! IQ2_XXS: eight weights a lattice point, 2.0625 bits per weight. Groups of 256 in 66 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   parts[8][8]   for 32 elements each:
//!            bytes 0-3     l = 0..3: the index of the point of elements 8 l .. 8 l + 7
//!            bytes 4-7     u32: bits 7 l: their signs, seven bits of eight (`lattice`); bits 28-31: scale
//! ```
//! `w = d * (scale + 0.5) / 4 * x`, x with its sign; exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::GROUP;
use super::tables::iq2_xxs::{LEVELS, POINTS};
use super::{Format, lattice};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::IQ2_XXS.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    parts: [Part; GROUP / 32],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Part {
    points: [u8; 4],
    signs_and_scale: [u8; 4],
}

/// The format of `iq2_xxs` tensors.
pub(super) struct Iq2Xxs;

impl Format for Iq2Xxs {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ2_XXS
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            for (i, weights) in group.as_chunks_mut().0.iter_mut().enumerate() {
                let (part, l) = (&block.parts[i / 4], i % 4);
                let packed = u32::from_le_bytes(part.signs_and_scale);
                let scale = half(block.d) * (0.5 + (packed >> 28) as f32) * 0.25;
                let point = lattice::eight(POINTS[usize::from(part.points[l])], &LEVELS);
                lattice::write(weights, scale, point, lattice::even_signs((packed >> (7 * l)) as u8));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn signs_and_scale_share_a_word() {
        let none = Part { points: [0; 4], signs_and_scale: [0; 4] };
        let mut block = Block { d: to_half(1.0), parts: [none; 8] };
        // elements 240..248: point 1 = (43, 8, ..), sign 0 and with it sign 7; scale 3
        block.parts[7] = Part { points: [0, 0, 1, 0], signs_and_scale: (3u32 << 28 | 1 << 14).to_le_bytes() };
        let mut values = [9.0; GROUP];
        Iq2Xxs.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!(values[239..249], [7.0, -37.625, 7.0, 7.0, 7.0, 7.0, 7.0, 7.0, -7.0, 7.0]);
        assert_eq!(values[0], 1.0); // 0.5 / 4 * 8
    }
}
