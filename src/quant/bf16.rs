//! BF16: the upper half of an f32, little endian, block of one element. Encoding rounds to nearest even and keeps
//! NaN quiet (`ggml_compute_fp32_to_bf16`).

use super::{Encoder, Format};
use crate::tensor::GgmlType;
use half::bf16;

/// The format of `bf16` tensors.
pub(super) struct Bf16;

impl Format for Bf16 {
    fn ty(&self) -> GgmlType {
        GgmlType::BF16
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        for (value, bytes) in values.iter_mut().zip(blocks.as_chunks::<2>().0) {
            *value = bf16::from_le_bytes(*bytes).to_f32();
        }
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(encode)
    }
}

fn encode(values: &[f32], blocks: &mut [u8]) {
    for (value, bytes) in values.iter().zip(blocks.as_chunks_mut::<2>().0) {
        *bytes = bf16::from_f32(*value).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_even() {
        // 257 and 259 lie halfway between bf16 values (spacing 2)
        let mut pair = [0; 4];
        encode(&[257.0, 259.0], &mut pair);
        let mut back = [0.0; 2];
        Bf16.decode(&pair, &mut back);
        assert_eq!(back, [256.0, 260.0]);
        let mut blocks = [0; 2];
        encode(&[f32::NAN], &mut blocks);
        assert!(bf16::from_le_bytes(blocks).is_nan());
    }
}
