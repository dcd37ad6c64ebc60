//! The sum of an attention that ggml-cpu keeps in f16 and rounds after each key
//! (`ggml_compute_forward_flash_attn_ext_f16_one_chunk`, ops.cpp).
//!
//! ```text
//! for each key:  s > M:  A = f16(A exp(M - s)), M = s, w = 1     else  w = exp(s - M)      A = f16(A + v w)
//! ```
//! What is rounded is an f32, and a difference in its last place decides a tie. So the sum is followed as a range `lo..=hi`
//! that holds ggml's, with the likeliest value in it. Rounding is monotone, and so is `f32(A + v w)` in A and in w: from the
//! ends of A and w come those of the next A. Where no tie is near, both ends round to one f16, and lo = hi.
//!
//! What is not known is w and the factor of A: `expf` of a C library errs by [`LIBM_ULPS`] at most from the nearest f32.
//! A logit is known to the bit where the order of ggml's sum is known ([`SumOrder::Avx`]), as its other steps are single f32
//! operations; in any other order, n products and additions err by n u of the sum of their sizes at most. If the range of s
//! overlaps that of M, both branches are taken.

use half::f16;

use super::SumOrder;
use super::attention::{Key, Query};
use crate::arithmetic::{Isa, dot_f16};

/// By how many units in the last place `expf` and `tanhf` of a C library may be off: glibc's manual has 1 for expf and 2 for tanhf
/// on the machines that ggml runs on.
const LIBM_ULPS: u32 = 2;

/// An f32 of ggml's that lies in `lo..=hi`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Range {
    lo: f32,
    likely: f32,
    hi: f32,
}

/// The sum over some keys.
pub(super) struct Part {
    /// The largest logit.
    pub(super) max: f64,
    /// The sum of the weights.
    pub(super) weights: f64,
    /// The sum of the weighted values: least, likeliest, largest.
    pub(super) sums: Vec<[f32; 3]>,
}

/// Elements that ggml takes at once with one fused multiply-add each; a compiler may fuse what is left over, or not.
const VECTOR_STEP: usize = 32;

/// Adds up the values of some of a query's keys, in ggml's order.
pub(super) fn accumulate<'a, 'k: 'a>(
    query: &Query<'_>,
    keys: impl Iterator<Item = &'a Key<'k>>,
    dv: usize,
    order: SumOrder,
) -> Part {
    let mut max = Range::known(f32::NEG_INFINITY);
    let mut weights = 0.0;
    let mut sums = vec![[0.0; 3]; dv];
    let fused = if order == SumOrder::Avx { dv - dv % VECTOR_STEP } else { 0 };
    for key in keys {
        let s = logit(query, key, order);
        let (factor, weight) = (exp(max.minus(s)), exp(s.minus(max)));
        let rescales = s.likely > max.likely;
        for (d, (sum, &v)) in sums.iter_mut().zip(key.v).enumerate() {
            let rescaled = || add(scale(*sum, factor), v, Range::known(1.0), true);
            let plain = || add(*sum, v, weight, d < fused);
            *sum = if s.lo > max.hi {
                rescaled()
            } else if s.hi <= max.lo {
                plain()
            } else {
                join(rescaled(), plain(), rescales)
            };
        }
        weights = if rescales {
            weights * f64::from(factor.likely) + 1.0
        } else {
            weights + f64::from(weight.likely)
        };
        max = max.or(s);
    }
    Part { max: max.likely.into(), weights, sums }
}

/// The logit of a key as ggml has it.
fn logit(query: &Query<'_>, key: &Key<'_>, order: SumOrder) -> Range {
    let dot = match order {
        SumOrder::Avx => Range::known(dot_f16(Isa::Avx2, query.q, key.k)),
        SumOrder::Any => any_order(query.q, key.k),
    };
    let (x, factor) = match query.softcap {
        0.0 => (dot, query.scale),
        cap => (dot.times(query.scale).apply(f64::tanh).widened(LIBM_ULPS), cap),
    };
    if key.mask == 0.0 {
        return x.times(factor);
    }
    // A compiler may fuse the product with the sum, or not.
    let (slope, roundings) = query.slope;
    let bias = slope * f64::from(key.mask);
    let bias = Range::around(bias, bias.abs() * roundings * f64::from(f32::EPSILON));
    let ends = |x: f32, bias: f32| [x * factor + bias, x.mul_add(factor, bias)];
    let all = [ends(x.lo, bias.lo), ends(x.lo, bias.hi), ends(x.hi, bias.lo), ends(x.hi, bias.hi)];
    Range::hull(x.likely * factor + bias.likely, all.into_iter().flatten())
}

