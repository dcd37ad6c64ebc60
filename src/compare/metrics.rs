//! How far one tensor is from another.
//!
//! With `d = y - x` over all elements, `|.|` the Euclidean norm and `s = sum d (x + y) = |y|^2 - |x|^2`:
//!
//! ```text
//! relative L2  = |d| / |x|
//! 1 - cosine   = (|d|^2 - (|y| - |x|)^2) / (2 |x| |y|),   |y| - |x| = s / (|x| + |y|)
//! scaled error = max over elements of |d| / terms
//! ```
//!
//! All sums are f64, and f32 inputs are exact in it. The second form of `1 - cosine` has no
//! subtraction of nearly equal numbers of size 1: its error is below `8 g |d|^2 / (2 |x| |y|)` with
//! `g = (n / 512 + 140) 2^-53`, that is, a relative error of about `8 g` unless y is a multiple of x, and
//! then an absolute one of `4 g` times the square of the relative L2. At n = 1e6 and a relative L2 of
//! 1e-5 that is 1e-22, where `1.0 - cosine` is off by 1e-16 at best. Where the tensors are far apart
//! (`|d|^2 > 2 |x| |y|`, a negative or small cosine) it is `1 - x.y / (|x| |y|)`, to an absolute `4 g`.

use super::CompareError;
use super::sums::{Sums, sums};
use crate::tensor::Values;

/// Non-finite values of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NonFinite {
    /// How many values are NaN or infinite.
    pub count: u64,
    /// Flat index of the first.
    pub first: Option<u64>,
}

/// The distance of an actual tensor from its reference. If a value on either side is not finite, then
/// cosine and relative L2 are NaN, which no limit accepts.
#[derive(Clone, PartialEq, Debug)]
pub struct Metrics {
    /// Elements on each side.
    pub elements: u64,
    /// Cosine of the angle between the two; 1 if both are zero, 0 if one is.
    pub cosine: f64,
    /// `1 - cosine`, accurate where it is small (see the module's text).
    pub one_minus_cosine: f64,
    /// `|y - x| / |x|`; for a reference of zeros 0 if the actual tensor is zero too, else infinite.
    pub relative_l2: f64,
    /// Largest `|y - x|`; of the first non-finite pair, if there is one.
    pub max_abs: f64,
    /// Flat index of `max_abs` (the first, if several are equal).
    pub worst_index: u64,
    /// The reference's value there.
    pub reference: f64,
    /// The actual value there.
    pub actual: f64,
    /// Largest `|y - x| / terms`, where the terms are known; never NaN.
    pub scaled_error: Option<f64>,
    /// Mean of the reference's squares.
    pub reference_mean_square: f64,
    /// Mean of the actual tensor's squares.
    pub actual_mean_square: f64,
    /// Non-finite values of the reference.
    pub reference_nonfinite: NonFinite,
    /// Non-finite values of the actual tensor.
    pub actual_nonfinite: NonFinite,
    /// Every value of both sides is zero: equal, but a weak test.
    pub both_zero: bool,
}

impl Metrics {
    /// Compares all elements in one pass (`terms`, where given, in a second).
    ///
    /// # Errors
    /// If the lengths differ: nothing is ever compared up to the shorter one.
    pub fn measure(
        reference: &[f32],
        actual: Values<'_>,
        terms: Option<&[f64]>,
    ) -> Result<Metrics, CompareError> {
        if reference.len() != actual.len() {
            return Err(CompareError::Elements { reference: reference.len(), actual: actual.len() });
        }
        let sums = match actual {
            Values::F32(y) => sums(reference, y),
            Values::F64(y) => sums(reference, y),
        };
        let scaled_error = terms.map(|terms| scaled_error(reference, actual, terms)).transpose()?;
        let first_bad = [sums.x_bad.1, sums.y_bad.1].into_iter().flatten().min();
        let worst = first_bad.unwrap_or(sums.max_index);
        let at = (reference.get(worst).map_or(0.0, |&x| f64::from(x)), actual.get(worst).unwrap_or(0.0));
        let both_zero = first_bad.is_none() && sums.xx == 0.0 && sums.max == 0.0;
        let (one_minus_cosine, cosine, relative_l2) = match first_bad {
            Some(_) => (f64::NAN, f64::NAN, f64::NAN),
            None if both_zero => (0.0, 1.0, 0.0),
            None => {
                let (one_minus_cosine, cosine) = angle(&sums);
                (one_minus_cosine, cosine, relative_l2(&sums))
            }
        };
        let n = reference.len().max(1) as f64;
        Ok(Metrics {
            elements: reference.len() as u64,
            cosine,
            one_minus_cosine,
            relative_l2,
            max_abs: if first_bad.is_some() { (at.1 - at.0).abs() } else { sums.max },
            worst_index: worst as u64,
            reference: at.0,
            actual: at.1,
            scaled_error,
            reference_mean_square: sums.xx / n,
            actual_mean_square: sums.yy / n,
            reference_nonfinite: non_finite(sums.x_bad),
            actual_nonfinite: non_finite(sums.y_bad),
            both_zero,
        })
    }

