//! F64: little-endian IEEE 754 double precision, block of one element. Decoding rounds to the nearest f32.

use super::Format;
use crate::tensor::GgmlType;

/// The format of `f64` tensors.
pub(super) struct F64;

impl Format for F64 {
    fn ty(&self) -> GgmlType {
        GgmlType::F64
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        for (value, bytes) in values.iter_mut().zip(blocks.as_chunks().0) {
            *value = f64::from_le_bytes(*bytes) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_even() {
        // halfway between f32 values (spacing 2)
        let blocks = [16_777_217.0f64, 16_777_219.0].map(f64::to_le_bytes).concat();
        let mut values = [0.0; 2];
        F64.decode(&blocks, &mut values);
        assert_eq!(values, [16_777_216.0, 16_777_220.0]);
    }
}