/// A product of two rows, summed in an order that is not known.
fn any_order(x: &[f32], y: &[f32]) -> Range {
    let (dot, terms) = x.iter().zip(y).fold((0.0, 0.0), |(dot, terms), (&x, &y)| {
        let term = f64::from(x) * f64::from(y);
        (dot + term, terms + term.abs())
    });
    let n_u = x.len() as f64 * f64::from(f32::EPSILON) / 2.0;
    Range::around(dot, terms * n_u / (1.0 - n_u))
}

/// `exp(x)` where ggml has x <= 0.
fn exp(x: Range) -> Range {
    let y = x.apply(|x| x.min(0.0).exp());
    let wide = y.widened(LIBM_ULPS);
    // exp(0) and exp(-inf) are exact.
    let is_exact = |y: f32| y == 1.0 || y == 0.0;
    Range {
        lo: if is_exact(y.lo) { y.lo } else { wide.lo.max(0.0) },
        likely: y.likely,
        hi: if is_exact(y.hi) { y.hi } else { wide.hi.min(1.0) },
    }
}

/// `f16(A factor)`.
fn scale([lo, likely, hi]: [f32; 3], factor: Range) -> [f32; 3] {
    let scaled = |a: f32, factor: f32| to_f16(a * factor);
    [
        scaled(lo, factor.lo).min(scaled(lo, factor.hi)),
        scaled(likely, factor.likely),
        scaled(hi, factor.lo).max(scaled(hi, factor.hi)),
    ]
}

/// `f16(A + v w)`, the product rounded to f32 first, or not; `fused` says that it is not.
fn add([lo, likely, hi]: [f32; 3], v: f32, w: Range, fused: bool) -> [f32; 3] {
    let once = |a: f32, w: f32| to_f16(v.mul_add(w, a));
    let (mut least, mut largest) = (once(lo, w.lo).min(once(lo, w.hi)), once(hi, w.lo).max(once(hi, w.hi)));
    if !fused {
        let twice = |a: f32, w: f32| to_f16(a + v * w);
        least = least.min(twice(lo, w.lo)).min(twice(lo, w.hi));
        largest = largest.max(twice(hi, w.lo)).max(twice(hi, w.hi));
    }
    [least, if least == largest { least } else { once(likely, w.likely) }, largest]
}

/// What holds both; the likeliest is that of the first if `first`.
fn join(a: [f32; 3], b: [f32; 3], first: bool) -> [f32; 3] {
    [a[0].min(b[0]), if first { a[1] } else { b[1] }, a[2].max(b[2])]
}

