//! Q5_0: five bits around zero, 5.5 bits per weight. Groups of 32 in 22 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   qh[4]    bit 4 of the codes
//! offset 6   qs[16]   bits 0-3
//! ```
//! `w = (code - 16) * d`, the code as in `five_bit`. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::{Format, Integers, IntegersOf, five_bit};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::Q5_0.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::Q5_0.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qh: [u8; 4],
    qs: [u8; GROUP / 2],
}

/// The format of `q5_0` tensors.
pub(super) struct Q5_0;

impl Format for Q5_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::Q5_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = half(block.d);
            for (j, value) in group.iter_mut().enumerate() {
                *value = (f32::from(five_bit::code(block.qh, &block.qs, j)) - 16.0) * d;
            }
        });
    }

    fn code_zero(&self, blocks: &[u8], values: &mut [f32]) -> bool {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            group.fill(-16.0 * half(block.d))
        });
        true
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            Integers::plain(half(block.d), |e| i32::from(five_bit::code(block.qh, &block.qs, e)) - 16, GROUP)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn code_16_is_zero() {
        let mut block = Block { d: to_half(2.0), qh: [0b10, 0, 0, 0x80], qs: [0; 16] };
        block.qs[15] = 0xf0;
        let mut values = [9.0; GROUP];
        Q5_0.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[0], values[1], values[31]), (-32.0, 0.0, 30.0));
    }

    #[test]
    fn code_0_stands_for_16_steps_down() {
        let block = Block { d: to_half(0.5), ..bytemuck::Zeroable::zeroed() };
        let (mut values, mut zero) = ([9.0; GROUP], [9.0; GROUP]);
        Q5_0.decode(bytemuck::bytes_of(&block), &mut values);
        assert!(Q5_0.code_zero(bytemuck::bytes_of(&block), &mut zero));
        assert_eq!((values, zero[0]), (zero, -8.0));
    }
}
