//! The comparison of one tensor: what it is, how it ended, how far it is.

use std::cmp::Ordering;

use super::error::{CompareError, check_count};
use super::{Departs, Finding, Legs, Limit, Metrics, Verdict};
use crate::tensor::{Layout, TensorId, Values};

/// Values with the extents they claim.
#[derive(Clone, Copy, Debug)]
pub struct Shaped<V> {
    /// Extents in ggml's order.
    pub ne: [u64; 4],
    /// Contiguous values, dimension 0 fastest.
    pub values: V,
}

/// How one tensor compares.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorResult {
    /// Which tensor.
    pub id: TensorId,
    /// The reference's ggml operator (`MUL_MAT`); empty if it has none.
    pub op: String,
    /// Extents in ggml's order: the reference's, or the actual tensor's if it is extra.
    pub ne: [u64; 4],
    /// How it ended.
    pub verdict: Verdict,
    /// What was measured, if values were compared.
    pub metrics: Option<Metrics>,
    /// The largest relative L2 it may have.
    pub limit: f64,
    /// The share of its limit that it uses (infinite if the reference is zero), if it was measured: of the cumulative limit or
    /// of its operator's budget, whichever is larger.
    pub share: Option<f64>,
    /// The noise floor of its relative L2, if one was measured.
    pub floor: Option<f64>,
    /// Its operator judged from the reference's own inputs.
    pub legs: Option<Legs>,
    /// The shape of its error, the first to be told first; empty if it was not looked for.
    pub diagnosis: Vec<Finding>,
}

impl TensorResult {
    /// Compares two tensors. Different extents are a verdict, whatever their product.
    ///
    /// # Errors
    /// If a side's values are not as many as its own extents say, or `terms` are not one per element.
    pub fn measure(
        id: TensorId,
        op: &str,
        reference: Shaped<&[f32]>,
        actual: Shaped<Values<'_>>,
        terms: Option<&[f64]>,
        limit: Limit,
    ) -> Result<TensorResult, CompareError> {
        check_count("reference", reference.ne, reference.values.len())?;
        check_count("actual", actual.ne, actual.values.len())?;
        if reference.ne != actual.ne {
            let verdict = Verdict::Shape { reference: reference.ne, actual: actual.ne };
            return Ok(TensorResult::unmeasured(id, op, reference.ne, verdict, limit));
        }
        let metrics = Metrics::measure(reference.values, actual.values, terms)?;
        let verdict = Verdict::judge(&metrics, limit);
        let share =
            matches!(verdict, Verdict::Pass | Verdict::Differ).then(|| limit.share(metrics.relative_l2));
        let metrics = verdict.is_compared().then_some(metrics);
        Ok(TensorResult { metrics, share, ..TensorResult::unmeasured(id, op, reference.ne, verdict, limit) })
    }

    /// A tensor of the reference that the actual run did not give.
    pub fn missing(id: TensorId, op: &str, ne: [u64; 4], limit: Limit) -> TensorResult {
        TensorResult::unmeasured(id, op, ne, Verdict::Missing, limit)
    }

    /// A tensor of the actual run that the reference does not have.
    pub fn extra(id: TensorId, ne: [u64; 4], limit: Limit) -> TensorResult {
        TensorResult::unmeasured(id, "", ne, Verdict::Extra, limit)
    }

    /// A tensor left out on purpose, with the reason that the report prints.
    pub fn skipped(
        id: TensorId,
        op: &str,
        ne: [u64; 4],
        reason: impl Into<String>,
        limit: Limit,
    ) -> TensorResult {
        TensorResult::unmeasured(id, op, ne, Verdict::Skipped(reason.into()), limit)
    }

    fn unmeasured(id: TensorId, op: &str, ne: [u64; 4], verdict: Verdict, limit: Limit) -> TensorResult {
        let limit = limit.relative_l2;
        TensorResult {
            id,
            op: op.to_owned(),
            ne,
            verdict,
            metrics: None,
            limit,
            share: None,
            floor: None,
            legs: None,
            diagnosis: Vec::new(),
        }
    }

    /// Adds what judging its operator from the reference's inputs gave. A side that departs from exact arithmetic makes a pass a
    /// difference, whatever the cumulative error is.
    pub fn with_legs(mut self, legs: Legs) -> TensorResult {
        if self.verdict.is_compared() {
            let share = legs.share();
            if self.verdict.is_pass() && legs.departs() != Departs::Neither {
                self.verdict = Verdict::Differ;
            }
            self.share = self.share.map(|so_far| if share > so_far { share } else { so_far });
        }
        self.legs = Some(legs);
        self
    }

    /// Who departed from exact arithmetic; none if that was not judged.
    pub fn departs(&self) -> Option<Departs> {
        self.legs.as_ref().map(Legs::departs)
    }

