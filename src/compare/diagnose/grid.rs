//! Actual values that lie on the grid of a type with few digits while the reference's do not, and are no farther from the
//! reference than that rounding takes them: bf16, f16, or blocks of 32 integers with a common scale as q8_0 has them.

use half::{bf16, f16};

use super::pair::Pair;
use super::{Finding, Shape};

/// A grid of few digits.
pub(super) struct Grid;

/// Values of a q8 block.
const BLOCK: usize = 32;
/// The largest integer of a q8 block.
const LARGEST: f64 = 127.0;
/// How far from an integer a value over its scale may be: the product of the two is rounded once, to 2^-24 of it, and the scale was taken
/// from another rounded value, which 127 enlarges to `2 x 127 x 2^-24`.
const INTEGER: f64 = 2.0 * 127.0 / (1u64 << 24) as f64;

impl Shape for Grid {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let on_bf16 = |v: &f32| bf16::from_f32(*v).to_f32() == *v;
        let on_f16 = |v: &f32| f16::from_f32(*v).to_f32() == *v;
        let found = |name: &str, rounded: &dyn Fn(f32) -> f64, half_step: &dyn Fn(usize) -> f64| {
            // A value that lies near the middle may have gone the other way: it is verified by the half step, to twice of it.
            let is_near = |i: usize| {
                let (x, y) = (f64::from(pair.reference[i]), f64::from(pair.actual[i]));
                (y - x).abs() <= 2.0 * half_step(i)
            };
            if !(0..pair.actual.len()).all(is_near) {
                return None;
            }
            let left: f64 = pair
                .reference
                .iter()
                .zip(&*pair.actual)
                .map(|(&x, &y)| (f64::from(y) - rounded(x)).powi(2))
                .sum();
            let explains = (left <= pair.error).then(|| 1.0 - left / pair.error);
            let words = format!("values on a {name} grid, which the reference's are not");
            Some(Finding { shape: self.name(), words, explains, is_verified: true })
        };
        // The coarser first: values of bf16 are values of f16 too, within its range.
        if pair.actual.iter().all(on_bf16) && !pair.reference.iter().all(on_bf16) {
            let half_step = |i: usize| step(pair.reference[i], 8, -126) / 2.0;
            return found("bf16", &|x| bf16::from_f32(x).to_f64(), &half_step);
        }
        if pair.actual.iter().all(on_f16) && !pair.reference.iter().all(on_f16) {
            let half_step = |i: usize| step(pair.reference[i], 11, -14) / 2.0;
            return found("f16", &|x| f16::from_f32(x).to_f64(), &half_step);
        }
        let last = pair.shape.last().copied().unwrap_or(1);
        if !last.is_multiple_of(BLOCK) || on_q8(pair.reference) || !on_q8(&pair.actual) {
            return None;
        }
        let scales: Vec<f64> =
            pair.actual.chunks_exact(BLOCK).map(|block| largest(block) / LARGEST).collect();
        let near = |i: usize| {
            let half = scales[i / BLOCK] / 2.0;
            (f64::from(pair.actual[i]) - f64::from(pair.reference[i])).abs() <= 2.0 * half
        };
        (0..pair.actual.len()).all(near).then(|| Finding {
            shape: self.name(),
            words: "values on a q8 grid of blocks of 32, which the reference's are not".to_owned(),
            explains: None,
            is_verified: true,
        })
    }
}

/// The distance of neighbours near a value in a format of so many digits.
fn step(value: f32, digits: i32, least_exponent: i32) -> f64 {
    let exponent = if value == 0.0 { least_exponent } else { f64::from(value.abs()).log2().floor() as i32 };
    2f64.powi(exponent.max(least_exponent) + 1 - digits)
}

fn largest(block: &[f32]) -> f64 {
    block.iter().fold(0.0, |most, v| f64::from(v.abs()).max(most))
}

/// Whether every block is 32 integers of at most 127 times a scale. A block of zeros is, and says nothing.
fn on_q8(values: &[f32]) -> bool {
    values.chunks_exact(BLOCK).all(|block| {
        let scale = largest(block) / LARGEST;
        scale == 0.0
            || block.iter().all(|&v| {
                let over = f64::from(v) / scale;
                (over - over.round()).abs() <= INTEGER
            })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(x: &[f32], y: &[f32]) -> Option<String> {
        Grid.find(&Pair::new(x, Values::F32(y), &[x.len() / 32, 32]).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn each_grid_is_told_from_the_others() {
        let x = noise(128, 6);
        let as_bf16: Vec<f32> = x.iter().map(|&x| bf16::from_f32(x).to_f32()).collect();
        let as_f16: Vec<f32> = x.iter().map(|&x| f16::from_f32(x).to_f32()).collect();
        let as_q8: Vec<f32> = x
            .chunks(32)
            .flat_map(|block| {
                let d = (largest(block) / 127.0) as f32;
                block.iter().map(move |x| d * (x / d).round())
            })
            .collect();
        assert!(found(&x, &as_bf16).unwrap().contains("a bf16 grid"));
        assert!(
            found(&x, &as_f16).unwrap().contains("an f16 grid")
                || found(&x, &as_f16).unwrap().contains("f16 grid")
        );
        assert!(found(&x, &as_q8).unwrap().contains("a q8 grid of blocks of 32"));
    }

    #[test]
    fn other_values_and_values_too_far_away_are_none() {
        let x = noise(128, 6);
        let scaled: Vec<f32> = x.iter().map(|x| 1.001 * x).collect();
        assert_eq!(found(&x, &scaled), None);
        // on the grid, and farther from the reference than rounding goes
        let far: Vec<f32> = x.iter().map(|&x| bf16::from_f32(1.1 * x).to_f32()).collect();
        assert_eq!(found(&x, &far), None);
        // the reference lies on it too
        let as_bf16: Vec<f32> = x.iter().map(|&x| bf16::from_f32(x).to_f32()).collect();
        let next: Vec<f32> = as_bf16.iter().map(|x| 2.0 * x).collect();
        assert_eq!(found(&as_bf16, &next), None);
    }
}
