//! Q1_0: signs, 1.125 bits per weight. Groups of 128 in 18 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   qs[16]   element j: bit j % 8 of qs[j / 8]
//! ```
//! `w = d` where the bit is set, else `-d`. Encoding: d is the mean magnitude, summed in f32 from the first value on; the
//! bit says `x >= 0` (`quantize_row_q1_0_ref`).

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, to_half};
use super::{Codes, Encoder, Format, Integers, IntegersOf};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::Q1_0.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::Q1_0.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [u8; GROUP / 8],
}

/// The format of `q1_0` tensors.
pub(super) struct Q1_0;

impl Format for Q1_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::Q1_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = half(block.d);
            for (j, value) in group.iter_mut().enumerate() {
                *value = if block.qs[j / 8] >> (j % 8) & 1 == 1 { d } else { -d };
            }
        });
    }

    fn codes(&self) -> Option<Codes> {
        Some(Codes {
            count: 2,
            level: |code| 2 * code - 1,
            place: |j| (j / 8, j % 8),
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
            Integers::plain(half(block.d), |e| 2 * i32::from(block.qs[e / 8] >> (e % 8) & 1) - 1, GROUP)
        })
    }
}

fn encode(group: &[f32; GROUP]) -> Block {
    let sum = group.iter().fold(0.0f32, |sum, value| sum + value.abs());
    let mut block = Block { d: to_half(sum / GROUP as f32), qs: [0; GROUP / 8] };
    for (j, &value) in group.iter().enumerate() {
        block.qs[j / 8] |= u8::from(value >= 0.0) << (j % 8);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signs_and_the_mean_are_kept() {
        let mut values = [-1.0; GROUP];
        values[0] = 65.0; // mean (127 + 65) / 128 = 1.5
        values[9] = 1.0;
        let block = encode(&values);
        assert_eq!(block.qs[..3], [1, 2, 0]);
        let mut back = [9.0; GROUP];
        Q1_0.decode(bytemuck::bytes_of(&block), &mut back);
        assert_eq!((back[0], back[1], back[9], back[127]), (1.5, -1.5, 1.5, -1.5));
    }
}
