//! Activations that UNARY and GLU share, each at one point: SILU, the forms of GELU, RELU.
//!
//! ```text
//! silu(x)       = x / (1 + exp(-a x))                 a = 1, but for SWIGLU_OAI; terms = |y| (1 + |a x|) if a is not 1
//! gelu(x)       = x (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x^2))) / 2      ggml-cpu: from a table of f16
//! gelu_quick(x) = x / (1 + exp(-1.702 x))                                  ggml-cpu: from a table of f16
//! gelu_erf(x)   = x (1 + erf(x / sqrt(2))) / 2        terms = |x| (1 + |erf|) / 2: the sum cancels for negative x
//! ```
//! terms = |y| where nothing else is said.

use half::f16;

use super::Exact;

/// A function at one point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Point {
    pub(super) value: f64,
    pub(super) terms: f64,
    /// How far the value moves if a purposeful rounding goes to the other side.
    pub(super) flip: f64,
}

impl Point {
    /// A value whose terms are its size.
    pub(super) fn plain(value: f64) -> Point {
        Point { value, terms: value.abs(), flip: 0.0 }
    }

    /// Times an exact factor.
    pub(super) fn times(self, factor: f64) -> Point {
        let size = factor.abs();
        Point { value: self.value * factor, terms: self.terms * size, flip: self.flip * size }
    }
}

/// Points as a result; `additions` as in [`Exact`].
pub(super) fn collect(additions: f64, points: impl Iterator<Item = Point>) -> Exact {
    let points: Vec<Point> = points.collect();
    let exact = Exact::collect(additions, points.iter().map(|point| (point.value, point.terms)));
    let rounds = points.iter().any(|point| point.flip != 0.0);
    let flips = if rounds { points.iter().map(|point| point.flip).collect() } else { Vec::new() };
    Exact { flips, ..exact }
}

/// `max(x, 0)`
pub(super) fn relu(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.0 }
}

/// `x / (1 + exp(-alpha x))`
///
/// ggml's exponential is one of f32, infinite from `ln(f32::MAX)`: below -88.7 its silu is 0 where the exact one is still a
/// normal number (2e-37).
pub(super) fn silu(x: f64, alpha: f64) -> Point {
    let product = alpha * x;
    let exponential = (-product).exp();
    let value = if exponential > f64::from(f32::MAX) { -0.0 } else { x / (1.0 + exponential) };
    let amplified = if alpha == 1.0 { 1.0 } else { 1.0 + product.abs() };
    Point { terms: value.abs() * amplified, ..Point::plain(value) }
}

/// Beyond this, ggml takes gelu(x) to be x or 0.
const GELU_LINEAR: f64 = 10.0;
/// `sqrt(2 / pi)`, the cubic coefficient of the tanh form, the factor of the quick form (vec.h).
const SQRT_2_OVER_PI: f32 = 0.797_884_6;
const GELU_COEF_A: f32 = 0.044_715;
const GELU_QUICK_COEF: f32 = -1.702;
/// One rounding to f32.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;
/// Eight roundings of the tanh form: the cube, two sums, tanh (two), and two products.
const TANH_ROUNDINGS: f64 = 8.0;
/// Five of the quick form: the exponential (two), the sum, the reciprocal and the product.
const QUICK_ROUNDINGS: f64 = 5.0;

/// gelu as ggml-cpu looks it up, and how far it moves if its rounding goes to the other side: for x rounded to f16, the f32
/// value of the tanh form rounded to f16 (`ggml_table_gelu_f16`, ggml-cpu.c). The input is an f32.
///
/// The table is filled by the compiler's f32 arithmetic, contracted or not: a value within the roundings of the middle
/// between two f16 may have gone either way, a very small one by several steps.
pub(super) fn gelu(x: f64) -> Point {
    if x <= -GELU_LINEAR {
        return Point::plain(0.0);
    }
    if x >= GELU_LINEAR {
        return Point::plain(x);
    }
    let x = f16::from_f64(x).to_f32();
    let y = 0.5 * x * (1.0 + (SQRT_2_OVER_PI * x * (1.0 + GELU_COEF_A * x * x)).tanh());
    // 1 + tanh cancels for negative x: its rounding is one of 1, whatever is left.
    looked_up(y, TANH_ROUNDINGS * ROUNDING * f64::from(0.5 * x).abs())
}

