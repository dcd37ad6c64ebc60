//! Q3_K: three bits with six-bit scales, 3.4375 bits per weight. Groups of 256 in 110 bytes.
//!
//! ```text
//! offset 0     hmask[32]    bit 2 of the codes, a bit plane as `super_block` says
//! offset 32    qs[64]       bits 0-1 of the codes, laid out as `super_block` says
//! offset 96    scales[12]   scale i of 16 elements each, i = 0..15
//!              scales[i % 8]      bits 0-3 in nibble i / 8
//!              scales[8 + i % 4]  bits 4-5 in its bits 2 (i / 4)
//! offset 108   f16 d
//! ```
//! `w = d * (scale - 32) * (code - 4)`, exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::{GROUP, bit_plane, two_bits};
use super::{Format, Integers, IntegersOf};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::Q3_K.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    hmask: [u8; GROUP / 8],
    qs: [u8; GROUP / 4],
    scales: [u8; 12],
    d: [u8; 2],
}

/// The format of `q3_K` tensors.
pub(super) struct Q3K;

/// The sixteen scales, 0 to 63.
fn scales(bytes: &[u8; 12]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let low = bytes[i % 8] >> (4 * (i / 8)) & 15;
        let high = bytes[8 + i % 4] >> (2 * (i / 4)) & 3;
        low | high << 4
    })
}

impl Format for Q3K {
    fn ty(&self) -> GgmlType {
        GgmlType::Q3_K
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let scales = scales(&block.scales).map(|scale| half(block.d) * (f32::from(scale) - 32.0));
            for (e, value) in group.iter_mut().enumerate() {
                let code = two_bits(&block.qs, e) | bit_plane(&block.hmask, e) << 2;
                *value = scales[e / 16] * (f32::from(code) - 4.0);
            }
        });
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            let code = |e| i32::from(two_bits(&block.qs, e) | bit_plane(&block.hmask, e) << 2) - 4;
            let scales = scales(&block.scales).map(|scale| scale as i8 - 32);
            Integers::in_parts(half(block.d), 0.0, code, &scales, &[])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn the_third_bit_lies_apart() {
        let mut block = Block { hmask: [0; 32], qs: [0; 64], scales: [0; 12], d: to_half(0.5) };
        // scale 13: nibble 1 of byte 5 and bits 6-7 of byte 9 make 0b10_0011 = 35
        block.scales[5] = 0x30;
        block.scales[9] = 0x80;
        block.qs[32 + 16] = 0b11 << 4; // element 208, bit plane 6
        block.hmask[16] = 1 << 6;
        let mut values = [9.0; GROUP];
        Q3K.decode(bytemuck::bytes_of(&block), &mut values);
        // 0.5 * 3 * (7 - 4), 0.5 * 3 * (0 - 4), 0.5 * -32 * (0 - 4)
        assert_eq!((values[208], values[209], values[0]), (4.5, -6.0, 64.0));
    }
}
