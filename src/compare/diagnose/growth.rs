//! An error that grows with the position.

use super::pair::Pair;
use super::{Axis, Finding, Shape};

/// Growth along tokens.
pub(super) struct Growth;

/// Fewest tokens by which growth is told: with them chance gives `CORRELATION` once in a million tensors.
const FEWEST: usize = 16;
/// Least rank correlation r of error and position. Of n tokens without relation `r sqrt((n - 2) / (1 - r^2))` is Student's t with `n - 2` degrees
/// of freedom: 7.7 with 14, which is exceeded by a chance of 1e-6; with eight tokens it would be one of 1e-3.
const CORRELATION: f64 = 0.9;

impl Shape for Growth {
    fn name(&self) -> &'static str {
        "growth"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let cut = pair.cut_of(Axis::Token)?;
        if cut.extent < FEWEST {
            return None;
        }
        let sums = cut.sums(pair, |x, y| [(y - x) * (y - x), x * x]);
        let errors: Vec<f64> =
            sums.iter().map(|[d, x]| if *d == 0.0 { 0.0 } else { (d / x).sqrt() }).collect();
        // Tokens in front of the first wrong one are right; what a step up is, `onset` says.
        let start = errors.iter().take_while(|error| **error <= pair.limit).count();
        let errors = &errors[start..];
        if errors.len() < FEWEST {
            return None;
        }
        let positions: Vec<f64> = (start..cut.extent).map(|t| pair.position(t) as f64).collect();
        let (first, last) = (errors[0], errors[errors.len() - 1]);
        // Doubled at least: what creeps up by less is not told apart from what is steady.
        if !(last.is_finite() && last >= 2.0 * first) {
            return None;
        }
        let correlation = pearson(&ranks(&positions), &ranks(errors));
        let grows = correlation >= CORRELATION;
        if !grows {
            return None;
        }
        let logs = positions.iter().zip(errors).filter(|(p, e)| **p > 0.0 && **e > 0.0);
        let (p, e): (Vec<f64>, Vec<f64>) = logs.map(|(p, e)| (p.ln(), e.ln())).unzip();
        let slope = slope(&p, &e);
        let power = if slope.is_finite() { format!(", about as position^{slope:.1}") } else { String::new() };
        let words = format!(
            "an error that grows with the position: relative L2 {first:.1e} at {}, {last:.1e} at {}{power}",
            pair.position(start),
            pair.position(cut.extent - 1)
        );
        Some(Finding { shape: self.name(), words, explains: None, is_verified: true })
    }
}

/// The rank of each value; equal ones share theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let equal = order[start..].iter().take_while(|&&i| values[i] == values[order[start]]).count().max(1);
        for &i in &order[start..start + equal] {
            ranks[i] = start as f64 + (equal - 1) as f64 / 2.0;
        }
        start += equal;
    }
    ranks
}

fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let (ma, mb) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let product = |a: &[f64], ma: f64, b: &[f64], mb: f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum()
    };
    product(a, ma, b, mb) / (product(a, ma, a, ma) * product(b, mb, b, mb)).sqrt()
}

fn slope(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let (ma, mb) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let covariance: f64 = a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum();
    covariance / a.iter().map(|a| (a - ma).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(scale: impl Fn(usize) -> f32) -> Option<String> {
        let (x, e) = (noise(128, 14), noise(128, 15));
        let y: Vec<f32> = (0..128).map(|i| x[i] + scale(i / 4) * e[i]).collect();
        Growth.find(&Pair::new(&x, Values::F32(&y), &[32, 4]).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn growth_with_its_power() {
        let words = found(|t| 1e-3 * (t * t) as f32).unwrap();
        assert!(words.starts_with("an error that grows with the position: relative L2 "), "{words}");
        assert!(words.contains(", about as position^2."), "{words}");
    }

    #[test]
    fn a_steady_or_falling_error_does_not_grow() {
        assert_eq!(found(|_| 0.1), None);
        assert_eq!(found(|t| 1.0 / (1 + t) as f32), None);
        assert_eq!(ranks(&[3.0, 1.0, 3.0]), [1.5, 0.0, 1.5]);
    }
}