    /// Whether a value on either side is NaN or infinite.
    pub fn has_nonfinite(&self) -> bool {
        self.reference_nonfinite.count > 0 || self.actual_nonfinite.count > 0
    }
}

/// The largest `|y - x| / terms`: infinite where terms is zero and the values differ, or where any of
/// the three is not a number to be trusted; never NaN.
///
/// # Errors
/// If the three lengths are not equal.
pub fn scaled_error(reference: &[f32], actual: Values<'_>, terms: &[f64]) -> Result<f64, CompareError> {
    if reference.len() != actual.len() {
        return Err(CompareError::Elements { reference: reference.len(), actual: actual.len() });
    }
    if reference.len() != terms.len() {
        return Err(CompareError::Terms { reference: reference.len(), terms: terms.len() });
    }
    fn largest<T: Copy + Into<f64>>(x: &[f32], y: &[T], terms: &[f64]) -> f64 {
        x.iter().zip(y).zip(terms).fold(0.0, |max, ((&x, &y), &terms)| {
            let d = (y.into() - f64::from(x)).abs();
            let scaled = if d == 0.0 { 0.0 } else { d / terms };
            let trusted = (0.0..f64::INFINITY).contains(&terms) && !scaled.is_nan();
            let scaled = if trusted { scaled } else { f64::INFINITY };
            if scaled > max { scaled } else { max }
        })
    }
    Ok(match actual {
        Values::F32(y) => largest(reference, y, terms),
        Values::F64(y) => largest(reference, y, terms),
    })
}

/// `(1 - cosine, cosine)` of two tensors that are not both zero.
fn angle(s: &Sums) -> (f64, f64) {
    let (x, y) = (s.xx.sqrt(), s.yy.sqrt());
    let product = x * y;
    if product == 0.0 {
        return (1.0, 0.0);
    }
    if s.dd <= 2.0 * product {
        let lengths = s.ds / (x + y);
        let value = (s.dd - lengths * lengths) / (2.0 * product);
        let value = if value < 0.0 { 0.0 } else { value }; // not `max`, which would turn NaN into 0
        (value, 1.0 - value)
    } else {
        let cosine = s.xy / product;
        (1.0 - cosine, cosine)
    }
}

/// `|d| / |x|` of two tensors that are not both zero: infinite for a reference of zeros.
fn relative_l2(s: &Sums) -> f64 {
    if s.xx == 0.0 { f64::INFINITY } else { s.dd.sqrt() / s.xx.sqrt() }
}