fn to_f16(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

impl Range {
    fn known(x: f32) -> Range {
        Range { lo: x, likely: x, hi: x }
    }

    /// An f32 that is the rounding of something within `error` of `x`.
    fn around(x: f64, error: f64) -> Range {
        Range { lo: (x - error) as f32, likely: x as f32, hi: (x + error) as f32 }
    }

    fn hull(likely: f32, ends: impl Iterator<Item = f32>) -> Range {
        let (lo, hi) = ends.fold((likely, likely), |(lo, hi), end| (lo.min(end), hi.max(end)));
        Range { lo, likely, hi }
    }

    /// Both ends moved outwards by some units in the last place.
    fn widened(self, ulps: u32) -> Range {
        let (mut lo, mut hi) = (self.lo, self.hi);
        for _ in 0..ulps {
            (lo, hi) = (lo.next_down(), hi.next_up());
        }
        Range { lo, hi, ..self }
    }

    /// An increasing function of it, rounded to f32.
    fn apply(self, f: impl Fn(f64) -> f64) -> Range {
        let f = |x: f32| f(f64::from(x)) as f32;
        Range { lo: f(self.lo), likely: f(self.likely), hi: f(self.hi) }
    }

    fn times(self, factor: f32) -> Range {
        Range::hull(self.likely * factor, [self.lo * factor, self.hi * factor].into_iter())
    }

    /// f32 difference.
    fn minus(self, other: Range) -> Range {
        Range { lo: self.lo - other.hi, likely: self.likely - other.likely, hi: self.hi - other.lo }
    }

    /// The larger one.
    fn or(self, other: Range) -> Range {
        Range { lo: self.lo.max(other.lo), likely: self.likely.max(other.likely), hi: self.hi.max(other.hi) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of the step between the f16 values at 1.
    const HALF_STEP: f32 = 1.0 / 2048.0;

    /// The sum over keys of one element, each with its logit and its value.
    fn sum_of(keys: &[(f32, f32)], order: SumOrder) -> Part {
        let query = Query {
            q: &[1.0],
            keys: Vec::new(),
            first: 0,
            sink: None,
            scale: 1.0,
            softcap: 0.0,
            slope: (1.0, 0.0),
            single_slope: 1.0,
        };
        let keys: Vec<Key<'_>> = keys
            .iter()
            .map(|(k, v)| Key { index: 0, k: std::slice::from_ref(k), v: std::slice::from_ref(v), mask: 0.0 })
            .collect();
        accumulate(&query, keys.iter(), 1, order)
    }

    #[test]
    fn the_sum_is_rounded_after_each_key() {
        // 1 + 0.3 step is 1, twice; rounded once it were 1 + 0.6 step, which is 1 + step
        let part = sum_of(&[(0.0, 1.0), (0.0, 0.6 * HALF_STEP), (0.0, 0.6 * HALF_STEP)], SumOrder::Avx);
        assert_eq!((part.sums, part.weights, part.max), (vec![[1.0; 3]], 3.0, 0.0));
        // a new maximum: f16(1 / e) + 1, of which only exp(-1) is not known to the last place
        let part = sum_of(&[(0.0, 1.0), (1.0, 1.0)], SumOrder::Avx);
        assert_eq!((part.sums, part.max), (vec![[1.3681641; 3]], 1.0));
        assert!((part.weights - (1.0 + (-1f64).exp())).abs() < 1e-7);
    }

    #[test]
    fn where_a_tie_is_near_the_range_holds_both_sides() {
        // exp(-ln 2) is 1/2 or an f32 beside it: 1 + (2 + 4 HALF_STEP) / 2 is the middle between two f16
        let step = 4.0 * HALF_STEP;
        let keys = |v| [(0.0, 1.0), (-std::f32::consts::LN_2, v)];
        let [lo, likely, hi] = sum_of(&keys(2.0 + step), SumOrder::Avx).sums[0];
        assert_eq!((lo, hi), (2.0, 2.0 + step));
        assert!(likely == lo || likely == hi);
        // twice that is an f16 itself
        assert_eq!(sum_of(&keys(2.0 + 2.0 * step), SumOrder::Avx).sums, [[2.0 + step; 3]]);
    }

    #[test]
    fn logits_too_close_to_tell_apart_take_both_branches() {
        // Either may be the larger one, so that the weight of the first is rounded to f16 on the way, or not.
        let keys = [(1.0, 1.0), (1.0f32.next_up(), 1.0)];
        assert_eq!(sum_of(&keys, SumOrder::Avx).sums, [[2.0; 3]]);
        let part = sum_of(&keys, SumOrder::Any);
        assert_eq!((part.sums[0], part.max), ([2.0; 3], f64::from(1.0f32.next_up())));
        let dot = any_order(&[1.0, 1.0], &[1.0, -1.0]);
        // two terms of 1: 2 u of 2
        let error = f32::EPSILON * 2.0;
        assert!(
            dot.lo <= -error && dot.likely == 0.0 && dot.hi >= error && dot.hi < error * 1.001,
            "{dot:?}"
        );
    }

    #[test]
    fn what_is_left_over_may_be_fused_or_not() {
        // v w = HALF_STEP + 2^-24 + less than 2^-35: beside 1, an f32 takes 2^-24 for a tie, unless it sees what comes after
        let (v, w) = (1.0 + 1.0 / 1024.0, Range::known(16762894.0 / (1u64 << 35) as f32));
        assert_eq!(add([1.0; 3], v, w, true), [1.0 + 2.0 * HALF_STEP; 3]);
        let [lo, _, hi] = add([1.0; 3], v, w, false);
        assert_eq!((lo, hi), (1.0, 1.0 + 2.0 * HALF_STEP));
    }
}
