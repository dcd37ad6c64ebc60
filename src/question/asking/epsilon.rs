//! Solving for the epsilon of an RMS norm from what went into it and what came out.
//!
//! ```text
//! s   = sum o n / sum o^2          the factor that maps a head o to its norm n, by least squares
//! eps = 1 / s^2 - mean(o^2)        as s = 1 / sqrt(mean(o^2) + eps)
//! ```
//! The norm is computed in f32, so s is off by a few roundings, and eps by `-2 / s^2` times the relative error of s. A rounding is
//! uniform within +-u and has the variance `u^2 / 3`. Into s go: the squares (their mean counts, at most one rounding's worth) and the
//! mean and the sum with eps, each under a root and so with 1/2; the root and its reciprocal; the products (their mean again). The
//! variances add up to `(3 / 4 + 2 + 1) u^2 / 3 = 5 / 4 u^2`, so that
//!
//! ```text
//! deviation of eps = 2 / s^2 sqrt(5 / 4) u = sqrt(5) u (mean(o^2) + eps)
//! ```
//! A head of small values tells much more than one of large ones. Each is weighted with the inverse of its variance.

use std::fmt;

use crate::compare::{U, budget};

/// The additions for which the oracle of RMS_NORM grants a budget.
const NORM_ADDITIONS: f64 = 4.0;

/// An epsilon that several heads agree on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::question) struct Solved {
    /// The weighted mean.
    pub(in crate::question) epsilon: f64,
    /// Its deviation, as far as it is due to rounding.
    pub(in crate::question) deviation: f64,
    /// How far the heads are from the mean, in their own deviations: the root mean square, below about 1 if they agree.
    pub(in crate::question) spread: f64,
    /// How many heads.
    pub(in crate::question) heads: usize,
}

impl fmt::Display for Solved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.7e} +- {:.0e}", self.epsilon, self.deviation)
    }
}

/// Solves for the epsilon of heads that were each multiplied by one factor; none if there is none.
pub(in crate::question) fn solve<'a>(heads: impl Iterator<Item = (&'a [f64], &'a [f64])>) -> Option<Solved> {
    let solved: Vec<(f64, f64)> = heads.filter_map(|(o, norm)| of_head(o, norm)).collect();
    let weight = |deviation: f64| 1.0 / (deviation * deviation);
    let sum: f64 = solved.iter().map(|&(_, deviation)| weight(deviation)).sum();
    let epsilon = solved.iter().map(|&(epsilon, deviation)| epsilon * weight(deviation)).sum::<f64>() / sum;
    let squares = solved.iter().map(|&(e, deviation)| (e - epsilon).powi(2) * weight(deviation));
    let spread = (squares.sum::<f64>() / solved.len() as f64).sqrt();
    let deviation = 1.0 / sum.sqrt();
    (!solved.is_empty()).then_some(Solved { epsilon, deviation, spread, heads: solved.len() })
}

/// The epsilon of a head and its deviation; none if no single factor maps one to the other.
fn of_head(o: &[f64], norm: &[f64]) -> Option<(f64, f64)> {
    let squares: f64 = o.iter().map(|o| o * o).sum();
    let factor = o.iter().zip(norm).map(|(o, n)| o * n).sum::<f64>() / squares;
    let is_mapped = |(o, n): (&f64, &f64)| (n - factor * o).abs() <= budget(n.abs(), NORM_ADDITIONS);
    let is_norm = factor > 0.0 && factor.is_finite() && o.iter().zip(norm).all(is_mapped);
    let inverse = 1.0 / (factor * factor);
    is_norm.then(|| (inverse - squares / o.len() as f64, 5f64.sqrt() * U * inverse))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head whose mean square with eps is 4 and 16.
    const HEADS: [([f64; 2], [f64; 2]); 2] = [([2.0, 1.0], [1.0, 0.5]), ([1.0, -5.0], [0.25, -1.25])];

    fn solved(heads: &[([f64; 2], [f64; 2])]) -> Option<Solved> {
        solve(heads.iter().map(|(o, norm)| (&o[..], &norm[..])))
    }

    #[test]
    fn the_epsilon_is_what_the_mean_square_lacks() {
        // s = 1 / 2: 4 - (4 + 1) / 2; s = 1 / 4: 16 - (1 + 25) / 2
        let one = solved(&HEADS[..1]).unwrap();
        assert_eq!((one.epsilon, one.spread, one.heads), (1.5, 0.0, 1));
        assert!((one.deviation / (5f64.sqrt() * U * 4.0) - 1.0).abs() < 1e-15);
        // deviations 4 and 16: weights 16 to 1
        let both = solved(&HEADS).unwrap();
        assert!((both.epsilon - (16.0 * 1.5 + 3.0) / 17.0).abs() < 1e-12, "{both:?}");
        // They differ by far more than rounding explains.
        assert!(both.spread > 1e4 && both.heads == 2, "{both:?}");
        assert_eq!(one.to_string(), "1.5000000e0 +- 5e-7");
    }

    #[test]
    fn what_is_no_norm_is_left_out() {
        assert_eq!(solved(&[([0.0, 0.0], [0.0, 0.0])]), None);
        assert_eq!(solved(&[([1.0, 2.0], [1.0, 3.0])]), None);
        assert_eq!(solved(&[([1.0, 2.0], [-1.0, -2.0])]), None);
        assert_eq!(solved(&[HEADS[0], ([1.0, 2.0], [1.0, f64::NAN])]).unwrap().heads, 1);
    }

    #[test]
    fn a_norm_in_f32_is_solved_within_its_deviation() {
        let eps = 1e-6f32;
        let rows: Vec<[f32; 4]> =
            (1..40).map(|i| [1e-3, 2e-3, -7e-4, 1.3e-3].map(|x| x * i as f32)).collect();
        let norm = |row: &[f32; 4]| {
            let mean = row.iter().map(|x| f64::from(x * x)).sum::<f64>() as f32 / 4.0;
            let scale = 1.0 / (mean + eps).sqrt();
            row.map(|x| f64::from(x * scale))
        };
        let heads: Vec<_> = rows.iter().map(|row| (row.map(f64::from), norm(row))).collect();
        let solved = solve(heads.iter().map(|(o, norm)| (&o[..], &norm[..]))).unwrap();
        assert!((solved.epsilon - f64::from(eps)).abs() < 4.0 * solved.deviation, "{solved:?}");
        assert!(solved.spread < 1.5 && solved.heads == 39, "{solved:?}");
    }
}
