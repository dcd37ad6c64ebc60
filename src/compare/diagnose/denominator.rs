//! Another constant in a denominator, `y = a / sqrt(m + e)` with m the mean (or the sum) of the squares of a row: the error
//! vanishes for large rows and grows for small ones.
//!
//! With the input a, each row gives `1/k^2 = m + e` for `k = y.a / a.a`, so that the two sides differ by the constant e' - e
//! whatever m is. Without it, a row of the reference tells how small it was: `1 - mean(x^2) = e / (m + e)`, and so
//! `(|x|^2 / |y|^2 - 1) / (1 - mean(x^2)) = (e' - e) / e` is the same for all rows.

use super::factor::short;
use super::pair::{Cut, Pair, chance, squared_distance};
use super::{Axis, Finding, Shape};

/// An additive constant in a denominator.
pub(super) struct Denominator;

/// How much larger than its spread a constant must be to be one: what is left of the error is then `1 - SHARE` of it.
const CERTAIN: f64 = 10.0;
/// The log2 of the chance at which rows that each have a factor of their own are taken to have a constant in common: such rows are a
/// rare error themselves, and of those one in a thousand would be told wrongly.
const UNLIKELY: f64 = -10.0;

impl Shape for Denominator {
    fn name(&self) -> &'static str {
        "denominator"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let tokens = pair.cut_of(Axis::Token).filter(|cut| cut.outer == 1);
        let cuts = [Some(pair.rows()), tokens];
        cuts.into_iter().flatten().filter(|cut| cut.extent >= 2).find_map(|cut| match pair.input {
            Some(input) => self.by_input(pair, cut, input),
            None => self.by_norms(pair, cut),
        })
    }
}

