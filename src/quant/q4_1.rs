//! Q4_1: four bits above a minimum, 5 bits per weight. Groups of 32 in 20 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   f16 m
//! offset 4   qs[16]   element j: low nibble of qs[j]; element 16 + j: its high nibble
//! ```
//! `w = code * d + m`; the product is exact, so that only the sum rounds. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, nibble};
use super::integers::MOST_PARTS;
use super::{Format, Integers, IntegersOf};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::Q4_1.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::Q4_1.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    m: [u8; 2],
    qs: [u8; GROUP / 2],
}

/// The format of `q4_1` tensors.
pub(super) struct Q4_1;

impl Format for Q4_1 {
    fn ty(&self) -> GgmlType {
        GgmlType::Q4_1
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let (d, m) = (half(block.d), half(block.m));
            for (j, value) in group.iter_mut().enumerate() {
                *value = f32::from(nibble(&block.qs, j)) * d + m;
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
            let codes = Integers::plain(half(block.d), |e| nibble(&block.qs, e).into(), GROUP);
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
        let mut block = Block { d: to_half(0.5), m: to_half(-2.0), qs: [0; 16] };
        block.qs[15] = 0xf4;
        let mut values = [9.0; GROUP];
        Q4_1.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[14], values[15], values[31]), (-2.0, 0.0, 5.5));
    }
}
