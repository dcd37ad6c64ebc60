//! A number that knows what rounding may have done to it on the way.
//!
//! ```text
//! value      in f64
//! terms      the sum of the absolute values of what was last added up to make it, times the given factors since then
//! size       the same without those factors' cancellation: what the last roundings are a share of
//! roundings  n: how many numbers were added up; 0 of what is given
//! inherited  what the errors of its factors and arguments make of it, squared
//! spread     sqrt(n size^2 + inherited)
//! ```
//! An operator's budget is `k sqrt(n) u terms` (`compare::budget`): k deviations of n independent roundings of at most u of the
//! terms. Carried through a chain of operators, independent errors add up as squares, each times the square of the derivative:
//! the budget of the end of the chain is `k u spread`, which for one operator is the budget that it has anyway. Whatever is
//! computed in this type, from the reference's own inputs, so tells by itself how far a correct result may be from it.
//!
//! Sums that operators form in f64 (norms, the denominator of a softmax) add no roundings, as they do not in ggml.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Rem, Sub};

use super::Number;

/// A value with its terms and what rounding may have done to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracked {
    value: f64,
    terms: f64,
    size: f64,
    roundings: f64,
    inherited: f64,
}

impl Tracked {
    /// A value that is given, not computed.
    pub fn exact(value: f64) -> Tracked {
        Tracked { value, terms: value.abs(), size: value.abs(), roundings: 0.0, inherited: 0.0 }
    }

    /// A value of which an oracle gave the terms and the number of additions.
    pub fn computed(value: f64, terms: f64, additions: f64) -> Tracked {
        Tracked { value, terms, size: terms, roundings: additions, inherited: 0.0 }
    }

    /// The same, with a spread that its inputs bring along.
    pub fn with_inherited(self, spread: f64) -> Tracked {
        Tracked { inherited: self.inherited + spread * spread, ..self }
    }

    /// The value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The sum of the absolute values of what was last added up; of what is moved, its own size.
    pub fn terms(&self) -> f64 {
        self.terms
    }

    /// What the budget for one addition is to be taken of: `compare::budget(spread, 1)`.
    pub fn spread(&self) -> f64 {
        self.squared().sqrt()
    }

    fn squared(&self) -> f64 {
        // What is infinite and was never rounded is still exact.
        let own = if self.roundings == 0.0 { 0.0 } else { self.roundings * self.size * self.size };
        own + self.inherited
    }

    fn is_given(&self) -> bool {
        self.roundings == 0.0
    }

    fn is_zero(&self) -> bool {
        self.value == 0.0 && self.squared() == 0.0
    }

    /// One rounding of a function's value; `derivative` that of the function.
    fn of(self, value: f64, derivative: f64) -> Tracked {
        Tracked {
            value,
            terms: value.abs(),
            size: value.abs(),
            roundings: 1.0,
            inherited: carried(self.squared(), derivative),
        }
    }
}

/// What becomes of a squared error behind a derivative. Nothing of an infinite one behind 0: `1 / (1 + exp(x))` far out.
fn carried(squared: f64, derivative: f64) -> f64 {
    if squared == 0.0 || derivative == 0.0 { 0.0 } else { squared * derivative * derivative }
}

impl Add for Tracked {
    type Output = Tracked;
    fn add(self, other: Tracked) -> Tracked {
        if self.is_zero() {
            return other;
        }
        if other.is_zero() {
            return self;
        }
        // What was given counts as the one that is added; what was computed brings its own count.
        let fresh = if self.is_given() || other.is_given() { 1.0 } else { 0.0 };
        Tracked {
            value: self.value + other.value,
            terms: self.terms + other.terms,
            size: self.size + other.size,
            roundings: self.roundings + other.roundings + fresh,
            inherited: self.inherited + other.inherited,
        }
    }
}

impl Sub for Tracked {
    type Output = Tracked;
    fn sub(self, other: Tracked) -> Tracked {
        self + -other
    }
}

impl Neg for Tracked {
    type Output = Tracked;
    fn neg(self) -> Tracked {
        Tracked { value: -self.value, ..self }
    }
}

impl Mul for Tracked {
    type Output = Tracked;
    fn mul(self, other: Tracked) -> Tracked {
        let value = self.value * other.value;
        let inherited = carried(self.squared(), other.value) + carried(other.squared(), self.value);
        // A factor that is given scales a sum with its terms; a product of two sums is a value of its own.
        let terms = match (self.is_given(), other.is_given()) {
            (false, false) => value.abs(),
            _ => self.terms * other.terms,
        };
        Tracked { value, terms, size: value.abs(), roundings: 1.0, inherited }
    }
}

impl Div for Tracked {
    type Output = Tracked;
    fn div(self, other: Tracked) -> Tracked {
        self * other.of(1.0 / other.value, -1.0 / (other.value * other.value))
    }
}

/// Only what `ndarray` asks of a number; no operator takes a remainder.
impl Rem for Tracked {
    type Output = Tracked;
    fn rem(self, other: Tracked) -> Tracked {
        self.of(self.value % other.value, 1.0)
    }
}

