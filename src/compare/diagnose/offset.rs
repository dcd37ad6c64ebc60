//! All values plus one number, or each channel plus its own (a bias): `y = x + c`.

use super::factor::short;
use super::pair::Pair;
use super::{Axis, Finding, Shape};

/// A constant offset.
pub(super) struct Offset;

impl Shape for Offset {
    fn name(&self) -> &'static str {
        "offset"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let n = pair.reference.len() as f64;
        let offset = pair.reference.iter().zip(&*pair.actual).map(|(&x, &y)| difference(x.into(), y.into()));
        let offset = offset.sum::<f64>() / n;
        if let Some(explains) = pair.explained(1, |i| f64::from(pair.reference[i]) + offset) {
            let words = format!("an offset: {} is added to every value", short(offset));
            return Some(Finding::verified(self, words, explains));
        }
        let cut = pair.cut_of(Axis::Channel)?;
        let count = cut.part_len() as f64;
        let sums = cut.sums(pair, |x, y| [difference(x, y)]);
        let offsets: Vec<f64> = sums.into_iter().map(|[sum]| sum / count).collect();
        // An error in few channels is told by where it is.
        let largest = offsets.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        if offsets.iter().filter(|offset| offset.abs() > largest * 1e-2).count() * 2 < cut.extent {
            return None;
        }
        let added = |i: usize| f64::from(pair.reference[i]) + offsets[cut.place(i).1];
        let explains = pair.explained(cut.extent, added)?;
        let words = format!("a bias: each channel has its own offset, the largest {}", short(largest));
        Some(Finding::verified(self, words, explains))
    }
}

/// 0 for equal infinities.
fn difference(x: f64, y: f64) -> f64 {
    if x == y { 0.0 } else { y - x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn found(x: &[f32], y: &[f32], shape: &[usize]) -> Option<String> {
        Offset.find(&Pair::new(x, Values::F32(y), shape).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn one_for_all_or_one_for_each_channel() {
        let x = [1.0, -2.0, 3.0, 4.0];
        let all = found(&x, &x.map(|x| x + 0.5), &[4]);
        assert_eq!(all.as_deref(), Some("an offset: 0.5 is added to every value"));
        let bias = found(&x, &[1.5, -3.0, 3.5, 3.0], &[2, 2]);
        assert_eq!(bias.as_deref(), Some("a bias: each channel has its own offset, the largest 1"));
    }

    #[test]
    fn a_factor_is_none_and_one_row_shows_no_bias() {
        let x = [1.0, -2.0, 3.0, 4.0];
        assert_eq!(found(&x, &x.map(|x| x * 2.0), &[2, 2]), None);
        assert_eq!(found(&x, &[1.5, -3.0, 3.25, 4.75], &[1, 4]), None);
    }
}
