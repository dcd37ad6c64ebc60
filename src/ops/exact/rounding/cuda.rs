//! CUDA's activations: Q8_1 in two shapes. All of this is read from source (quantize.cu, mmq.cuh, vecdotq.cuh), and not
//! compared with a dump of a CUDA run.
//!
//! ggml-cuda is compiled with `-use_fast_math`: a quotient is up to 2 units in the last place off, a reciprocal 1 (CUDA's
//! programming guide, intrinsic functions). So a code can fall on either side of a tie, and so can a scale or a sum that is
//! stored as f16. [`FAST_MATH`] bounds the error of the quotient; what lies so near a tie is a [`Doubt`]. An f32 scale that is
//! off by 6 u moves an element by as many u of its terms, of a budget of 45 u at the least (32 additions).
//!
//! Not here: products that round more than the activation. That is MMVQ in front of Q4_1 and Q5_1, which rounds the product of
//! two scales to f16 where the hardware is fast at that; MMQ without tensor cores; MXFP4 and NVFP4 activations of Blackwell;
//! IQ1_S, whose shift takes the stored sum; cuBLAS, which rounds weights and results to f16 as well, or f32 to TF32. What is
//! computed so is over its budget in a replay, or explained by nothing.

use half::f16;

use super::{Doubt, Rounded, Sums};
use crate::ops::exact::MmqLayout;
use crate::quant::amax;

/// Elements of a block, and of a sum, in all but one layout.
const BLOCK: usize = 32;
/// The largest code.
const LARGEST: f32 = 127.0;
/// Elements of a block of MMQ.
const MMQ_BLOCK: usize = 128;
/// Elements that share a scale, that share a sum, and that have stored sums, in layout D2S6.
const D2S6: (usize, usize, usize) = (64, 16, 96);

/// The relative size of a unit in the last place of f32, at most: 2 u.
const UNIT: f64 = f32::EPSILON as f64;
/// Relative error of `x / (amax / 127)` under `-use_fast_math`: two quotients of 2 units each.
const FAST_MATH: f64 = 4.0 * UNIT;
/// Relative error of a scale: a quotient and a reciprocal.
const SCALE_ERROR: f64 = 3.0 * UNIT;
/// Error of a sum of 32 in terms of its absolute values: six partial sums one upon the other, each rounded by half a unit.
const SUM_ERROR: f64 = 3.0 * UNIT;

/// A value that is stored as f16 and known with an error: what is stored, and how far that moves if it was rounded to the other
/// side.
fn stored(value: f64, error: f64) -> (f64, f64) {
    let round = |value: f64| f16::from_f32(value as f32).to_f64();
    (round(value), round(value + error) - round(value - error))
}

/// Rounds a block with one scale, `d = amax / 127`, codes to nearest with ties away from zero, onto the end of `rounded`.
fn block(block: &[f32], scale_is_half: bool, rounded: &mut Rounded) {
    let at = rounded.values.len();
    let largest = f64::from(amax(block));
    let exact = largest / f64::from(LARGEST);
    let (d, step) = if scale_is_half { stored(exact, exact * SCALE_ERROR) } else { (exact, 0.0) };
    let mut codes = Vec::with_capacity(block.len());
    for (i, &x) in block.iter().enumerate() {
        let quotient = if d == 0.0 { 0.0 } else { f64::from(x) / exact };
        let from_tie = (quotient.abs().fract() - 0.5).abs();
        if from_tie <= quotient.abs() * FAST_MATH {
            rounded.doubts.push(Doubt { at: at + i, moves: vec![d as f32] });
        }
        codes.push(quotient.round());
    }
    if step != 0.0 {
        let moves = codes.iter().map(|code| (code * step) as f32).collect();
        rounded.doubts.push(Doubt { at, moves });
    }
    rounded.values.extend(codes.iter().map(|code| (code * d) as f32));
}

/// The sum of unrounded values, as f16 stores it.
fn sum(values: &[f32]) -> (f64, f64) {
    let exact: f64 = values.iter().map(|&x| f64::from(x)).sum();
    let size: f64 = values.iter().map(|&x| f64::from(x.abs())).sum();
    stored(exact, size * SUM_ERROR)
}

impl Sums {
    fn push(&mut self, (value, step): (f64, f64)) {
        self.values.push(value);
        self.steps.push(step);
    }
}

/// In front of mul_mat_vec_q (`quantize_q8_1`): a scale and a sum per 32, both as f16; the sum is of the values before they are
/// rounded.
pub(super) fn mmvq(row: &[f32]) -> Rounded {
    let (mut rounded, mut sums) = (Rounded::default(), Sums { width: BLOCK, ..Sums::default() });
    for values in row.chunks(BLOCK) {
        block(values, true, &mut rounded);
        sums.push(sum(values));
    }
    Rounded { sums: Some(sums), ..rounded }
}

