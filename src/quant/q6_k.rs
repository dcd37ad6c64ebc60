//! Q6_K: six bits with eight-bit scales, 6.5625 bits per weight. Groups of 256 in 210 bytes.
//!
//! ```text
//! offset 0     ql[128]      bits 0-3 of the codes: element e in nibble e / 64 % 2 of ql[64 (e / 128) + e % 64]
//! offset 128   qh[64]       bits 4-5 of the codes, laid out as `super_block` says
//! offset 192   scales[16]   i8, for 16 elements each
//! offset 208   f16 d
//! ```
//! `w = (d * scale) * (code - 32)`; the product in parentheses is exact, the other rounds.
//!
//! Encoding is a rule of our own, not ggml's search: the largest magnitude of 16 elements becomes 31 steps, d lets the
//! widest 16 use the scale 127. Scales and codes round to nearest, codes by the scale as stored.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, nibble, pack_nibbles, to_half};
use super::super_block::{GROUP, pack_two_bits, two_bits};
use super::{Encoder, Format, Integers, IntegersOf, amax, inverse_or_zero};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::Q6_K.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    /// For 128 elements each.
    ql: [[u8; 64]; GROUP / 128],
    qh: [u8; GROUP / 4],
    scales: [i8; GROUP / PART],
    d: [u8; 2],
}

/// Elements that share a scale.
const PART: usize = 16;
/// The largest magnitude that both signs of a code have.
const MAX_CODE: f32 = 31.0;
/// The largest scale.
const MAX_SCALE: f32 = 127.0;

impl Block {
    /// The step of every part.
    fn steps(&self) -> [f32; GROUP / PART] {
        self.scales.map(|scale| half(self.d) * f32::from(scale))
    }
}

/// The format of `q6_K` tensors.
pub(super) struct Q6K;

impl Format for Q6K {
    fn ty(&self) -> GgmlType {
        GgmlType::Q6_K
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let steps = block.steps();
            for (e, value) in group.iter_mut().enumerate() {
                let code = nibble(&block.ql[e / 128], e % 128) | two_bits(&block.qh, e) << 4;
                *value = steps[e / PART] * (f32::from(code) - 32.0);
            }
        });
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(|values, blocks| blocks::encode(values, blocks, encode))
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            let code =
                |e: usize| i32::from(nibble(&block.ql[e / 128], e % 128) | two_bits(&block.qh, e) << 4) - 32;
            Integers::in_parts(half(block.d), 0.0, code, &block.scales, &[])
        })
    }
}

fn encode(group: &[f32; GROUP]) -> Block {
    let d = to_half(amax(group) / MAX_CODE / MAX_SCALE);
    let inverse = inverse_or_zero(half(d));
    let mut block = Block { ql: [[0; 64]; 2], qh: [0; 64], scales: [0; GROUP / PART], d };
    for (scale, part) in block.scales.iter_mut().zip(group.as_chunks::<PART>().0) {
        *scale = (amax(part) / MAX_CODE * inverse).round().min(MAX_SCALE) as i8;
    }
    let steps = block.steps();
    let codes: [u8; GROUP] = std::array::from_fn(|e| {
        ((group[e] * inverse_or_zero(steps[e / PART])).round().clamp(-32.0, MAX_CODE) + 32.0) as u8
    });
    for (ql, codes) in block.ql.iter_mut().zip(codes.map(|code| code & 15).as_chunks::<128>().0) {
        pack_nibbles(codes, ql);
    }
    block.qh = pack_two_bits(&codes.map(|code| code >> 4));
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_upper_two_bits_lie_apart() {
        let mut block = Block { ql: [[0; 64]; 2], qh: [0; 64], scales: [1; 16], d: to_half(0.5) };
        block.scales[14] = -3; // elements 224..240
        block.ql[1][32] = 0x5a; // elements 160 and 224
        block.qh[32] = 0b11_00_10_00; // element 160: 10, element 224: 11
        let mut values = [9.0; GROUP];
        Q6K.decode(bytemuck::bytes_of(&block), &mut values);
        // codes 0b10_1010 = 42, 0b11_0101 = 53 and 0
        assert_eq!((values[160], values[224], values[0]), (5.0, -31.5, -16.0));
    }

    #[test]
    fn the_largest_value_becomes_31_steps() {
        let mut values = [0.0; GROUP];
        values[16] = 31.0 * 127.0;
        values[17] = -200.0; // 1.57 steps of 127
        values[240] = 62.0; // scale 2
        let block = encode(&values);
        assert_eq!((half(block.d), block.scales[1], block.scales[15]), (1.0, 127, 2));
        let mut back = [9.0; GROUP];
        Q6K.decode(bytemuck::bytes_of(&block), &mut back);
        assert_eq!((back[16], back[17], back[18], back[240]), (3937.0, -254.0, 0.0, 62.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_value_is_far_off(values in prop::collection::vec(-1.0f32..1.0, GROUP)) {
            let mut back = [9.0; GROUP];
            let block = encode(values.as_slice().try_into().unwrap());
            Q6K.decode(bytemuck::bytes_of(&block), &mut back);
            // half a step, and up to that again where a rounded scale cuts the end off
            prop_assert!(values.iter().zip(&back).all(|(x, y)| (x - y).abs() <= 1.0 / MAX_CODE), "{back:?}");
        }
    }
}
