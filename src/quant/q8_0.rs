//! Q8_0: signed bytes, 8.5 bits per weight. Groups of 32 in 34 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   i8 qs[32]
//! ```
//! `w = qs * d`. Encoding: `d = amax / 127`; the quotient uses the f32 inverse of d, before it is rounded to f16
//! (`quantize_row_q8_0_ref`).

use super::{Format, amax, inverse_or_zero};
use crate::tensor::GgmlType;
use half::f16;

const GROUP: usize = GgmlType::Q8_0.block_elements();
const BLOCK_BYTES: usize = GgmlType::Q8_0.block_bytes();
const _: () = assert!(BLOCK_BYTES == 2 + GROUP);

/// The format of `q8_0` tensors.
pub(super) struct Q8_0;

impl Format for Q8_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::Q8_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        for (block, group) in blocks.chunks_exact(BLOCK_BYTES).zip(values.chunks_exact_mut(GROUP)) {
            let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
            for (value, &q) in group.iter_mut().zip(&block[2..]) {
                *value = f32::from(q as i8) * d;
            }
        }
    }

    fn encode(&self, values: &[f32], blocks: &mut [u8]) {
        for (group, block) in values.chunks_exact(GROUP).zip(blocks.chunks_exact_mut(BLOCK_BYTES)) {
            let d = amax(group) / 127.0;
            let inverse = inverse_or_zero(d);
            block[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
            for (value, q) in group.iter().zip(&mut block[2..]) {
                *q = (value * inverse).round() as i8 as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_becomes_127() {
        let mut values = [0.0; GROUP];
        values[..3].copy_from_slice(&[254.0, -254.0, 3.0]);
        let mut block = [0; BLOCK_BYTES];
        Q8_0.encode(&values, &mut block);
        // d = 2: 3 / 2 = 1.5 rounds away from zero
        assert_eq!(block[2..6], [127, 129, 2, 0]);
        let mut back = [9.0; GROUP];
        Q8_0.decode(&block, &mut back);
        assert_eq!(back[..4], [254.0, -254.0, 4.0, 0.0]);
    }
}