/// As [`gelu`], for `ggml_table_gelu_quick_f16`, which serves every x.
pub(super) fn gelu_quick(x: f64) -> Point {
    let x = f16::from_f64(x).to_f32();
    let product = GELU_QUICK_COEF * x;
    let y = x * (1.0 / (1.0 + product.exp()));
    let roundings = QUICK_ROUNDINGS + f64::from(product.abs()); // that of the product, through the exponential
    looked_up(y, roundings * ROUNDING * f64::from(y.abs()))
}

/// An entry of a table of f16 that was computed in f32 with this error.
fn looked_up(y: f32, error: f64) -> Point {
    let nearest = f16::from_f32(y).to_f64();
    let moves = [-error, error].map(|error| (f16::from_f64(f64::from(y) + error).to_f64() - nearest).abs());
    Point { flip: moves[0].max(moves[1]), ..Point::plain(nearest) }
}

/// gelu with the error function, in f32 throughout (`ggml_vec_gelu_erf_f32`).
pub(super) fn gelu_erf(x: f64) -> Point {
    let erf = erf(x * std::f64::consts::FRAC_1_SQRT_2);
    Point { terms: 0.5 * x.abs() * (1.0 + erf.abs()), ..Point::plain(0.5 * x * (1.0 + erf)) }
}

/// From here on, erf(x) is 1 in f64.
const ERF_IS_ONE: f64 = 6.0;

/// The error function, by the series `2 / sqrt(pi) exp(-x^2) sum_n 2^n x^(2n+1) / (1 3 5 .. (2n+1))`, whose terms have one
/// sign.
fn erf(x: f64) -> f64 {
    if x.abs() >= ERF_IS_ONE {
        return x.signum();
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > f64::EPSILON / 4.0 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_is_rounded_to_f16_on_both_sides() {
        assert_eq!([-11.0, 0.0, 11.5].map(|x| gelu(x).value), [0.0, 0.0, 11.5]);
        // 1.0002 rounds to 1; gelu(1) = 0.8412 rounds to the f16 0.8413086, far from a tie
        assert_eq!((gelu(1.0002).value, gelu(1.0002).flip), (0.84130859375, 0.0));
        // 1 / (1 + exp(-1.702)) = 0.84579577 rounds to 0.8457031
        assert_eq!((gelu_quick(1.0002).value, gelu_quick(1.0002).flip), (0.845703125, 0.0));
    }

    #[test]
    fn a_tie_may_go_either_way() {
        let (one, above) = (1.0, 1.0 + 2f32.powi(-10));
        let middle = 1.0 + 2f32.powi(-11);
        assert_eq!(looked_up(middle, 1e-7), Point { value: one, terms: one, flip: f64::from(above) - one });
        assert_eq!(looked_up(middle + 2e-7, 1e-7).flip, 0.0);
    }

    #[test]
    fn silu_ends_where_the_exponential_overflows() {
        assert_eq!(silu(-89.0, 1.0).value, 0.0);
        assert!(silu(-88.5, 1.0).value < -1e-37);
        assert_eq!(silu(2.0, 1.5).terms, silu(2.0, 1.5).value * 4.0);
    }

    #[test]
    fn the_error_function_at_known_points() {
        assert_eq!(erf(0.0), 0.0);
        assert!((erf(0.5) - 0.520_499_877_813_046_5).abs() <= 2e-16);
        assert!((erf(-2.0) + 0.995_322_265_018_952_7).abs() <= 4e-16);
        assert!((erf(5.9) - 1.0).abs() <= 4e-16);
        assert!((gelu_erf(-1.0).terms - 0.5 * 1.682_689_492_137_085_9).abs() <= 4e-16);
    }
}
