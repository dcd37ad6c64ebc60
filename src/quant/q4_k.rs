//! Q4_K: four bits with six-bit scales and minima, 4.5 bits per weight. Groups of 256 in 144 bytes.
//!
//! ```text
//! offset 0    f16 d        of the scales
//! offset 2    f16 dmin     of the minima
//! offset 4    scales[12]   eight scales and eight minima, for 32 elements each, packed as `six_bit_scales` says
//! offset 16   qs[128]      a nibble an element, laid out as `super_block` says
//! ```
//! `w = d * scale * code - dmin * min`; both products are exact, so that only the difference rounds.
//!
//! Encoding is a rule of our own, not ggml's search: a part of 32 elements spans from its least value, or 0 if that is
//! above 0, to its greatest, in 15 steps. d and dmin let the widest part and the deepest one use the scale 63. Scales,
//! minima and codes round to nearest, codes by the scale and minimum as stored.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, to_half};
use super::super_block::{GROUP, nibble};
use super::{Encoder, Format, Integers, IntegersOf, inverse_or_zero, six_bit_scales};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::Q4_K.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    dmin: [u8; 2],
    scales: [u8; 12],
    qs: [u8; GROUP / 2],
}

/// Elements that share a scale and a minimum.
const PART: usize = 32;
/// The largest code.
const MAX_CODE: f32 = 15.0;
/// The largest scale and minimum.
const MAX_SCALE: f32 = 63.0;

impl Block {
    /// The step and the depth below zero of every part.
    fn steps(&self) -> [(f32, f32); GROUP / PART] {
        let (scales, mins) = six_bit_scales::unpack(&self.scales);
        let (d, dmin) = (half(self.d), half(self.dmin));
        std::array::from_fn(|part| (d * f32::from(scales[part]), dmin * f32::from(mins[part])))
    }
}

/// The format of `q4_K` tensors.
pub(super) struct Q4K;

impl Format for Q4K {
    fn ty(&self) -> GgmlType {
        GgmlType::Q4_K
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let steps = block.steps();
            for (e, value) in group.iter_mut().enumerate() {
                let (step, depth) = steps[e / PART];
                *value = step * f32::from(nibble(&block.qs, e)) - depth;
            }
        });
    }

    fn minima(&self, blocks: &[u8], minima: &mut [f32]) -> bool {
        blocks::decode(blocks, minima, |block: &Block, group: &mut [f32; GROUP]| {
            let steps = block.steps();
            group.iter_mut().enumerate().for_each(|(e, min)| *min = -steps[e / PART].1);
        });
        true
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(|values, blocks| blocks::encode(values, blocks, encode))
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            let (scales, mins) = six_bit_scales::unpack(&block.scales);
            let code = |e| (nibble(&block.qs, e)).into();
            let scales = scales.map(|scale| scale as i8);
            Integers::in_parts(half(block.d), half(block.dmin), code, &scales, &mins)
        })
    }
}

fn encode(group: &[f32; GROUP]) -> Block {
    let (mut steps, mut depths) = ([0.0f32; GROUP / PART], [0.0f32; GROUP / PART]);
    for (i, part) in group.as_chunks::<PART>().0.iter().enumerate() {
        let low = part.iter().fold(0.0f32, |low, &value| low.min(value));
        let high = part.iter().fold(low, |high, &value| high.max(value));
        steps[i] = (high - low) / MAX_CODE;
        depths[i] = -low;
    }
    let (d, scales) = six_bits(&steps);
    let (dmin, mins) = six_bits(&depths);
    let mut block = Block { d, dmin, scales: six_bit_scales::pack(&scales, &mins), qs: [0; GROUP / 2] };
    let stored = block.steps();
    for (e, value) in group.iter().enumerate() {
        let (step, depth) = stored[e / PART];
        let code = ((value + depth) * inverse_or_zero(step)).round().clamp(0.0, MAX_CODE) as u8;
        block.qs[PART * (e / 64) + e % PART] |= code << (4 * (e / PART % 2));
    }
    block
}

/// A common f16 factor, and the six-bit number of every value.
fn six_bits(values: &[f32; GROUP / PART]) -> ([u8; 2], [u8; GROUP / PART]) {
    let largest = values.iter().fold(0.0f32, |largest, &value| largest.max(value));
    let factor = to_half(largest / MAX_SCALE);
    let inverse = inverse_or_zero(half(factor));
    (factor, values.map(|value| (value * inverse).round().min(MAX_SCALE) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_of_32_have_a_step_and_a_depth() {
        let mut scales = [0; 8];
        let mut mins = [0; 8];
        (scales[3], mins[3]) = (2, 4); // elements 96..128
        (scales[6], mins[6]) = (33, 0); // elements 192..224
        let scales = six_bit_scales::pack(&scales, &mins);
        let mut block = Block { d: to_half(0.5), dmin: to_half(0.25), scales, qs: [0; 128] };
        block.qs[32] = 0xf0; // elements 64 and 96
        block.qs[96] = 0x02; // elements 192 and 224
        let mut values = [9.0; GROUP];
        Q4K.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[64], values[96], values[97], values[192]), (0.0, 14.0, -1.0, 33.0));
    }

    #[test]
    fn a_span_of_15_steps_is_kept() {
        let mut values = [0.0; GROUP];
        for (e, value) in values.iter_mut().enumerate().skip(224) {
            *value = (e % 16) as f32 * 63.0 - 5.0 * 63.0; // step 63, depth 5 * 63
        }
        let block = encode(&values);
        assert_eq!((half(block.d), half(block.dmin)), (1.0, 5.0));
        let mut back = [9.0; GROUP];
        Q4K.decode(bytemuck::bytes_of(&block), &mut back);
        assert_eq!(back, values);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_value_is_far_off(values in prop::collection::vec(-1.0f32..1.0, GROUP)) {
            let mut back = [9.0; GROUP];
            let block = encode(values.as_slice().try_into().unwrap());
            Q4K.decode(bytemuck::bytes_of(&block), &mut back);
            // half a step of 2 / 15, and up to that again where rounded scales and minima cut a part's end off
            prop_assert!(values.iter().zip(&back).all(|(x, y)| (x - y).abs() <= 2.0 / MAX_CODE), "{back:?}");
        }
    }
}
