//! IQ1_S: eight weights a lattice point, 1.5625 bits per weight. Groups of 256 in 50 bytes.
//!
//! ```text
//! offset 0    f16 d
//! offset 2    qs[32]      bits 0-7 of the index of the point of 8 elements each
//! offset 34   u16 qh[8]   for 32 elements each: bits 3 l, l = 0..3: bits 8-10 of the index of elements 8 l .. 8 l + 7;
//!                         bits 12-14: scale; bit 15: the shift is negative
//! ```
//! `w = d * (2 scale + 1) * (x + shift)`, the shift 1/8 or -1/8; exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::GROUP;
use super::tables::iq1::{LEVELS, POINTS};
use super::{Format, lattice};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::IQ1_S.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [u8; GROUP / 8],
    qh: [[u8; 2]; GROUP / 32],
}

/// The format of `iq1_s` tensors.
pub(super) struct Iq1S;

impl Format for Iq1S {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ1_S
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            for (i, weights) in group.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let high = u16::from_le_bytes(block.qh[i / 4]);
                let scale = half(block.d) * f32::from(2 * (high >> 12 & 7) + 1);
                let shift = if high >> 15 == 1 { -lattice::SHIFT } else { lattice::SHIFT };
                let index = usize::from(block.qs[i]) | usize::from(high >> (3 * (i % 4)) & 7) << 8;
                *weights = lattice::eight(POINTS[index], &LEVELS).map(|x| scale * (x + shift));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn the_index_has_eleven_bits() {
        let mut block = Block { d: to_half(1.0), qs: [0; 32], qh: [[0; 2]; 8] };
        block.qs[30] = 0xff; // elements 240..248: point 2047 = (1, 1, ..)
        block.qh[7] = (0x8000u16 | 3 << 12 | 7 << 6).to_le_bytes();
        let mut values = [9.0; GROUP];
        Iq1S.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[239], values[240], values[248]), (-7.875, 6.125, -7.875));
        assert_eq!(values[0], -0.875); // point 0 = (-1, -1, ..)
    }
}
