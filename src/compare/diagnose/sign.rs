//! Values with the wrong sign: all of them, or those of some channels or heads.

use super::pair::{Cut, Pair};
use super::regular::set;
use super::{Axis, Finding, Shape};

/// Negated values.
pub(super) struct Sign;

impl Shape for Sign {
    fn name(&self) -> &'static str {
        "sign"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        if let Some(explains) = pair.explained(0, |i| -f64::from(pair.reference[i])) {
            return Some(Finding::verified(self, "a sign: every value is negated".to_owned(), explains));
        }
        [Axis::Head, Axis::Channel].into_iter().find_map(|axis| {
            let cut = pair.cut_of(axis)?;
            let signs = signs(pair, cut);
            let flipped: Vec<usize> = (0..cut.extent).filter(|&i| signs[i] < 0.0).collect();
            // A sign is no free number: it cannot make a size right.
            let signed = |i: usize| signs[cut.place(i).1] * f64::from(pair.reference[i]);
            let explains = pair.chosen(0, cut.extent as f64, signed)?;
            let words = format!("a sign: negated in {}", set(&flipped, cut.extent, axis.noun()));
            Some(Finding::verified(self, words, explains))
        })
    }
}

/// 1 or -1 for each part.
fn signs(pair: &Pair<'_>, cut: Cut) -> Vec<f64> {
    let dots = cut.sums(pair, |x, y| [x * y]);
    dots.into_iter().map(|[dot]| if dot < 0.0 { -1.0 } else { 1.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn found(x: &[f32], y: &[f32], shape: &[usize]) -> Option<String> {
        Sign.find(&Pair::new(x, Values::F32(y), shape).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn all_values_or_those_of_some_channels() {
        let x = [1.0, -2.0, 3.0, 4.0];
        let all = found(&x, &[-1.0, 2.0, -3.0, -4.0], &[4]);
        assert_eq!(all.as_deref(), Some("a sign: every value is negated"));
        let one = found(&x, &[1.0, 2.0, 3.0, -4.0], &[2, 2]);
        assert_eq!(one.as_deref(), Some("a sign: negated in channel 1"));
    }

    #[test]
    fn another_size_is_no_sign() {
        assert_eq!(found(&[1.0, -2.0, 3.0, 4.0], &[-2.0, 4.0, -6.0, -8.0], &[4]), None);
        assert_eq!(found(&[1.0, -2.0, 3.0, 4.0], &[1.5, -1.5, 3.5, 4.5], &[2, 2]), None);
    }
}