    /// How many times its noise floor the error is.
    pub fn times_floor(&self) -> Option<f64> {
        let (floor, metrics) = (self.floor?, self.metrics.as_ref()?);
        (metrics.relative_l2 > 0.0).then(|| metrics.relative_l2 / floor)
    }

    /// How bad it is, as a share of the limit: infinite for a failure that has no share, `None` for a skip.
    pub fn severity(&self) -> Option<f64> {
        match (&self.verdict, self.share) {
            (Verdict::Skipped(_), _) => None,
            (_, Some(share)) if !share.is_nan() => Some(share),
            _ => Some(f64::INFINITY),
        }
    }

    /// The share of the limit that the distance uses which a run on its own values carried here, without what the operator's own
    /// budget says; the severity where that was not judged, and of a failure.
    pub fn carried(&self) -> Option<f64> {
        match &self.metrics {
            Some(metrics) if !self.verdict.is_failure() && self.limit.is_finite() => {
                Some(Limit { relative_l2: self.limit }.share(metrics.relative_l2))
            }
            _ => self.severity(),
        }
    }

    /// Orders by how bad: skips least, failures above every pass, then by [`TensorResult::severity`].
    pub fn cmp_severity(&self, other: &TensorResult) -> Ordering {
        let key = |r: &TensorResult| (r.verdict.is_failure(), r.severity().unwrap_or(-1.0));
        let (a, b) = (key(self), key(other));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    }

    /// The shape outermost first, leading extents of 1 removed.
    pub fn shape(&self) -> Vec<usize> {
        Layout { ne: self.ne, nb: [0; 4] }.shape()
    }

    /// The index of the largest difference, one number per entry of [`TensorResult::shape`].
    pub fn worst_index(&self) -> Option<Vec<usize>> {
        let mut rest = self.metrics.as_ref()?.worst_index as usize;
        let mut index = self.shape();
        for place in index.iter_mut().rev() {
            let extent = (*place).max(1);
            *place = rest % extent;
            rest /= extent;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> TensorId {
        TensorId { step: 0, name: "l_out-3".into(), occurrence: 0 }
    }

    fn measure(
        reference: ([u64; 4], &[f32]),
        actual: ([u64; 4], &[f32]),
    ) -> Result<TensorResult, CompareError> {
        let reference = Shaped { ne: reference.0, values: reference.1 };
        let actual = Shaped { ne: actual.0, values: Values::F32(actual.1) };
        TensorResult::measure(id(), "ADD", reference, actual, None, Limit::CUMULATIVE)
    }

    #[test]
    fn a_transposed_tensor_of_the_same_size_is_a_shape_verdict() {
        let r = measure(([2, 1, 1, 1], &[1.0, 2.0]), ([1, 2, 1, 1], &[1.0, 2.0])).unwrap();
        assert_eq!(r.verdict, Verdict::Shape { reference: [2, 1, 1, 1], actual: [1, 2, 1, 1] });
        assert!(r.metrics.is_none() && r.severity() == Some(f64::INFINITY));
    }

    #[test]
    fn values_that_do_not_fill_their_shape_are_an_error() {
        let whole = ([2, 1, 1, 1], &[1.0, 2.0][..]);
        let short = ([2, 1, 1, 1], &[1.0][..]);
        assert!(matches!(measure(whole, short), Err(CompareError::Shape { side: "actual", .. })));
        assert!(matches!(measure(short, whole), Err(CompareError::Shape { side: "reference", .. })));
    }

    #[test]
    fn the_worst_index_is_outermost_first() {
        let x = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        let y = [0.0, 0.0, 0.0, 1.0, 0.0, 9.0];
        let r = measure(([3, 1, 2, 1], &x), ([3, 1, 2, 1], &y)).unwrap();
        assert_eq!((r.shape(), r.worst_index()), (vec![2, 1, 3], Some(vec![1, 0, 2])));
        assert_eq!((r.verdict, r.share), (Verdict::Differ, Some(9.0 / 1e-3)));
    }

    #[test]
    fn an_empty_tensor_is_not_a_pass() {
        let r = measure(([0, 2, 1, 1], &[]), ([0, 2, 1, 1], &[])).unwrap();
        assert_eq!(r.verdict, Verdict::Skipped("no elements".into()));
        assert!(r.share.is_none() && r.severity().is_none());
    }

    #[test]
    fn every_failure_is_worse_than_every_pass() {
        let pass = measure(([1, 1, 1, 1], &[1.0]), ([1, 1, 1, 1], &[1.0005])).unwrap();
        let missing = TensorResult::missing(id(), "ADD", [1; 4], Limit::CUMULATIVE);
        let skipped = TensorResult::skipped(id(), "ADD", [1; 4], "a view", Limit::CUMULATIVE);
        assert_eq!(missing.cmp_severity(&pass), Ordering::Greater);
        assert_eq!(pass.cmp_severity(&skipped), Ordering::Greater);
    }
}
