//! F16: IEEE 754 half precision, little endian, block of one element. Encoding rounds to nearest even.

use super::{Encoder, Format};
use crate::tensor::GgmlType;
use half::f16;

/// The format of `f16` tensors.
pub(super) struct F16;

impl Format for F16 {
    fn ty(&self) -> GgmlType {
        GgmlType::F16
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        for (value, bytes) in values.iter_mut().zip(blocks.as_chunks::<2>().0) {
            *value = f16::from_le_bytes(*bytes).to_f32();
        }
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(encode)
    }
}

fn encode(values: &[f32], blocks: &mut [u8]) {
    for (value, bytes) in values.iter().zip(blocks.as_chunks_mut::<2>().0) {
        *bytes = f16::from_f32(*value).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_even() {
        // 2049 and 2051 lie halfway between halves (spacing 2)
        let mut blocks = [0; 4];
        encode(&[2049.0, 2051.0], &mut blocks);
        let mut back = [0.0; 2];
        F16.decode(&blocks, &mut back);
        assert_eq!(back, [2048.0, 2052.0]);
    }
}
