//! The arithmetic that an operator runs in: f32, f64, a number that knows what rounding may do to it ([`Tracked`]), or f32 in the
//! order of operations of a build of llama.cpp ([`Single`]).
//!
//! Beside its scalar operations an arithmetic has those on rows whose order it decides; what is given here is the plain loop.

mod single;
mod tracked;

pub use single::Single;
pub use tracked::Tracked;

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{AddAssign, Neg};

use ndarray::LinalgScalar;

use super::mul_mat::dot_in_lanes;
use super::norm::scale_row;
use super::unary::silu;
use super::{Rope, Turn};
use crate::arithmetic::{Isa, Product};
use crate::tensor::Values;

/// A type that operators compute in. Of a floating-point type every method is the correctly rounded IEEE operation or the
/// platform's function of that name, in this type.
#[allow(missing_docs)] // the methods are the functions of those names
pub trait Number:
    LinalgScalar + Copy + PartialOrd + Neg<Output = Self> + AddAssign + Sum + Send + Sync + Debug + 'static
{
    const ZERO: Self;
    const ONE: Self;
    /// From a weight or a stored activation; exact.
    fn from_f32(x: f32) -> Self;
    /// Rounds to this type.
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    /// The sum of numbers that are added up in f64 and rounded to this type at the end, as ggml's `ggml_float` is.
    fn sum_in_f64(numbers: impl Iterator<Item = Self>) -> Self {
        Self::from_f64(numbers.map(Self::to_f64).sum())
    }
    /// `1 / sqrt(n)`
    fn inverse_sqrt(n: usize) -> Self {
        Self::from_f64(1.0 / (n as f64).sqrt())
    }
    /// The dot product of two rows of equal length.
    fn dot(x: &[Self], y: &[Self]) -> Self {
        dot_in_lanes(x, y)
    }
    /// An element of a product of matrices of floats.
    fn product(_how: Product, x: &[Self], y: &[Self]) -> Self {
        Self::dot(x, y)
    }
    /// `sum = sum_j weights_j row(j)` over the rows that are seen; the weights of others are 0.
    fn weighted_sum<'r>(
        _how: Product,
        weights: &[Self],
        seen: &[usize],
        row: impl Fn(usize) -> &'r [Self],
        sum: &mut [Self],
    ) {
        sum.fill(Self::ZERO);
        for &j in seen {
            sum.iter_mut().zip(row(j)).for_each(|(sum, &x)| *sum += weights[j] * x);
        }
    }
    /// The sum of products, one after the other.
    fn in_order(x: &[Self], y: &[Self]) -> Self {
        x.iter().zip(y).fold(Self::ZERO, |sum, (&x, &y)| sum + x * y)
    }
    /// `row += x factor`
    fn mad(row: &mut [Self], x: &[Self], factor: Self) {
        row.iter_mut().zip(x).for_each(|(row, &x)| *row += x * factor);
    }
    /// Divides a row by its root mean square, `eps` inside the root.
    fn rms_norm(row: &mut [Self], eps: f64) {
        scale_row(row, |sum_of_squares, n| 1.0 / (sum_of_squares / n + eps).sqrt());
    }
    /// Divides a row by its Euclidean norm, which counts as at least `eps`.
    fn l2_norm(row: &mut [Self], eps: f64) {
        scale_row(row, |sum_of_squares, _| 1.0 / sum_of_squares.sqrt().max(eps));
    }
    /// `x / (1 + exp(-x))`, element by element.
    fn silu(row: &mut [Self]) {
        row.iter_mut().for_each(|x| *x = silu(*x));
    }
    /// The softmax of a row; element j takes part where `visible(j)`, the others become 0.
    fn soft_max(row: &mut [Self], scale: Self, visible: impl Fn(usize) -> bool) {
        let mut largest = Self::from_f64(f64::NEG_INFINITY);
        for (j, x) in row.iter_mut().enumerate() {
            *x = if visible(j) { *x * scale } else { Self::from_f64(f64::NEG_INFINITY) };
            if *x > largest {
                largest = *x;
            }
        }
        let mut sum = 0.0;
        for x in row.iter_mut() {
            *x = (*x - largest).exp();
            sum += x.to_f64();
        }
        let inverse = Self::from_f64(1.0 / sum);
        for x in row {
            *x = *x * inverse;
        }
    }
    /// Cosine and sine of a turn.
    fn turn(_rope: &Rope, turn: &Turn) -> (Self, Self) {
        (Self::from_f64(turn.angle.cos()), Self::from_f64(turn.angle.sin()))
    }
    /// A pair of elements, turned.
    fn rotate((a, b): (Self, Self), (cos, sin): (Self, Self)) -> (Self, Self) {
        (a * cos - b * sin, a * sin + b * cos)
    }
    /// The values of a slice of f32 in this type, without a copy where it is f32.
    fn cast_row<'a>(row: &'a [f32], scratch: &'a mut Vec<Self>) -> &'a [Self];
}

/// A floating-point type that engines compute in.
pub trait Real: Number {
    /// Packed values of this type.
    fn values(packed: &[Self]) -> Values<'_>;
    /// What it is called in reports: `f32`.
    const NAME: &'static str;
    /// The build of ggml-cpu whose order of operations it has, if it has one's.
    const ISA: Option<Isa> = None;
}

macro_rules! real {
    ($t:ident, $cast:expr, $variant:ident) => {
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            fn from_f32(x: f32) -> Self {
                x.into()
            }
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn ln(self) -> Self {
                self.ln()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn cast_row<'a>(row: &'a [f32], scratch: &'a mut Vec<Self>) -> &'a [Self] {
                $cast(row, scratch)
            }
        }

        impl Real for $t {
            fn values(packed: &[Self]) -> Values<'_> {
                Values::$variant(packed)
            }
            const NAME: &'static str = stringify!($t);
        }
    };
}

fn keep<'a>(row: &'a [f32], _: &'a mut Vec<f32>) -> &'a [f32] {
    row
}

fn widen<'a>(row: &'a [f32], scratch: &'a mut Vec<f64>) -> &'a [f64] {
    scratch.clear();
    scratch.extend(row.iter().map(|&x| f64::from(x)));
    scratch
}

real!(f32, keep, F32);
real!(f64, widen, F64);
