//! F32: plain little-endian IEEE 754 single precision, block of one element.

use super::Format;
use crate::tensor::GgmlType;

/// The format of `f32` tensors.
pub struct F32;

impl Format for F32 {
    fn ty(&self) -> GgmlType {
        GgmlType::F32
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        for (value, bytes) in values.iter_mut().zip(blocks.as_chunks::<4>().0) {
            *value = f32::from_le_bytes(*bytes);
        }
    }

    fn encode(&self, values: &[f32], blocks: &mut [u8]) {
        for (value, bytes) in values.iter().zip(blocks.as_chunks_mut::<4>().0) {
            *bytes = value.to_le_bytes();
        }
    }
}
