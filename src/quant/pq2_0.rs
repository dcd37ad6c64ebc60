//! PQ2_0: the PrismML fork's ternary type (id 142), 2.125 bits per weight. Groups of 128 in 34 bytes.
//!
//! Layout and code: [`two_bit`](super::two_bit), with `qs[32]`.

use super::{Format, two_bit};
use crate::tensor::GgmlType;

const BLOCK_BYTES: usize = GgmlType::PQ2_0.block_bytes();
const GROUP: usize = GgmlType::PQ2_0.block_elements();
const _: () = assert!(BLOCK_BYTES == 2 + GROUP / 4);

/// The format of `pq2_0` tensors.
pub(super) struct Pq2_0;

impl Format for Pq2_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::PQ2_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        for (block, group) in blocks.chunks_exact(BLOCK_BYTES).zip(values.chunks_exact_mut(GROUP)) {
            two_bit::decode_block(block, group);
        }
    }

    fn encode(&self, values: &[f32], blocks: &mut [u8]) {
        for (group, block) in values.chunks_exact(GROUP).zip(blocks.chunks_exact_mut(BLOCK_BYTES)) {
            two_bit::encode_block(group, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_two_bits_low_first() {
        let mut block = [0x55; BLOCK_BYTES]; // code 1 everywhere
        block[..2].copy_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
        block[2] = 0b11_10_01_00;
        let mut values = [9.0; GROUP];
        Pq2_0.decode(&block, &mut values);
        assert_eq!(values[..6], [-0.5, 0.0, 0.5, 1.0, 0.0, 0.0]);
        assert!(values[4..].iter().all(|&v| v == 0.0));
    }

    #[test]
    fn encoding_rounds_half_away_and_clamps() {
        let mut values = [0.0; GROUP];
        values[..5].copy_from_slice(&[-1.0, 0.5, -0.5, 0.4, 1.0]);
        let mut block = [0; BLOCK_BYTES];
        Pq2_0.encode(&values, &mut block);
        let mut back = [9.0; GROUP];
        Pq2_0.decode(&block, &mut back);
        assert_eq!(back[..6], [-1.0, 1.0, -1.0, 0.0, 1.0, 0.0]);
    }
}
