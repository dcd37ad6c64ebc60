//! The two-bit code that [`Q2_0`](super::q2_0) and [`PQ2_0`](super::pq2_0) share; they differ in
//! group size only.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   qs[GROUP / 4]   element j: bits 2(j % 4) of qs[j / 4]
//! ```
//! `w = (code - 1) * d`: codes 0, 1, 2, 3 stand for -d, 0, d, 2d. The zero has the sign of d.

use half::f16;

use super::blocks::half;
use super::{amax, inverse_or_zero};
use crate::tensor::GgmlType;

/// Decodes whole blocks of type `ty`.
pub(super) fn decode(ty: GgmlType, blocks: &[u8], values: &mut [f32]) {
    let blocks = blocks.chunks_exact(ty.block_bytes());
    blocks
        .zip(values.chunks_exact_mut(ty.block_elements()))
        .for_each(|(block, group)| decode_block(block, group));
}

/// Encodes whole blocks of type `ty`.
pub(super) fn encode(ty: GgmlType, values: &[f32], blocks: &mut [u8]) {
    let groups = values.chunks_exact(ty.block_elements());
    groups
        .zip(blocks.chunks_exact_mut(ty.block_bytes()))
        .for_each(|(group, block)| encode_block(group, block));
}

/// Decodes one block of `2 + values.len() / 4` bytes.
fn decode_block(block: &[u8], values: &mut [f32]) {
    let d = half([block[0], block[1]]);
    let levels = [-1.0, 0.0, 1.0, 2.0].map(|level: f32| level * d);
    for (four, &codes) in values.as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
        for (j, value) in four.iter_mut().enumerate() {
            *value = levels[usize::from(codes >> (2 * j) & 3)];
        }
    }
}

/// Encodes one block: d is the largest absolute value; codes round half away from zero, with the
/// quotient taken by the f32 scale, before it is rounded to f16.
fn encode_block(values: &[f32], block: &mut [u8]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [GgmlType; 2] = [GgmlType::Q2_0, GgmlType::PQ2_0];

    #[test]
    fn codes_are_two_bits_low_first() {
        for ty in BOTH {
            let mut block = vec![0x55; ty.block_bytes()]; // code 1 everywhere
            block[..2].copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
            block[2] = 0b11_10_01_00;
            let mut values = vec![9.0; ty.block_elements()];
            decode(ty, &block, &mut values);
            assert_eq!(values[..6], [-0.5, 0.0, 0.5, 1.0, 0.0, 0.0]);
            assert!(values[4..].iter().all(|&v| v == 0.0));
        }
    }

    #[test]
    fn a_negative_scale_gives_a_negative_zero() {
        let mut block = [0x55; 18];
        block[..2].copy_from_slice(&f16::from_f32(-0.5).to_le_bytes());
        let mut values = [9.0; 64];
        decode(GgmlType::Q2_0, &block, &mut values);
        assert!(values.iter().all(|v| v.to_bits() == (-0.0f32).to_bits()));
    }

    #[test]
    fn encoding_rounds_half_away_and_clamps() {
        for ty in BOTH {
            let mut values = vec![0.0; ty.block_elements()];
            values[..5].copy_from_slice(&[-1.0, 0.5, -0.5, 0.4, 1.0]);
            let mut block = vec![0; ty.block_bytes()];
            encode(ty, &values, &mut block);
            let mut back = vec![9.0; ty.block_elements()];
            decode(ty, &block, &mut back);
            assert_eq!(back[..6], [-1.0, 1.0, -1.0, 0.0, 1.0, 0.0]);
        }
    }
}
