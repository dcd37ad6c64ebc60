//! Q4_0: four bits around zero, 4.5 bits per weight. Groups of 32 in 18 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   qs[16]   element j: low nibble of qs[j]; element 16 + j: its high nibble
//! ```
//! `w = (code - 8) * d`. Encoding: the value of largest magnitude becomes code 0, so d has the opposite sign of it; codes
//! truncate `x / d + 8.5`, with the f32 inverse of d, before it is rounded to f16 (`quantize_row_q4_0_ref`). A ggml whose
//! compiler fuses that product into the sum can choose the other code for a quotient at a boundary.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, nibble, pack_nibbles, to_half};
use super::{Codes, Encoder, Format, Integers, IntegersOf};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::Q4_0.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::Q4_0.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [u8; GROUP / 2],
}

/// The format of `q4_0` tensors.
pub(super) struct Q4_0;

impl Format for Q4_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::Q4_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = half(block.d);
            for (j, value) in group.iter_mut().enumerate() {
                *value = (f32::from(nibble(&block.qs, j)) - 8.0) * d;
            }
        });
    }

    fn code_zero(&self, blocks: &[u8], values: &mut [f32]) -> bool {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            group.fill(-8.0 * half(block.d))
        });
        true
    }

    fn codes(&self) -> Option<Codes> {
        Some(Codes {
            count: 16,
            level: |code| code - 8,
            place: |j| (j % 16, j / 16),
            block: GROUP,
            scale_at: 0,
        })
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(|values, blocks| blocks::encode(values, blocks, encode))
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            Integers::plain(half(block.d), |e| i32::from(nibble(&block.qs, e)) - 8, GROUP)
        })
    }
}

fn encode(group: &[f32; GROUP]) -> Block {
    let extreme = group.iter().fold(0.0f32, |extreme, v| if v.abs() > extreme.abs() { *v } else { extreme });
    let d = extreme / -8.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let codes = group.map(|value| ((value * inverse + 8.5) as u8).min(15));
    let mut block = Block { d: to_half(d), qs: [0; GROUP / 2] };
    pack_nibbles(&codes, &mut block.qs);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extreme_value_becomes_code_0() {
        let mut values = [0.0; GROUP];
        values[0] = 16.0; // d = -2
        values[1] = -16.0; // 8 + 8, more than there is
        values[17] = -3.0; // 1.5 + 8.5 = 10
        let block = encode(&values);
        assert_eq!((half(block.d), block.qs[0], block.qs[1]), (-2.0, 0x80, 0xaf));
        let mut back = [9.0; GROUP];
        Q4_0.decode(bytemuck::bytes_of(&block), &mut back);
        assert_eq!((back[0], back[1], back[17]), (16.0, -14.0, -4.0));
        assert_eq!(back[2].to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn code_0_stands_for_8_steps_down() {
        let block = Block { d: to_half(0.5), ..bytemuck::Zeroable::zeroed() };
        let (mut values, mut zero) = ([9.0; GROUP], [9.0; GROUP]);
        Q4_0.decode(bytemuck::bytes_of(&block), &mut values);
        assert!(Q4_0.code_zero(bytemuck::bytes_of(&block), &mut zero));
        assert_eq!((values, zero[0]), (zero, -4.0));
    }
}
