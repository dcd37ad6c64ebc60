//! Q2_K: two bits with four-bit scales and minima, 2.625 bits per weight. Groups of 256 in 84 bytes.
//!
//! ```text
//! offset 0    scales[16]   one byte for 16 elements: scale in the low nibble, minimum in the high one
//! offset 16   qs[64]       two bits an element, laid out as `super_block` says
//! offset 80   f16 d        of the scales
//! offset 82   f16 dmin     of the minima
//! ```
//! `w = d * scale * code - dmin * min`; both products are exact, so that only the difference rounds. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::{GROUP, two_bits};
use super::{Format, Integers, IntegersOf};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::Q2_K.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    scales: [u8; GROUP / 16],
    qs: [u8; GROUP / 4],
    d: [u8; 2],
    dmin: [u8; 2],
}

/// The format of `q2_K` tensors.
pub(super) struct Q2K;

impl Format for Q2K {
    fn ty(&self) -> GgmlType {
        GgmlType::Q2_K
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let scales = block.scales.map(|byte| half(block.d) * f32::from(byte & 15));
            let mins = block.scales.map(|byte| half(block.dmin) * f32::from(byte >> 4));
            for (e, value) in group.iter_mut().enumerate() {
                *value = scales[e / 16] * f32::from(two_bits(&block.qs, e)) - mins[e / 16];
            }
        });
    }

    fn minima(&self, blocks: &[u8], minima: &mut [f32]) -> bool {
        blocks::decode(blocks, minima, |block: &Block, group: &mut [f32; GROUP]| {
            let mins = block.scales.map(|byte| half(block.dmin) * f32::from(byte >> 4));
            group.iter_mut().enumerate().for_each(|(e, min)| *min = -mins[e / 16]);
        });
        true
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            let scales = block.scales.map(|byte| (byte & 15) as i8);
            let mins = block.scales.map(|byte| byte >> 4);
            let code = |e| two_bits(&block.qs, e).into();
            Integers::in_parts(half(block.d), half(block.dmin), code, &scales, &mins)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn sixteen_elements_share_scale_and_minimum() {
        let mut block = Block { scales: [0; 16], qs: [0; 64], d: to_half(0.5), dmin: to_half(0.25) };
        block.scales[9] = 0x42; // elements 144..160: scale 2 * 0.5, minimum 4 * 0.25
        block.scales[10] = 0x01;
        block.qs[32 + 16] = 0b11; // element 144
        block.qs[32] = 0b10_00; // element 160
        let mut values = [9.0; GROUP];
        Q2K.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[143], values[144], values[145], values[160]), (0.0, 2.0, -1.0, 1.0));
    }
}
