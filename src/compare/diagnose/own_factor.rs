//! A factor for each head, each channel or each row: another weight, or another norm.

use super::factor::near_one;
use super::pair::Pair;
use super::{Axis, Finding, SHARE, Shape};

/// Factors of their own.
pub(super) struct OwnFactor;

impl Shape for OwnFactor {
    fn name(&self) -> &'static str {
        "own_factor"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let row = pair.rows();
        let cuts = [
            pair.cut_of(Axis::Head).map(|cut| (cut, "each head by its own factor".to_owned())),
            pair.cut_of(Axis::Channel)
                .map(|cut| (cut, "each channel by its own factor, as another weight".to_owned())),
            Some((row, format!("each row of {} by its own factor, as another norm", row.inner))),
        ];
        cuts.into_iter().flatten().filter(|(cut, _)| cut.extent > 1).find_map(|(cut, words)| {
            let sums = cut.sums(pair, |x, y| [x * x, x * y]);
            let factors: Vec<f64> =
                sums.iter().map(|[xx, xy]| if *xx == 0.0 { 1.0 } else { xy / xx }).collect();
            // Twice as many elements as factors: a part of one element has a factor always.
            let scaled = |i: usize| factors[cut.place(i).1] * f64::from(pair.reference[i]);
            let explains = pair.explained(cut.extent, scaled)?;
            let (least, most) =
                factors.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &f| {
                    (f64::min(least, f), f64::max(most, f))
                });
            debug_assert!(explains >= SHARE);
            let words = format!("{words} ({} to {})", near_one(least), near_one(most));
            Some(Finding::verified(self, words, explains))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(change: impl Fn(usize, f32) -> f32, shape: &[usize]) -> Option<String> {
        let x = noise(48, 13);
        let y: Vec<f32> = x.iter().enumerate().map(|(i, &x)| change(i, x)).collect();
        OwnFactor.find(&Pair::new(&x, Values::F32(&y), shape).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn heads_channels_and_rows() {
        let head = found(|i, x| x * (1 + i / 4 % 3) as f32, &[4, 3, 4]).unwrap();
        assert_eq!(head, "each head by its own factor (1 to 3)");
        let channel = found(|i, x| x * (1 + i % 4) as f32, &[12, 4]).unwrap();
        assert_eq!(channel, "each channel by its own factor, as another weight (1 to 4)");
        let row = found(|i, x| x / (1 + i / 4) as f32, &[12, 4]).unwrap();
        assert_eq!(row, "each row of 4 by its own factor, as another norm (0.08333 to 1)");
    }

    #[test]
    fn an_offset_is_none_and_a_single_row_has_no_channels() {
        assert_eq!(found(|i, x| x + (i % 4) as f32, &[12, 4]), None);
        assert_eq!(found(|i, x| x * (1 + i % 7) as f32, &[1, 48]), None);
    }
}
