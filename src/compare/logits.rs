//! What the difference does to the next token: one row of logits beside the reference's.

use std::cmp::Ordering;

use super::greedy::{Greedy, noise};
use super::{CompareError, Limit, Metrics, NonFinite};
use crate::tensor::Values;

/// How many of the best tokens are compared.
const BEST: usize = 10;

/// One row of logits (one output token) compared.
#[derive(Clone, PartialEq, Debug)]
pub struct LogitsResult {
    /// The step it is of.
    pub step: u32,
    /// The row within the step's output, from 0.
    pub row: u32,
    /// The reference's best tokens, at most ten, best first; equal logits by the lower id, NaN left out.
    pub best_reference: Vec<u32>,
    /// The actual best tokens.
    pub best_actual: Vec<u32>,
    /// How many tokens are in both lists, whatever their order.
    pub top10_agreement: u32,
    /// The reference's best logit less its second best: how much it takes to change the argmax.
    pub margin: Option<f64>,
    /// The same of the actual logits.
    pub margin_actual: Option<f64>,
    /// The place that the reference gives to the actual best token, from 1.
    pub rank: Option<u32>,
    /// How far the reference puts that token behind its own best.
    pub behind: Option<f64>,
    /// How far noise may move two logits against each other; NaN if a logit of the reference is not finite.
    pub noise: f64,
    /// Whether both sides choose the same token.
    pub greedy: Greedy,
    /// Cosine of the two rows; NaN if a logit is not finite.
    pub cosine: f64,
    /// `1 - cosine`, accurate where it is small.
    pub one_minus_cosine: f64,
    /// Non-finite logits of both sides together.
    pub nonfinite: u64,
}

impl LogitsResult {
    /// Compares one row of logits; `limit` is that of the tensor that it is a row of.
    ///
    /// # Errors
    /// If the rows differ in length.
    pub fn measure(
        step: u32,
        row: u32,
        reference: &[f32],
        actual: Values<'_>,
        limit: Limit,
    ) -> Result<LogitsResult, CompareError> {
        let metrics = Metrics::measure(reference, actual, None)?;
        let best_reference = best(reference);
        let best_actual = match actual {
            Values::F32(logits) => best(logits),
            Values::F64(logits) => best(logits),
        };
        let top10_agreement = best_reference.iter().filter(|id| best_actual.contains(id)).count() as u32;
        let logit = |id: u32| reference.get(id as usize).map(|&logit| f64::from(logit));
        let (first, other) = (best_reference.first().copied(), best_actual.first().copied());
        let behind = first.and_then(logit).zip(other.and_then(logit)).map(|(first, other)| first - other);
        let noise = noise(&metrics, limit);
        let NonFinite { count, .. } = metrics.reference_nonfinite;
        Ok(LogitsResult {
            step,
            row,
            margin: margin(&best_reference, logit),
            margin_actual: margin(&best_actual, |id| actual.get(id as usize)),
            rank: other.and_then(|token| rank(reference, token)),
            behind,
            noise,
            greedy: Greedy::judge(first, other, behind, noise),
            top10_agreement,
            cosine: metrics.cosine,
            one_minus_cosine: metrics.one_minus_cosine,
            nonfinite: count + metrics.actual_nonfinite.count,
            best_reference,
            best_actual,
        })
    }

    /// The reference's best token.
    pub fn argmax_reference(&self) -> Option<u32> {
        self.best_reference.first().copied()
    }

    /// The actual best token.
    pub fn argmax_actual(&self) -> Option<u32> {
        self.best_actual.first().copied()
    }

    /// Orders by how bad: the token that is chosen, then non-finite logits, fewer common tokens, a larger angle.
    pub fn cmp_severity(&self, other: &LogitsResult) -> Ordering {
        let key = |r: &LogitsResult| (r.greedy, r.nonfinite, -i64::from(r.top10_agreement));
        key(self).cmp(&key(other)).then(self.one_minus_cosine.total_cmp(&other.one_minus_cosine))
    }
}

/// The best logit less the second best.
fn margin(best: &[u32], logit: impl Fn(u32) -> Option<f64>) -> Option<f64> {
    let &[first, second, ..] = best else { return None };
    Some(logit(first)? - logit(second)?)
}

/// The place of a token, from 1, in the order of [`best`]; none if its logit is NaN.
fn rank(logits: &[f32], token: u32) -> Option<u32> {
    let own = *logits.get(token as usize).filter(|logit| !logit.is_nan())?;
    let is_before = |(id, &logit): (usize, &f32)| logit > own || (logit == own && id < token as usize);
    Some(1 + logits.iter().enumerate().filter(|&logit| is_before(logit)).count() as u32)
}

