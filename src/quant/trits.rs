//! The base-3 code that [`TQ1_0`](super::tq1_0) and [`PTQ1_0`](super::ptq1_0) share: five trits a byte.
//!
//! Trit n = 0 is the most significant. A byte holds `ceil(V * 256 / 243)` with `V = sum xi_n 3^(4 - n)`, so that
//! multiplying by `3^n` modulo 256 and then by 3 brings trit n above bit 8. `w = (trit - 1) * d`.

/// `3^n` for trit n.
const POW3: [u8; 5] = [1, 3, 9, 27, 81];

/// A run of bytes: element of (byte m, trit n) is `first + m + bytes * n`.
pub(super) struct Run {
    pub(super) byte: usize,
    pub(super) bytes: usize,
    pub(super) first: usize,
    pub(super) trits: usize,
}

/// Trit n of a byte: 0, 1 or 2.
pub(super) fn trit(byte: u8, n: usize) -> u8 {
    ((u16::from(byte.wrapping_mul(POW3[n])) * 3) >> 8) as u8
}

/// Decodes the trits of one block.
pub(super) fn decode(runs: &[Run], bytes: &[u8], d: f32, group: &mut [f32]) {
    for run in runs {
        for m in 0..run.bytes {
            for n in 0..run.trits {
                let trit = trit(bytes[run.byte + m], n);
                group[run.first + m + run.bytes * n] = (f32::from(trit) - 1.0) * d;
            }
        }
    }
}

/// The byte and the trit of element j.
pub(super) fn place(runs: &[Run], j: usize) -> (usize, usize) {
    let run = runs.iter().rfind(|run| run.first <= j).unwrap_or(&runs[0]);
    (run.byte + (j - run.first) % run.bytes, (j - run.first) / run.bytes)
}

/// Encodes the values of one block, multiplied by `inverse` and rounded half away from zero.
pub(super) fn encode(runs: &[Run], group: &[f32], inverse: f32, bytes: &mut [u8]) {
    for run in runs {
        for m in 0..run.bytes {
            // Four trits are scaled as if a fifth, least significant one were 0.
            let v = (0..5).fold(0u32, |v, n| {
                let trit = if n < run.trits {
                    ((group[run.first + m + run.bytes * n] * inverse).round() + 1.0).clamp(0.0, 2.0) as u32
                } else {
                    0
                };
                v * 3 + trit
            });
            bytes[run.byte + m] = (v * 256).div_ceil(243) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_243_bytes_round_trip() {
        for v in 0..243u32 {
            let byte = (v * 256).div_ceil(243) as u8;
            let expected = [81, 27, 9, 3, 1].map(|place| (v / place % 3) as u8);
            assert_eq!([0, 1, 2, 3, 4].map(|n| trit(byte, n)), expected, "byte {byte}");
        }
    }
}
