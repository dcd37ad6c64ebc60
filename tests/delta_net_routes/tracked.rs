//! Numbers that know how far rounding may have taken them: a route that runs on them derives its own bound.
//!
//! ```text
//! u = 2^-BITS;  a number is a sum of n + 1 terms, of which each had an error before it was added:
//! error(x)  <= inherited + gamma(n) (terms + inherited)       gamma(n) = n u / (1 - n u), whatever the order of the additions
//! x + y      n, terms and inherited add up, and one more addition
//! x y        inherited = |x| error(y) + |y| error(x) + error(x) error(y), and one rounding: u (|x y| + that)
//! exp(x)     exp(x) (exp(error(x)) - 1), and 2 u of the result: the C library's is off by less than a unit in the last place
//! ```
//! (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.) Nothing here is a guess of how errors cancel, and no
//! order of additions is assumed, so the bound holds for ggml's kernels as it does for ours. A product below the smallest
//! normal number may be off by the smallest subnormal one.

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use lockstep::ops::Number;
use num_traits::{One, Zero};

/// A number in arithmetic with `BITS` bits, and what is known of its error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked<const BITS: i32> {
    /// As f64 arithmetic gives it.
    pub(crate) value: f64,
    terms: f64,
    additions: f64,
    inherited: f64,
}

/// Half the smallest subnormal f32, rounded up.
const UNDERFLOW: f64 = 1e-45;

impl<const BITS: i32> Tracked<BITS> {
    fn u() -> f64 {
        2f64.powi(-BITS)
    }

    pub(crate) fn exact(value: f64) -> Self {
        Tracked { value, terms: value.abs(), additions: 0.0, inherited: 0.0 }
    }

    /// A value with a known error.
    pub(crate) fn within(value: f64, error: f64) -> Self {
        Tracked { inherited: error, ..Tracked::exact(value) }
    }

    /// How far a computed value may be from `value`.
    pub(crate) fn error(self) -> f64 {
        self.inherited + Self::gamma(self.additions) * (self.terms + self.inherited)
    }

    /// The rounding of a sum of `additions + 1` terms, as a part of them.
    pub(crate) fn gamma(additions: f64) -> f64 {
        additions * Self::u() / (1.0 - additions * Self::u())
    }

    fn rounded(value: f64, error: f64, roundings: f64) -> Self {
        Self::within(value, error + roundings * Self::u() * (value.abs() + error) + UNDERFLOW)
    }

    fn is_exactly_zero(self) -> bool {
        self.terms == 0.0 && self.inherited == 0.0
    }
}

impl<const BITS: i32> Add for Tracked<BITS> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        if self.is_exactly_zero() || other.is_exactly_zero() {
            return if self.is_exactly_zero() { other } else { self };
        }
        Tracked {
            value: self.value + other.value,
            terms: self.terms + other.terms,
            additions: self.additions + other.additions + 1.0,
            inherited: self.inherited + other.inherited,
        }
    }
}

impl<const BITS: i32> Mul for Tracked<BITS> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        if self.is_exactly_zero() || other.is_exactly_zero() {
            return Self::ZERO;
        }
        let (x, y) = (self.error(), other.error());
        Self::rounded(self.value * other.value, self.value.abs() * y + other.value.abs() * x + x * y, 1.0)
    }
}

impl<const BITS: i32> Div for Tracked<BITS> {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let quotient = self.value / other.value;
        let error = (self.error() + quotient.abs() * other.error()) / (other.value.abs() - other.error());
        Self::rounded(quotient, error, 1.0)
    }
}

impl<const BITS: i32> Neg for Tracked<BITS> {
    type Output = Self;
    fn neg(self) -> Self {
        Tracked { value: -self.value, ..self }
    }
}

impl<const BITS: i32> Sub for Tracked<BITS> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl<const BITS: i32> AddAssign for Tracked<BITS> {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl<const BITS: i32> Sum for Tracked<BITS> {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl<const BITS: i32> PartialEq for Tracked<BITS> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<const BITS: i32> PartialOrd for Tracked<BITS> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<const BITS: i32> Zero for Tracked<BITS> {
    fn zero() -> Self {
        Self::ZERO
    }
    fn is_zero(&self) -> bool {
        self.value == 0.0
    }
}

impl<const BITS: i32> One for Tracked<BITS> {
    fn one() -> Self {
        Self::ONE
    }
}

impl<const BITS: i32> Number for Tracked<BITS> {
    const ZERO: Self = Tracked { value: 0.0, terms: 0.0, additions: 0.0, inherited: 0.0 };
    const ONE: Self = Tracked { value: 1.0, terms: 1.0, additions: 0.0, inherited: 0.0 };

    fn from_f32(x: f32) -> Self {
        Self::exact(x.into())
    }
    /// Rounds.
    fn from_f64(x: f64) -> Self {
        Self::rounded(x, 0.0, 1.0)
    }
    fn to_f64(self) -> f64 {
        self.value
    }
    fn exp(self) -> Self {
        let exp = self.value.exp();
        Self::rounded(exp, exp * self.error().exp_m1(), 2.0)
    }
    fn ln(self) -> Self {
        Self::rounded(self.value.ln(), self.error() / (self.value - self.error()), 2.0)
    }
    fn sqrt(self) -> Self {
        Self::rounded(self.value.sqrt(), self.error() / self.value.sqrt(), 1.0)
    }
    fn cast_row<'a>(row: &'a [f32], scratch: &'a mut Vec<Self>) -> &'a [Self] {
        scratch.clear();
        scratch.extend(row.iter().map(|&x| Self::from_f32(x)));
        scratch
    }
}

#[test]
fn a_bound_holds_and_is_near() {
    type T = Tracked<24>;
    let u = 2f64.powi(-24);
    // three terms, two additions, whatever their order
    let sum = T::exact(1.0) + (T::exact(-1.0) + T::exact(0.5));
    assert_eq!((sum.value, sum.error()), (0.5, 2.0 * u / (1.0 - 2.0 * u) * 2.5));
    assert!((T::exact(3.0) * T::exact(5.0)).error() <= 15.0 * u + UNDERFLOW);
    assert_eq!((T::ZERO * sum).error(), 0.0);
    assert_eq!((T::ZERO + sum).error(), sum.error());
    let exp = T::within(1.0, 1e-3).exp();
    assert!(exp.error() > 1f64.exp() * 1e-3 && exp.error() < 1f64.exp() * 1.1e-3);
    let x: Vec<f32> = (0..1000u16).map(|i| (f32::from(i) * 0.7).sin()).collect();
    let [narrow, tracked] = [
        lockstep::ops::dot(&x, &x).to_f64(),
        lockstep::ops::dot(&x.iter().map(|&x| T::from_f32(x)).collect::<Vec<_>>(), &[T::ONE; 1000]).error(),
    ];
    assert!(narrow > 0.0 && tracked > 0.0);
}