/// The ids of the largest logits, best first; equal ones by the lower id, NaN never.
fn best<T: Copy + Into<f64>>(logits: &[T]) -> Vec<u32> {
    let mut best: Vec<(f64, u32)> = Vec::with_capacity(BEST + 1);
    for (id, &logit) in logits.iter().enumerate() {
        let logit: f64 = logit.into();
        // The last of a full list must be beaten; being equal does not suffice, as ids only grow.
        if logit.is_nan() || (best.len() == BEST && best.last().is_some_and(|last| logit <= last.0)) {
            continue;
        }
        let place = best.partition_point(|kept| kept.0 >= logit);
        best.insert(place, (logit, id as u32));
        best.truncate(BEST);
    }
    best.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(reference: &[f32], actual: &[f32]) -> LogitsResult {
        LogitsResult::measure(2, 0, reference, Values::F32(actual), Limit::CUMULATIVE).unwrap()
    }

    #[test]
    fn the_best_two_and_their_margin() {
        let r = measure(&[1.0, 5.0, 4.5], &[1.0, 5.0, 5.25]);
        assert_eq!((r.argmax_reference(), r.argmax_actual(), r.margin), (Some(1), Some(2), Some(0.5)));
        assert_eq!((r.best_reference.as_slice(), r.best_actual.as_slice()), (&[1, 2, 0][..], &[2, 1, 0][..]));
        assert_eq!(r.top10_agreement, 3);
        assert_eq!((r.margin_actual, r.rank, r.behind), (Some(0.25), Some(2), Some(0.5)));
        // noise = sqrt(2) 1e-3 sqrt((1 + 25 + 20.25) / 3)
        assert!((r.noise - 2f64.sqrt() * 1e-3 * (46.25f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!(r.greedy, Greedy::Different);
    }

    #[test]
    fn equal_a_near_tie_and_different() {
        // The noise is sqrt(2) 1e-3 sqrt((1 + 4 + 3.99..) / 3) = 2.4e-3.
        let reference = [1.0, 2.0, 1.998];
        let greedy = |actual: &[f32]| measure(&reference, actual).greedy;
        assert_eq!(greedy(&[1.0, 2.0, 1.999]), Greedy::Equal);
        assert_eq!(greedy(&[1.0, 2.0, 2.001]), Greedy::NearTie);
        assert_eq!(greedy(&[2.5, 2.0, 1.998]), Greedy::Different);
        // A margin above the noise is refused, however close the actual logits are to each other.
        let r = measure(&[1.0, 2.0, 1.997], &[1.0, 2.0, 2.0000002]);
        assert_eq!((r.greedy, r.rank), (Greedy::Different, Some(2)));
        assert!(r.behind > Some(r.noise));
    }

    #[test]
    fn a_rank_counts_what_is_before_by_value_and_then_by_id() {
        let logits = [5.0, 7.0, 5.0, f32::NAN, 6.0];
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|token| rank(&logits, token)),
            [Some(3), Some(1), Some(4), None, Some(2), None]
        );
    }

    #[test]
    fn equal_logits_go_by_the_lower_id() {
        let r = measure(&[7.0; 12], &[7.0; 12]);
        assert_eq!(r.best_reference, (0..10).collect::<Vec<_>>());
        assert_eq!((r.greedy, r.rank, r.margin), (Greedy::Equal, Some(1), Some(0.0)));
        // The reference's own choice among equals is the lower id: another one is a tie, of no margin at all.
        let r = measure(&[7.0, 7.0], &[7.0, 7.0000005]);
        assert_eq!((r.greedy, r.rank, r.behind), (Greedy::NearTie, Some(2), Some(0.0)));
    }

    #[test]
    fn the_best_ten_of_more() {
        let up: Vec<f32> = (0..20).map(|i| i as f32).collect();
        let down: Vec<f32> = (0..20).map(|i| -(i as f32)).collect();
        let r = measure(&up, &down);
        assert_eq!(r.best_reference, (10..20).rev().collect::<Vec<_>>());
        assert_eq!(r.top10_agreement, 0);
    }

    #[test]
    fn nan_is_nobodys_choice() {
        let r = measure(&[1.0, 2.0], &[f32::NAN, 2.0]);
        assert_eq!((r.argmax_actual(), r.nonfinite), (Some(1), 1));
        assert!(r.cosine.is_nan());
        let r = measure(&[f32::NAN; 2], &[f32::NAN; 2]);
        assert!(r.argmax_reference().is_none() && r.top10_agreement == 0);
        assert_eq!((r.greedy, r.rank, r.margin), (Greedy::Different, None, None));
    }

    #[test]
    fn an_infinite_logit_explains_no_other_token() {
        let r = measure(&[f32::INFINITY, 2.0], &[1.0, 2.0]);
        assert_eq!((r.greedy, r.behind), (Greedy::Different, Some(f64::INFINITY)));
        let r = measure(&[f32::NEG_INFINITY, 2.0, 2.0], &[1.0, 2.0, 2.0000002]);
        assert_eq!((r.greedy, r.behind), (Greedy::Different, Some(0.0)));
    }

    #[test]
    fn another_argmax_is_worse_than_any_angle() {
        let other = measure(&[1.0, 1.0001], &[1.0, 0.9999]);
        let angle = measure(&[1.0, 2.0], &[-5.0, 2.0]);
        assert_eq!(other.cmp_severity(&angle), Ordering::Greater);
        assert_eq!(angle.cmp_severity(&measure(&[1.0, 2.0], &[1.0, 2.0])), Ordering::Greater);
    }

    #[test]
    fn rows_of_different_length_are_an_error() {
        let error =
            LogitsResult::measure(0, 0, &[1.0], Values::F32(&[1.0, 2.0]), Limit::CUMULATIVE).unwrap_err();
        assert_eq!(error, CompareError::Elements { reference: 1, actual: 2 });
    }
}