fn non_finite((count, first): (u64, Option<usize>)) -> NonFinite {
    NonFinite { count, first: first.map(|i| i as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measure(x: &[f32], y: &[f32]) -> Metrics {
        Metrics::measure(x, Values::F32(y), None).unwrap()
    }

    #[test]
    fn metrics_written_out() {
        let m = measure(&[3.0, 4.0, 0.0], &[3.0, 4.0, 5.0]);
        assert_eq!(m.elements, 3);
        assert_eq!(m.relative_l2, 1.0); // |d| = 5, |x| = 5
        assert!((m.cosine - 25.0 / (5.0 * 50f64.sqrt())).abs() < 1e-15); // cos 45 degrees
        assert_eq!((m.max_abs, m.worst_index, m.reference, m.actual), (5.0, 2, 0.0, 5.0));
        assert_eq!((m.reference_mean_square, m.actual_mean_square), (25.0 / 3.0, 50.0 / 3.0));
        let opposite = measure(&[3.0, 4.0], &[-3.0, -4.0]);
        assert_eq!((opposite.cosine, opposite.one_minus_cosine, opposite.relative_l2), (-1.0, 2.0, 2.0));
    }

    #[test]
    fn a_tiny_angle_keeps_its_digits() {
        // y is x turned by 1e-9: 1 - cos = 5e-19, which 1.0 - cosine cannot express.
        let m = Metrics::measure(&[1.0, 0.0], Values::F64(&[1.0, 1e-9]), None).unwrap();
        assert!((m.one_minus_cosine / 5e-19 - 1.0).abs() < 1e-9, "{}", m.one_minus_cosine);
        let m = Metrics::measure(&[2.0, 0.0], Values::F64(&[3.0, 3e-5]), None).unwrap();
        assert!((m.one_minus_cosine / 5e-11 - 1.0).abs() < 1e-5, "{}", m.one_minus_cosine);
    }

    #[test]
    fn zeros_are_an_explicit_state() {
        let both = measure(&[0.0, -0.0], &[0.0, 0.0]);
        assert!(both.both_zero);
        assert_eq!((both.cosine, both.relative_l2, both.max_abs), (1.0, 0.0, 0.0));
        let one = measure(&[0.0, 0.0], &[0.0, 1e-30]);
        assert!(!one.both_zero);
        assert_eq!((one.cosine, one.relative_l2), (0.0, f64::INFINITY));
        // Its square underflows, and it is still not zero.
        let tiny = Metrics::measure(&[0.0], Values::F64(&[1e-300]), None).unwrap();
        assert!(!tiny.both_zero && tiny.relative_l2.is_infinite());
        assert_eq!(measure(&[1.0, 0.0], &[0.0, 0.0]).relative_l2, 1.0);
    }

    #[test]
    fn non_finite_values_poison_the_metrics() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let m = measure(&[1.0, 2.0, 3.0], &[1.0, bad, 3.0]);
            assert!(m.cosine.is_nan() && m.relative_l2.is_nan() && m.has_nonfinite());
            assert_eq!(m.actual_nonfinite, NonFinite { count: 1, first: Some(1) });
            assert_eq!((m.worst_index, m.reference_nonfinite.count), (1, 0));
            let equal = measure(&[1.0, bad], &[1.0, bad]);
            assert!(equal.relative_l2.is_nan() && equal.reference_nonfinite.count == 1);
        }
        // Finite, but too large to square: no NaN, and nothing that a limit accepts.
        let large = Metrics::measure(&[1.0], Values::F64(&[1e200]), None).unwrap();
        assert!(!large.has_nonfinite() && large.relative_l2.is_infinite());
    }

    #[test]
    fn scaled_error_is_per_element_and_never_nan() {
        let scaled = |y: &[f32], terms: &[f64]| scaled_error(&[1.0, 2.0], Values::F32(y), terms).unwrap();
        assert_eq!(scaled(&[1.5, 2.25], &[2.0, 0.5]), 0.5); // 0.5 / 2 and 0.25 / 0.5
        assert_eq!(scaled(&[1.0, 2.0], &[0.0, 1.0]), 0.0);
        assert_eq!(scaled(&[1.5, 2.0], &[0.0, 1.0]), f64::INFINITY);
        assert_eq!(scaled(&[f32::NAN, 2.0], &[1.0, 1.0]), f64::INFINITY);
        for terms in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(scaled(&[1.5, 2.0], &[terms, 1.0]), f64::INFINITY);
            assert_eq!(scaled(&[1.0, 2.0], &[terms, 1.0]), f64::INFINITY);
        }
    }

    #[test]
    fn lengths_are_never_truncated() {
        let error = Metrics::measure(&[1.0, 2.0], Values::F32(&[1.0]), None).unwrap_err();
        assert_eq!(error, CompareError::Elements { reference: 2, actual: 1 });
        let error = Metrics::measure(&[1.0], Values::F32(&[1.0]), Some(&[])).unwrap_err();
        assert_eq!(error, CompareError::Terms { reference: 1, terms: 0 });
    }

    proptest! {
        #[test]
        fn a_tensor_equals_itself(x in proptest::collection::vec(-1e3f32..1e3, 1..2000)) {
            let m = measure(&x, &x);
            prop_assert_eq!((m.one_minus_cosine, m.relative_l2, m.max_abs), (0.0, 0.0, 0.0));
        }

        #[test]
        fn scaling_leaves_the_angle(x in proptest::collection::vec(0.1f32..1e3, 1..2000), k in -9i32..9) {
            let y: Vec<f32> = x.iter().map(|v| v * 2f32.powi(k)).collect();
            let m = measure(&x, &y);
            prop_assert!(m.one_minus_cosine < 1e-12, "{}", m.one_minus_cosine);
            prop_assert!((m.relative_l2 - (2f64.powi(k) - 1.0).abs()).abs() < 1e-9 * 2f64.powi(k.max(0)));
        }

        #[test]
        fn the_order_of_elements_does_not_matter(
            pairs in proptest::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 1..2000)
        ) {
            let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let (xr, yr): (Vec<f32>, Vec<f32>) = pairs.iter().rev().copied().unzip();
            let (a, b) = (measure(&x, &y), measure(&xr, &yr));
            prop_assert!((a.one_minus_cosine - b.one_minus_cosine).abs() < 1e-12);
            prop_assert!((a.relative_l2 - b.relative_l2).abs() <= 1e-12 * a.relative_l2);
            prop_assert_eq!(a.max_abs, b.max_abs);
        }

        #[test]
        fn both_forms_of_the_angle_agree(
            pairs in proptest::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 1..200)
        ) {
            let (x, y): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let m = measure(&x, &y);
            let dot: f64 = x.iter().zip(&y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
            let norm = |v: &[f32]| v.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
            let product = norm(&x) * norm(&y);
            prop_assume!(product > 0.0);
            prop_assert!((m.one_minus_cosine - (1.0 - dot / product)).abs() < 1e-12);
        }
    }
}
