//! The two-bit code that [`Q2_0`](super::q2_0) and [`PQ2_0`](super::pq2_0) share; they differ in
//! group size only.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   qs[GROUP / 4]   element j: bits 2(j % 4) of qs[j / 4]
//! ```
//! `w = (code - 1) * d`: codes 0, 1, 2, 3 stand for -d, 0, d, 2d.

use super::{amax, inverse_or_zero};
use half::f16;

/// Decodes one block of `2 + values.len() / 4` bytes.
pub(super) fn decode_block(block: &[u8], values: &mut [f32]) {
    let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
    let levels = [-d, 0.0, d, 2.0 * d];
    for (four, &codes) in values.as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
        for (j, value) in four.iter_mut().enumerate() {
            *value = levels[usize::from(codes >> (2 * j) & 3)];
        }
    }
}

/// Encodes one block: d is the largest absolute value; codes round half away from zero, with the
/// quotient taken by the f32 scale, before it is rounded to f16.
pub(super) fn encode_block(values: &[f32], block: &mut [u8]) {
    let d = amax(values);
    let inverse = inverse_or_zero(d);
    block[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
    for (four, codes) in values.as_chunks::<4>().0.iter().zip(&mut block[2..]) {
        *codes = 0;
        for (j, value) in four.iter().enumerate() {
            let code = ((value * inverse).round() + 1.0).clamp(0.0, 3.0) as u8;
            *codes |= code << (2 * j);
        }
    }
}