impl AddAssign for Tracked {
    fn add_assign(&mut self, other: Tracked) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Tracked {
    fn sum<I: Iterator<Item = Tracked>>(numbers: I) -> Tracked {
        numbers.fold(Tracked::ZERO, Add::add)
    }
}

impl PartialEq for Tracked {
    fn eq(&self, other: &Tracked) -> bool {
        self.value == other.value
    }
}

impl PartialOrd for Tracked {
    fn partial_cmp(&self, other: &Tracked) -> Option<std::cmp::Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl num_traits::Zero for Tracked {
    fn zero() -> Tracked {
        Tracked::ZERO
    }
    fn is_zero(&self) -> bool {
        self.value == 0.0
    }
}

impl num_traits::One for Tracked {
    fn one() -> Tracked {
        Tracked::ONE
    }
}

impl Number for Tracked {
    const ZERO: Tracked = Tracked { value: 0.0, terms: 0.0, size: 0.0, roundings: 0.0, inherited: 0.0 };
    const ONE: Tracked = Tracked { value: 1.0, terms: 1.0, size: 1.0, roundings: 0.0, inherited: 0.0 };

    fn from_f32(x: f32) -> Tracked {
        Tracked::exact(x.into())
    }

    /// A constant that f32 does not hold is rounded once.
    fn from_f64(x: f64) -> Tracked {
        let is_held = f64::from(x as f32) == x;
        Tracked::exact(x).with_inherited(if is_held { 0.0 } else { x.abs() })
    }

    fn to_f64(self) -> f64 {
        self.value
    }

    fn exp(self) -> Tracked {
        self.of(self.value.exp(), self.value.exp())
    }

    fn ln(self) -> Tracked {
        self.of(self.value.ln(), 1.0 / self.value)
    }

    fn sqrt(self) -> Tracked {
        self.of(self.value.sqrt(), 0.5 / self.value.sqrt())
    }

    /// Only what is rounded at the end: what the numbers bring along stays, and none is added to it.
    fn sum_in_f64(numbers: impl Iterator<Item = Tracked>) -> Tracked {
        let start = Tracked { roundings: 1.0, ..Tracked::ZERO };
        let sum = numbers.fold(start, |sum, x| Tracked {
            value: sum.value + x.value,
            terms: sum.terms + x.value.abs(),
            inherited: sum.inherited + x.squared(),
            ..sum
        });
        Tracked { size: sum.value.abs(), ..sum }
    }

    fn cast_row<'a>(row: &'a [f32], scratch: &'a mut Vec<Tracked>) -> &'a [Tracked] {
        scratch.clear();
        scratch.extend(row.iter().map(|&x| Tracked::from_f32(x)));
        scratch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(values: &[f64]) -> Vec<Tracked> {
        values.iter().map(|&value| Tracked::exact(value)).collect()
    }

    #[test]
    fn a_sum_of_products_has_the_spread_of_its_budget() {
        let (x, w) = (given(&[1.0, -2.0, 3.0]), given(&[4.0, 5.0, 6.0]));
        let sum: Tracked = x.iter().zip(&w).map(|(&x, &w)| x * w).sum();
        assert_eq!((sum.value(), sum.terms()), (12.0, 32.0)); // 4 - 10 + 18
        assert_eq!(sum.spread(), 3f64.sqrt() * 32.0); // sqrt(n) terms
    }

    #[test]
    fn what_is_moved_or_negated_has_none() {
        let x = -Tracked::exact(-3.0);
        assert_eq!((x.value(), x.terms(), x.spread()), (3.0, 3.0, 0.0));
        assert_eq!((x + Tracked::ZERO).spread(), 0.0);
        // Adding two numbers rounds once.
        assert_eq!((x + Tracked::exact(1.0)).spread(), 4.0);
    }

    #[test]
    fn errors_pass_through_products_and_functions() {
        let x = Tracked::computed(2.0, 3.0, 4.0); // spread 6
        let y = x * Tracked::exact(10.0);
        assert_eq!((y.terms(), y.spread()), (30.0, (20.0f64 * 20.0 + 60.0 * 60.0).sqrt()));
        let e = x.exp(); // derivative e^2
        assert!((e.spread() / (2f64.exp() * 37f64.sqrt()) - 1.0).abs() < 1e-15);
        let half = Tracked::exact(1.0) / x; // 0.5: the quotient, the inverse, and 6 / 4 inherited by it
        assert!((half.spread() - (0.25 + 0.25 + 1.5f64 * 1.5).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn a_sum_in_f64_is_rounded_once() {
        let products = [Tracked::computed(3.0, 3.0, 1.0), Tracked::computed(-2.0, 2.0, 1.0)];
        let sum = Tracked::sum_in_f64(products.into_iter());
        assert_eq!((sum.value(), sum.terms()), (1.0, 5.0));
        assert_eq!(sum.spread(), (9.0f64 + 4.0 + 1.0).sqrt()); // the products, and the sum's own
        assert_eq!(f32::sum_in_f64([1e8f32, 1.0, -1e8].into_iter()), 1.0);
    }

    #[test]
    fn far_out_a_function_is_known_although_what_it_is_made_of_is_not() {
        let y = crate::ops::sigmoid(Tracked::exact(-400.0)); // exp(400) squared is infinite
        assert!(y.value() < 1e-173 && y.spread() < 1e-173, "{y:?}");
    }

    #[test]
    fn cancellation_keeps_the_terms() {
        let x = Tracked::computed(1.0, 1.0, 1.0) - Tracked::computed(1.0, 1.0, 1.0);
        assert_eq!((x.value(), x.terms(), x.spread()), (0.0, 2.0, 2f64.sqrt() * 2.0));
    }
}
