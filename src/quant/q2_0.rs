//! Q2_0: llama.cpp's two-bit type (id 42), 2.25 bits per weight. Groups of 64 in 18 bytes.
//!
//! Layout and code: `two_bit`, with `qs[16]`.

use super::blocks::half;
use super::{Codes, Encoder, Format, Integers, IntegersOf, codes, two_bit};
use crate::tensor::GgmlType;

const TYPE: GgmlType = GgmlType::Q2_0;
const _: () = assert!(TYPE.block_bytes() == 2 + 64 / 4 && TYPE.block_elements() == 64);

/// The format of `q2_0` tensors.
pub(super) struct Q2_0;

impl Format for Q2_0 {
    fn ty(&self) -> GgmlType {
        TYPE
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        two_bit::decode(TYPE, blocks, values);
    }

    fn codes(&self) -> Option<Codes> {
        codes::two_bits(TYPE.block_elements(), 0, |j| (j / 4, j % 4))
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(|values, blocks| two_bit::encode(TYPE, values, blocks))
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let code = |e: usize| i32::from(bytes[2 + e / 4] >> (2 * (e % 4)) & 3) - 1;
            Integers::plain(half([bytes[0], bytes[1]]), code, TYPE.block_elements())
        })
    }
}
