//! F32: plain little-endian IEEE 754 single precision, block of one element.

use super::{Encoder, Format};
use crate::tensor::GgmlType;

/// The format of `f32` tensors.
pub(super) struct F32;

impl Format for F32 {
    fn ty(&self) -> GgmlType {
        GgmlType::F32
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        for (value, bytes) in values.iter_mut().zip(blocks.as_chunks::<4>().0) {
            *value = f32::from_le_bytes(*bytes);
        }
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(encode)
    }
}

fn encode(values: &[f32], blocks: &mut [u8]) {
    for (value, bytes) in values.iter().zip(blocks.as_chunks_mut::<4>().0) {
        *bytes = value.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_bit() {
        let values = [1.0f32, -0.0, f32::MIN_POSITIVE / 2.0];
        let mut blocks = [0; 12];
        encode(&values, &mut blocks);
        let mut back = [9.0f32; 3];
        F32.decode(&blocks, &mut back);
        assert_eq!(back.map(f32::to_bits), values.map(f32::to_bits));
    }
}
