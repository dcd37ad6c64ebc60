//! IQ1_M: eight weights a lattice point, 1.75 bits per weight. Groups of 256 in 56 bytes.
//!
//! ```text
//! offset 0    qs[32]          bits 0-7 of the index of the point of 8 elements each
//! offset 32   qh[16]          a nibble for each: bits 0-2: bits 8-10 of the index; bit 3: the shift is negative
//! offset 48   u16 scales[4]   for 64 elements each: bits 3 s, s = 0..3: scale of 16 elements; bits 12-15: four bits
//!                             of the f16 d, the lowest four in scales[0]
//! ```
//! `w = d * (2 scale + 1) * (x + shift)`, the shift 1/8 or -1/8; exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::GROUP;
use super::tables::iq1::{LEVELS, POINTS};
use super::{Format, lattice};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::IQ1_M.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    qs: [u8; GROUP / 8],
    qh: [u8; GROUP / 16],
    scales: [[u8; 2]; GROUP / 64],
}

/// The format of `iq1_m` tensors.
pub(super) struct Iq1M;

impl Format for Iq1M {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ1_M
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let scales = block.scales.map(u16::from_le_bytes);
            let d = (0..4).fold(0, |d, i| d | scales[i] >> 12 << (4 * i));
            let d = half(d.to_le_bytes());
            for (i, weights) in group.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let scale = d * f32::from(2 * (scales[i / 8] >> (3 * (i / 2 % 4)) & 7) + 1);
                let high = block.qh[i / 2] >> (4 * (i % 2));
                let shift = if high & 8 == 8 { -lattice::SHIFT } else { lattice::SHIFT };
                let index = usize::from(block.qs[i]) | usize::from(high & 7) << 8;
                *weights = lattice::eight(POINTS[index], &LEVELS).map(|x| scale * (x + shift));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_spread_over_four_words() {
        let mut block = Block { qs: [0; 32], qh: [0; 16], scales: [[0; 2]; 4] };
        // d = 0x3e00 = 1.5
        block.scales[2] = 0xe000u16.to_le_bytes();
        block.scales[3] = (0x3000u16 | 2 << 9).to_le_bytes(); // elements 240..256: 2 * 2 + 1
        block.qs[31] = 0xff; // elements 248..256: point 2047 = (1, 1, ..)
        block.qh[15] = 0xf0;
        let mut values = [9.0; GROUP];
        Iq1M.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[239], values[247], values[248]), (-1.3125, -6.5625, 6.5625));
    }
}
