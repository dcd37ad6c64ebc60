//! The counts at the end of a comparison, and whether it passed.

use std::ops::AddAssign;

use super::{TensorResult, Verdict};

/// How many tensors ended how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Tensors whose values were laid side by side: `pass + differ + nonfinite`.
    pub compared: u64,
    /// Within the limit.
    pub pass: u64,
    /// Beyond the limit.
    pub differ: u64,
    /// In the reference only.
    pub missing: u64,
    /// In the actual run only.
    pub extra: u64,
    /// Of another shape.
    pub shape: u64,
    /// With a NaN or an infinity on either side.
    pub nonfinite: u64,
    /// Left out on purpose.
    pub skipped: u64,
    /// Among those within the limit, the tensors whose every value is zero on both sides: equal, and no evidence.
    pub zero: u64,
}

impl Summary {
    /// Counts the verdicts.
    pub fn of(results: &[TensorResult]) -> Summary {
        let mut s = Summary::default();
        for result in results {
            *match result.verdict {
                Verdict::Pass => &mut s.pass,
                Verdict::Differ => &mut s.differ,
                Verdict::Missing => &mut s.missing,
                Verdict::Extra => &mut s.extra,
                Verdict::Shape { .. } => &mut s.shape,
                Verdict::NonFinite => &mut s.nonfinite,
                Verdict::Skipped(_) => &mut s.skipped,
            } += 1;
        }
        s.compared = s.pass + s.differ + s.nonfinite;
        let is_zero =
            |r: &&TensorResult| r.metrics.as_ref().is_some_and(|m| m.both_zero) && r.verdict.is_pass();
        s.zero = results.iter().filter(is_zero).count() as u64;
        s
    }

    /// Tensors of the reference: what a full coverage compares.
    pub fn expected(&self) -> u64 {
        self.compared + self.missing + self.shape + self.skipped
    }

    /// The part of the reference's tensors that were compared, 0 to 1; 0 if there are none.
    pub fn coverage(&self) -> f64 {
        if self.expected() == 0 { 0.0 } else { self.compared as f64 / self.expected() as f64 }
    }

    /// True only if something was compared that is not zero on both sides, and nothing failed. A skip lowers the
    /// coverage and does not fail.
    pub fn is_pass(&self) -> bool {
        self.compared > self.zero && self.compared == self.pass && self.missing + self.extra + self.shape == 0
    }
}

impl AddAssign for Summary {
    /// Joins the counts of two comparisons.
    fn add_assign(&mut self, other: Summary) {
        self.compared += other.compared;
        self.pass += other.pass;
        self.differ += other.differ;
        self.missing += other.missing;
        self.extra += other.extra;
        self.shape += other.shape;
        self.nonfinite += other.nonfinite;
        self.skipped += other.skipped;
        self.zero += other.zero;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Limit, Shaped};
    use crate::tensor::{TensorId, Values};

    fn with(verdicts: &[Verdict]) -> Summary {
        let results: Vec<TensorResult> = verdicts
            .iter()
            .map(|verdict| {
                let id = TensorId { step: 0, name: "t".into(), occurrence: 0 };
                let result = TensorResult::missing(id, "ADD", [1; 4], Limit::CUMULATIVE);
                TensorResult { verdict: verdict.clone(), ..result }
            })
            .collect();
        Summary::of(&results)
    }

    #[test]
    fn each_bad_verdict_fails_among_passes() {
        let shape = Verdict::Shape { reference: [1; 4], actual: [2, 1, 1, 1] };
        for bad in [Verdict::Differ, Verdict::Missing, Verdict::Extra, shape, Verdict::NonFinite] {
            assert!(!with(&[Verdict::Pass, bad.clone(), Verdict::Pass]).is_pass(), "{bad:?}");
        }
        assert!(with(&[Verdict::Pass, Verdict::Pass]).is_pass());
    }

    #[test]
    fn comparing_nothing_is_not_a_pass() {
        assert!(!with(&[]).is_pass());
        assert!(!with(&[Verdict::Skipped("all of them".into())]).is_pass());
        assert_eq!(with(&[]).coverage(), 0.0);
    }

    #[test]
    fn comparing_only_zeros_is_not_a_pass() {
        let result = |value: f32| {
            let id = TensorId { step: 0, name: "t".into(), occurrence: 0 };
            let (ne, value) = ([1; 4], [value]);
            let reference = Shaped { ne, values: &value[..] };
            let actual = Shaped { ne, values: Values::F32(&value) };
            TensorResult::measure(id, "ADD", reference, actual, None, Limit::CUMULATIVE).unwrap()
        };
        let zeros = Summary::of(&[result(0.0), result(0.0)]);
        assert!(!zeros.is_pass() && (zeros.pass, zeros.zero) == (2, 2));
        assert!(Summary::of(&[result(0.0), result(0.5)]).is_pass());
    }

    #[test]
    fn a_skip_lowers_the_coverage_and_does_not_fail() {
        let s = with(&[Verdict::Pass, Verdict::Skipped("a view".into()), Verdict::Pass, Verdict::Pass]);
        assert!(s.is_pass());
        assert_eq!(s.coverage(), 0.75);
    }

    #[test]
    fn counts_written_out() {
        let mut s =
            with(&[Verdict::Pass, Verdict::Differ, Verdict::NonFinite, Verdict::Extra, Verdict::Missing]);
        assert_eq!((s.compared, s.expected(), s.coverage()), (3, 4, 0.75));
        s += s;
        assert_eq!((s.compared, s.nonfinite, s.extra, s.missing), (6, 2, 2, 2));
    }
}
