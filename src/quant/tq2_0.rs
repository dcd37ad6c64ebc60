//! TQ2_0: ternary in two bits, 2.0625 bits per weight. Groups of 256 in 66 bytes.
//!
//! ```text
//! offset 0    qs[64]   two bits an element, laid out as `super_block` says
//! offset 64   f16 d
//! ```
//! `w = (code - 1) * d`; the code 3, which stands for 2 d, is never encoded. Encoding: d is the largest absolute value;
//! codes round half away from zero, with the quotient taken by the f32 scale, before it is rounded to f16
//! (`quantize_row_tq2_0_ref`).

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, to_half};
use super::super_block::{GROUP, pack_two_bits, two_bits};
use super::{Codes, Encoder, Format, Integers, IntegersOf, amax, codes, inverse_or_zero};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::TQ2_0.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    qs: [u8; GROUP / 4],
    d: [u8; 2],
}

/// The format of `tq2_0` tensors.
pub(super) struct Tq2_0;

impl Format for Tq2_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::TQ2_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = half(block.d);
            for (e, value) in group.iter_mut().enumerate() {
                *value = (f32::from(two_bits(&block.qs, e)) - 1.0) * d;
            }
        });
    }

    /// ggml adds up the codes 0, 1, 2 and takes the sum of the activation off apart (`ggml_vec_dot_tq2_0_q8_K`).
    fn minima(&self, blocks: &[u8], minima: &mut [f32]) -> bool {
        blocks::decode(blocks, minima, |block: &Block, group: &mut [f32; GROUP]| group.fill(-half(block.d)));
        true
    }

    fn codes(&self) -> Option<Codes> {
        codes::two_bits(GROUP, GROUP / 4, |j| (32 * (j / 128) + j % 32, j / 32 % 4))
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(|values, blocks| blocks::encode(values, blocks, encode))
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            Integers::plain(half(block.d), |e| i32::from(two_bits(&block.qs, e)) - 1, GROUP)
        })
    }
}

fn encode(group: &[f32; GROUP]) -> Block {
    let d = amax(group);
    let inverse = inverse_or_zero(d);
    let codes = group.map(|value| ((value * inverse).round() + 1.0).clamp(0.0, 2.0) as u8);
    Block { qs: pack_two_bits(&codes), d: to_half(d) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_byte_are_32_apart() {
        let mut values = [0.0; GROUP];
        values[128] = -2.0; // qs[32]: 1 1 2 0, the last one first
        values[160] = 1.0;
        values[192] = 0.9;
        let block = encode(&values);
        assert_eq!((half(block.d), block.qs[32], block.qs[33]), (2.0, 0b01_01_10_00, 0x55));
        let mut back = [9.0; GROUP];
        Tq2_0.decode(bytemuck::bytes_of(&block), &mut back);
        assert_eq!((back[128], back[160], back[192], back[224]), (-2.0, 2.0, 0.0, 0.0));
    }

    #[test]
    fn code_3_is_read_as_twice_the_scale() {
        let block = Block { qs: [0xff; 64], d: to_half(0.5) };
        let mut values = [9.0; GROUP];
        Tq2_0.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!(values, [1.0; GROUP]);
    }
}
