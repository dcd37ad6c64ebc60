//! UNARY: element by element.
//!
//! ```text
//! sigmoid(x)  = 1 / (1 + exp(-x))
//! silu(x)     = x / (1 + exp(-x))
//! softplus(x) = x > 20 ? x : ln(1 + exp(x))
//! ```
//! The threshold of softplus and its plain logarithm are ggml's (`op_softplus`, unary-ops.cpp).

use ndarray::{Array, Dimension};

use super::Number;
use super::norm::in_place;

/// Above this, ggml takes softplus(x) to be x.
const SOFTPLUS_LINEAR: f64 = 20.0;

/// `1 / (1 + exp(-x))`
pub fn sigmoid<T: Number>(x: T) -> T {
    T::ONE / (T::ONE + (-x).exp())
}

/// `x / (1 + exp(-x))`
pub fn silu<T: Number>(x: T) -> T {
    x / (T::ONE + (-x).exp())
}

/// `x / (1 + exp(-x))` of each row in place.
pub fn silu_rows<T: Number, D: Dimension>(x: &mut Array<T, D>) {
    x.rows_mut().into_iter().for_each(|row| in_place(row, T::silu));
}

/// `ln(1 + exp(x))`
pub fn softplus<T: Number>(x: T) -> T {
    if x.to_f64() > SOFTPLUS_LINEAR { x } else { (T::ONE + x.exp()).ln() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_known_points() {
        assert_eq!(sigmoid(0.0f32), 0.5);
        assert_eq!(silu(0.0f64), 0.0);
        assert!((silu(1.0f64) - 0.731_058_578_630_004_9).abs() <= 2e-16);
        assert_eq!(softplus(0.0f64), std::f64::consts::LN_2);
        assert_eq!(softplus(21.0f32), 21.0);
    }
}
