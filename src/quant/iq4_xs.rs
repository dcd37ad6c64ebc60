//! IQ4_XS: four bits on uneven levels with six-bit scales, 4.25 bits per weight. Groups of 256 in 136 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   u16 scales_h    bits 4-5 of the scale of 32 elements, number i: its bits 2 i
//! offset 4   scales_l[4]     bits 0-3: nibble i % 2 of scales_l[i / 2]
//! offset 8   qs[8][16]       of each 32, element j in the low nibble of byte j, element 16 + j in its high nibble
//! ```
//! `w = d * (scale - 32) * level[code]`, exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::Format;
use super::blocks::{self, half, nibble};
use super::super_block::GROUP;
use super::tables::iq4::LEVELS;
use crate::tensor::GgmlType;

/// Elements that share a scale.
const PART: usize = 32;
const _: () = assert!(size_of::<Block>() == GgmlType::IQ4_XS.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    scales_h: [u8; 2],
    scales_l: [u8; GROUP / PART / 2],
    qs: [[u8; PART / 2]; GROUP / PART],
}

/// The format of `iq4_xs` tensors.
pub(super) struct Iq4Xs;

impl Format for Iq4Xs {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ4_XS
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            for (i, part) in group.as_chunks_mut::<PART>().0.iter_mut().enumerate() {
                let low = block.scales_l[i / 2] >> (4 * (i % 2)) & 15;
                let high = (u16::from_le_bytes(block.scales_h) >> (2 * i) & 3) as u8;
                let scale = half(block.d) * (f32::from(low | high << 4) - 32.0);
                for (j, value) in part.iter_mut().enumerate() {
                    *value = scale * LEVELS[usize::from(nibble(&block.qs[i], j))];
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn scales_are_split() {
        let mut block = Block { d: to_half(0.5), scales_h: [0; 2], scales_l: [0; 4], qs: [[0x88; 16]; 8] };
        block.scales_h[1] = 0x80;
        block.scales_l[3] = 0x30; // elements 224..256: 0b10_0011 = 35
        block.qs[7][15] = 0xf0; // elements 239 and 255
        let mut values = [9.0; GROUP];
        Iq4Xs.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[238], values[239], values[255], values[0]), (1.5, -190.5, 169.5, -16.0));
    }
}
