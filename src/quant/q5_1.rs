//! Q5_1: five bits above a minimum, 6 bits per weight. Groups of 32 in 24 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   f16 m
//! offset 4   qh[4]    bit 4 of the codes
//! offset 8   qs[16]   bits 0-3
//! ```
//! `w = code * d + m`, the code as in `five_bit`; the product is exact, so that only the sum rounds. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::integers::MOST_PARTS;
use super::{Format, Integers, IntegersOf, five_bit};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::Q5_1.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::Q5_1.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    m: [u8; 2],
    qh: [u8; 4],
    qs: [u8; GROUP / 2],
}

/// The format of `q5_1` tensors.
pub(super) struct Q5_1;

impl Format for Q5_1 {
    fn ty(&self) -> GgmlType {
        GgmlType::Q5_1
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let (d, m) = (half(block.d), half(block.m));
            for (j, value) in group.iter_mut().enumerate() {
                *value = f32::from(five_bit::code(block.qh, &block.qs, j)) * d + m;
            }
        });
    }

    fn minima(&self, blocks: &[u8], minima: &mut [f32]) -> bool {
        blocks::decode(blocks, minima, |block: &Block, group: &mut [f32; GROUP]| group.fill(half(block.m)));
        true
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            let codes =
                Integers::plain(half(block.d), |e| five_bit::code(block.qh, &block.qs, e).into(), GROUP);
            Integers { dmin: half(block.m), mins: [1; MOST_PARTS], ..codes }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn codes_count_up_from_the_minimum() {
        let mut block = Block { d: to_half(0.5), m: to_half(1.0), qh: [0b10, 0, 0, 0x80], qs: [0; 16] };
        block.qs[15] = 0xf0;
        let mut values = [9.0; GROUP];
        Q5_1.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[0], values[1], values[31]), (1.0, 9.0, 16.5));
    }
}
