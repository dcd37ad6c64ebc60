//! PQ2_0: the PrismML fork's ternary type (id 142), 2.125 bits per weight. Groups of 128 in 34 bytes.
//!
//! Layout and code: `two_bit`, with `qs[32]`.

use super::{Codes, Encoder, Format, codes, two_bit};
use crate::tensor::GgmlType;

const TYPE: GgmlType = GgmlType::PQ2_0;
const _: () = assert!(TYPE.block_bytes() == 2 + 128 / 4 && TYPE.block_elements() == 128);

/// The format of `pq2_0` tensors.
pub(super) struct Pq2_0;

impl Format for Pq2_0 {
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
}
