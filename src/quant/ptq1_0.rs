//! PTQ1_0: the PrismML fork's base-3 ternary type (id 143), 1.75 bits per weight. Groups of 128 in 28 bytes.
//!
//! ```text
//! offset 0    qs[24]   five trits a byte
//!             qs[m], m < 16:      elements m + 16 n,      n = 0..4
//!             qs[16 + m], m < 8:  elements 80 + m + 8 n,  n = 0..4
//! offset 24   qh[2]    four trits a byte: elements 120 + h + 2 n, n = 0..3
//! offset 26   f16 d
//! ```
//! Trit n = 0 is the most significant. A byte holds `ceil(V * 256 / 243)` with `V = sum xi_n 3^(4 - n)`, so that
//! multiplying by `3^n` modulo 256 and then by 3 brings trit n above bit 8. `w = (trit - 1) * d`.

use super::{Format, amax, inverse_or_zero};
use crate::tensor::GgmlType;
use half::f16;

const GROUP: usize = GgmlType::PTQ1_0.block_elements();
const BLOCK_BYTES: usize = GgmlType::PTQ1_0.block_bytes();
const SCALE_OFFSET: usize = 26;
const _: () = assert!(BLOCK_BYTES == 24 + 2 + 2 && SCALE_OFFSET + 2 == BLOCK_BYTES);

/// `3^n` for trit n.
const POW3: [u8; 5] = [1, 3, 9, 27, 81];

/// A run of bytes: element of (byte m, trit n) is `first + m + bytes * n`.
struct Run {
    byte: usize,
    bytes: usize,
    first: usize,
    trits: usize,
}

const RUNS: [Run; 3] = [
    Run { byte: 0, bytes: 16, first: 0, trits: 5 },
    Run { byte: 16, bytes: 8, first: 80, trits: 5 },
    Run { byte: 24, bytes: 2, first: 120, trits: 4 },
];

/// Trit n of a byte: 0, 1 or 2.
fn trit(byte: u8, n: usize) -> u8 {
    ((u16::from(byte.wrapping_mul(POW3[n])) * 3) >> 8) as u8
}

/// The format of `ptq1_0` tensors.
pub(super) struct Ptq1_0;

impl Format for Ptq1_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::PTQ1_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        for (block, group) in blocks.chunks_exact(BLOCK_BYTES).zip(values.chunks_exact_mut(GROUP)) {
            let d = f16::from_le_bytes([block[SCALE_OFFSET], block[SCALE_OFFSET + 1]]).to_f32();
            for run in &RUNS {
                for m in 0..run.bytes {
                    for n in 0..run.trits {
                        let trit = trit(block[run.byte + m], n);
                        group[run.first + m + run.bytes * n] = (f32::from(trit) - 1.0) * d;
                    }
                }
            }
        }
    }

    fn encode(&self, values: &[f32], blocks: &mut [u8]) {
        for (group, block) in values.chunks_exact(GROUP).zip(blocks.chunks_exact_mut(BLOCK_BYTES)) {
            let d = amax(group);
            let inverse = inverse_or_zero(d);
            block[SCALE_OFFSET..].copy_from_slice(&f16::from_f32(d).to_le_bytes());
            for run in &RUNS {
                for m in 0..run.bytes {
                    // Four trits are scaled as if a fifth, least significant one were 0.
                    let v = (0..5).fold(0u32, |v, n| {
                        let trit = if n < run.trits {
                            ((group[run.first + m + run.bytes * n] * inverse).round() + 1.0).clamp(0.0, 2.0)
                                as u32
                        } else {
                            0
                        };
                        v * 3 + trit
                    });
                    block[run.byte + m] = (v * 256).div_ceil(243) as u8;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trits_lie_most_significant_first_in_strides() {
        let mut values = [0.0; GROUP];
        values[0] = 1.0; // qs[0], trit 0
        values[16] = -1.0; // qs[0], trit 1
        values[121] = 1.0; // qh[1], trit 0
        let mut block = [0; BLOCK_BYTES];
        Ptq1_0.encode(&values, &mut block);
        // V = 2*81 + 0*27 + 1*9 + 1*3 + 1 = 175 -> ceil(175 * 256 / 243) = 185
        assert_eq!(block[0], 185);
        // V = 2*81 + 27 + 9 + 3 + 0 = 201 -> ceil(201 * 256 / 243) = 212
        assert_eq!(block[25], 212);
        let mut back = [9.0; GROUP];
        Ptq1_0.decode(&block, &mut back);
        assert_eq!(back, values);
    }

    #[test]
    fn all_243_bytes_round_trip() {
        for v in 0..243u32 {
            let byte = (v * 256).div_ceil(243) as u8;
            let expected = [81, 27, 9, 3, 1].map(|place| (v / place % 3) as u8);
            assert_eq!([0, 1, 2, 3, 4].map(|n| trit(byte, n)), expected, "byte {byte}");
        }
    }
}
