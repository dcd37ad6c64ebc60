//! The arithmetic that an operator runs in: f32, f64, or a number that knows what rounding may do to it ([`Tracked`]).

mod tracked;

pub use tracked::Tracked;

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{AddAssign, Neg};

use ndarray::LinalgScalar;

use crate::tensor::Values;

/// A type that operators compute in. Of a floating-point type every method is the correctly rounded IEEE operation or the
/// platform's function of that name, in this type.
#[allow(missing_docs)] // the methods are the functions of those names
pub trait Number:
    LinalgScalar + Copy + PartialOrd + Neg<Output = Self> + AddAssign + Sum + Send + Sync + Debug
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
    /// The values of a slice of f32 in this type, without a copy where it is f32.
    fn cast_row<'a>(row: &'a [f32], scratch: &'a mut Vec<Self>) -> &'a [Self];
}

/// A floating-point type that engines compute in.
pub trait Real: Number {
    /// Packed values of this type.
    fn values(packed: &[Self]) -> Values<'_>;
    /// What it is called in reports: `f32`.
    const NAME: &'static str;
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