/// In front of mul_mat_q (`quantize_mmq_q8_1`); sums are of the values before they are rounded.
pub(super) fn mmq(layout: MmqLayout, row: &[f32]) -> Rounded {
    let mut rounded = Rounded::default();
    match layout {
        MmqLayout::D4 => row.chunks(BLOCK).for_each(|values| block(values, false, &mut rounded)),
        MmqLayout::Ds4 => return mmvq(row),
        MmqLayout::D2s6 => {
            let (per_scale, per_sum, summed) = D2S6;
            let mut sums = Sums { width: per_sum, ..Sums::default() };
            row.chunks(per_scale).for_each(|values| block(values, true, &mut rounded));
            for (i, values) in row.chunks(per_sum).enumerate() {
                let at = i * per_sum;
                if at % MMQ_BLOCK < summed {
                    sums.push(sum(values));
                } else {
                    // Of the last ones the kernel adds up the codes.
                    let codes = rounded.values[at..].iter().take(values.len());
                    sums.push((codes.map(|&x| f64::from(x)).sum(), 0.0));
                }
            }
            rounded.sums = Some(sums);
        }
    }
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_away_from_zero_and_are_in_doubt() {
        for rounded in [mmvq(&[127.0, 0.5, -2.5, 2.4]), mmq(MmqLayout::D4, &[127.0, 0.5, -2.5, 2.4])] {
            assert_eq!(rounded.values, [127.0, 1.0, -3.0, 2.0]);
            assert_eq!(
                rounded.doubts,
                [Doubt { at: 1, moves: vec![1.0] }, Doubt { at: 2, moves: vec![1.0] }]
            );
        }
    }

    #[test]
    fn a_quotient_off_by_more_than_fast_math_is_not_in_doubt() {
        let near = 2.5 * (1.0 + 3.0 * UNIT) as f32;
        assert_eq!(mmvq(&[127.0, near]).doubts.len(), 1);
        let beyond = 2.5 * (1.0 + 6.0 * UNIT) as f32;
        assert_eq!((mmvq(&[127.0, beyond]).doubts.len(), mmvq(&[127.0, beyond]).values[1]), (0, 3.0));
    }

    #[test]
    fn sums_are_of_what_was_not_rounded() {
        // 127 + 0.25 + 0.25; the codes are 127, 0, 0
        for rounded in [mmvq(&[127.0, 0.25, 0.25]), mmq(MmqLayout::Ds4, &[127.0, 0.25, 0.25])] {
            let sums = rounded.sums.unwrap();
            assert_eq!(rounded.values, [127.0, 0.0, 0.0]);
            assert_eq!((sums.width, sums.values, sums.steps), (32, vec![127.5], vec![0.0]));
        }
    }

    #[test]
    fn a_scale_near_the_middle_between_two_halves_is_in_doubt_as_a_whole() {
        // Between 1 and its successor 1 + 2^-10: d = 1 + 2^-11
        let largest = 127.0 * (1.0 + 0.5f32.powi(11));
        let rounded = mmvq(&[largest, 2.0]);
        assert_eq!(rounded.values, [127.0, 2.0]);
        let step = 0.5f32.powi(10);
        assert_eq!(rounded.doubts, [Doubt { at: 0, moves: vec![127.0 * step, 2.0 * step] }]);
        // The layout with f32 scales has no such doubt, and keeps the scale.
        let kept = mmq(MmqLayout::D4, &[largest, 2.0]);
        assert_eq!((kept.values, kept.doubts), (vec![largest, 2.0 * (1.0 + 0.5f32.powi(11))], vec![]));
    }

    #[test]
    fn layout_d2s6_has_a_scale_per_64_and_no_sum_of_the_last_32() {
        let mut row = vec![0.25; 128];
        (row[0], row[64]) = (127.0, 254.0);
        let rounded = mmq(MmqLayout::D2s6, &row);
        assert_eq!((rounded.values[63], rounded.values[64], rounded.values[65]), (0.0, 254.0, 0.0));
        let sums = rounded.sums.unwrap();
        assert_eq!(sums.values, [130.75, 4.0, 4.0, 4.0, 257.75, 4.0, 0.0, 0.0]);
    }

    #[test]
    fn zeros_stay_zeros() {
        assert_eq!(mmvq(&[0.0; 32]).values, [0.0; 32]);
        assert_eq!(mmq(MmqLayout::D4, &[0.0; 32]).values, [0.0; 32]);
        assert_eq!(mmvq(&[0.0; 32]).doubts, []);
    }
}