/// The rows of a cut with `outer` 1.
fn rows(values: &[f32], cut: Cut) -> impl Iterator<Item = &[f32]> {
    values.chunks_exact(cut.inner)
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// Whether rows with factors of their own would hardly leave so little of their errors; a constant is one number fitted to the rows.
fn is_common(pair: &Pair<'_>, cut: Cut, predicted: impl Fn(usize) -> f64) -> bool {
    let (mut left, mut error, mut fourth_powers) = (0.0, 0.0, 0.0);
    for row in 0..cut.extent {
        let mut square = 0.0;
        for i in row * cut.inner..(row + 1) * cut.inner {
            square += squared_distance(pair.reference[i], pair.actual[i].into());
            left += squared_distance(pair.actual[i], predicted(i));
        }
        error += square;
        fourth_powers += square * square;
    }
    let carriers = chance::carriers(error, fourth_powers);
    chance::of_share(left / error, carriers, 1, cut.extent) <= UNLIKELY
}

/// A mean with weights, and how far the values are from it.
fn mean(values: &[(f64, f64)]) -> (f64, f64) {
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mean = values.iter().map(|(value, weight)| value * weight).sum::<f64>() / total;
    let square = values.iter().map(|(value, weight)| (value - mean).powi(2) * weight).sum::<f64>() / total;
    (mean, square.sqrt())
}

impl Denominator {
    fn by_input(&self, pair: &Pair<'_>, cut: Cut, input: &[f32]) -> Option<Finding> {
        let each = rows(pair.reference, cut).zip(rows(&pair.actual, cut)).zip(rows(input, cut));
        // (1/k^2 of the reference, of the actual row, a.a)
        let each: Vec<(f64, f64, f64)> = each
            .map(|((x, y), a)| {
                let aa = dot(a, a);
                ((aa / dot(x, a)).powi(2), (aa / dot(y, a)).powi(2), aa)
            })
            .collect();
        if !each.iter().all(|(x, y, aa)| x.is_finite() && y.is_finite() && *aa > 0.0) {
            return None;
        }
        // A constant moves y by y / (2 (m + e)) times itself: rows count by that.
        let weigh = |value: f64, x: f64, aa: f64| (value, aa / x.powi(3));
        let gained: Vec<(f64, f64)> = each.iter().map(|&(x, y, aa)| weigh(y - x, x, aa)).collect();
        let (gain, spread) = mean(&gained);
        if gain.abs() < CERTAIN * spread {
            return None;
        }
        let predicted = |i: usize| f64::from(input[i]) / (each[i / cut.inner].0 + gain).sqrt();
        let explains = pair.explained(1, predicted).filter(|_| is_common(pair, cut, predicted))?;
        // The reference's own constant, if its denominator is a mean or a sum of squares and one.
        let own = [1.0, cut.inner as f64].into_iter().find_map(|n| {
            let own: Vec<(f64, f64)> = each.iter().map(|&(x, _, aa)| weigh(x - aa / n, x, aa)).collect();
            let (own, spread) = mean(&own);
            (own > CERTAIN * spread).then_some(own)
        });
        let constant = match own {
            // What is less than the spread is not told from none.
            Some(own) if (own + gain).abs() <= spread => {
                format!("none where the reference has {}", short(own))
            }
            Some(own) => format!("{} where the reference has {}", short(own + gain), short(own)),
            None => format!("{} more than the reference's", short(gain)),
        };
        let words = format!("another constant in a denominator: {constant} (to {spread:.0e})");
        Some(Finding::verified(self, words, explains))
    }

    fn by_norms(&self, pair: &Pair<'_>, cut: Cut) -> Option<Finding> {
        let each: Vec<(f64, f64)> = rows(pair.reference, cut)
            .zip(rows(&pair.actual, cut))
            .map(|(x, y)| (dot(x, x), dot(y, y)))
            .collect();
        let n = cut.inner as f64;
        [n, 1.0].into_iter().find_map(|n| {
            // e / (m + e) of each row
            let small: Vec<f64> = each.iter().map(|(xx, _)| 1.0 - xx / n).collect();
            // Rounding alone leaves some units of it.
            if small.iter().any(|&small| !(small > -1e-5 && small < 1.0)) {
                return None;
            }
            let ratios: Vec<(f64, f64)> = each
                .iter()
                .zip(&small)
                .filter(|(_, small)| **small > 1e-4)
                .map(|((xx, yy), small)| ((xx / yy - 1.0) / small, small * small))
                .collect();
            if ratios.len() < 2 {
                return None;
            }
            let (ratio, spread) = mean(&ratios);
            if !(ratio.abs() >= CERTAIN * spread && ratio > -1.0) {
                return None;
            }
            let predicted = |i: usize| {
                f64::from(pair.reference[i]) / (1.0 + ratio * small[i / cut.inner].max(0.0)).sqrt()
            };
            let explains = pair.explained(1, predicted).filter(|_| is_common(pair, cut, predicted))?;
            let times = short(1.0 + ratio);
            let words =
                format!("another constant in a denominator: {times} times the reference's (to {spread:.0e})");
            Some(Finding::verified(self, words, explains))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{noise, normalised};
    use super::*;
    use crate::tensor::Values;

    /// Eight rows of 16 from large to small.
    fn input() -> Vec<f32> {
        noise(128, 5).iter().enumerate().map(|(i, v)| v * 10f32.powi(-((i / 16) as i32))).collect()
    }

    #[test]
    fn the_constant_is_solved_from_the_input() {
        let a = input();
        let (x, y) = (normalised(&a, 16, 1e-6), normalised(&a, 16, 16e-6));
        let pair = Pair::new(&x, Values::F32(&y), &[8, 16]).unwrap().with_input(&a);
        let words = Denominator.find(&pair).unwrap().words;
        assert!(
            words.starts_with("another constant in a denominator: 1.6e-5 where the reference has 1e-6 (")
                || words.starts_with(
                    "another constant in a denominator: 1.600e-5 where the reference has 1.000e-6 ("
                ),
            "{words}"
        );
    }

    #[test]
    fn without_the_input_the_ratio_is_solved() {
        let a = input();
        let (x, y) = (normalised(&a, 16, 1e-6), normalised(&a, 16, 16e-6));
        let pair = Pair::new(&x, Values::F32(&y), &[8, 16]).unwrap();
        let words = Denominator.find(&pair).unwrap().words;
        assert!(
            words.starts_with("another constant in a denominator: 16 times the reference's ("),
            "{words}"
        );
    }

    #[test]
    fn rows_with_factors_of_their_own_have_none() {
        let x = normalised(&input(), 16, 1e-6);
        for seed in 0..200 {
            let factors = noise(8, seed);
            for rows in 2..=8 {
                let y: Vec<f32> = (0..16 * rows).map(|i| x[i] * (1.0 + 0.2 * factors[i / 16])).collect();
                let (x, a) = (&x[..16 * rows], &input()[..16 * rows]);
                let pair = Pair::new(x, Values::F32(&y), &[rows, 16]).unwrap();
                assert_eq!(Denominator.find(&pair), None, "{seed}, {rows}");
                assert_eq!(Denominator.find(&pair.with_input(a)), None, "{seed}, {rows}");
            }
        }
    }

    #[test]
    fn a_factor_is_no_constant_in_a_denominator() {
        let a = input();
        let x = normalised(&a, 16, 1e-6);
        let y: Vec<f32> = x.iter().map(|x| 0.9 * x).collect();
        for pair in [
            Pair::new(&x, Values::F32(&y), &[8, 16]).unwrap().with_input(&a),
            Pair::new(&x, Values::F32(&y), &[8, 16]).unwrap(),
        ] {
            assert_eq!(Denominator.find(&pair), None);
        }
    }
}
