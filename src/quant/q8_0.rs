//! Q8_0: signed bytes, 8.5 bits per weight. Groups of 32 in 34 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   i8 qs[32]
//! ```
//! `w = qs * d`. Encoding: `d = amax / 127`; the quotient uses the f32 inverse of d, before it is rounded to f16
//! (`quantize_row_q8_0_ref`).

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, to_half};
use super::{Codes, Encoder, Format, Integers, IntegersOf, amax, inverse_or_zero};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::Q8_0.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::Q8_0.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [i8; GROUP],
}

/// The format of `q8_0` tensors.
pub(super) struct Q8_0;

impl Format for Q8_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::Q8_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = half(block.d);
            *group = block.qs.map(|q| f32::from(q) * d);
        });
    }

    fn codes(&self) -> Option<Codes> {
        Some(Codes {
            count: 256,
            level: |code| i32::from(code as i8),
            place: |j| (j, 0),
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
            Integers::plain(half(block.d), |e| block.qs[e].into(), GROUP)
        })
    }
}

fn encode(group: &[f32; GROUP]) -> Block {
    let d = amax(group) / 127.0;
    let inverse = inverse_or_zero(d);
    Block { d: to_half(d), qs: group.map(|value| (value * inverse).round() as i8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_becomes_127() {
        let mut values = [0.0; GROUP];
        values[..3].copy_from_slice(&[254.0, -254.0, 3.0]);
        let block = encode(&values);
        // d = 2: 3 / 2 = 1.5 rounds away from zero
        assert_eq!(block.qs[..4], [127, -127, 2, 0]);
        let mut back = [9.0; GROUP];
        Q8_0.decode(bytemuck::bytes_of(&block), &mut back);
        assert_eq!(back[..4], [254.0, -254.0, 4.0, 0.0]);
    }
}
