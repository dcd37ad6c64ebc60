//! How the comparison of one tensor ended.

use super::{Limit, Metrics};

/// How the comparison of one tensor ended. There is no state in which a tensor was silently left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Compared, and within the limit.
    Pass,
    /// Compared, and beyond the limit.
    Differ,
    /// In the reference, not in the actual run.
    Missing,
    /// In the actual run, not in the reference.
    Extra,
    /// The shapes differ, so the values were not compared.
    Shape {
        /// The reference's extents, ggml's order.
        reference: [u64; 4],
        /// The actual tensor's extents.
        actual: [u64; 4],
    },
    /// A value on either side is NaN or infinite, even if it is on both at the same place.
    NonFinite,
    /// Not compared on purpose, for this reason. Lowers the coverage.
    Skipped(String),
}

impl Verdict {
    /// Judges what was measured. A tensor without elements is skipped: nothing was compared.
    pub fn judge(metrics: &Metrics, limit: Limit) -> Verdict {
        if metrics.elements == 0 {
            Verdict::Skipped("no elements".to_owned())
        } else if metrics.has_nonfinite() {
            Verdict::NonFinite
        } else if limit.accepts(metrics.relative_l2) {
            Verdict::Pass
        } else {
            Verdict::Differ
        }
    }

    /// Whether the tensor was compared and is within its limit.
    pub fn is_pass(&self) -> bool {
        matches!(self, Verdict::Pass)
    }

    /// Whether the run fails because of this tensor: anything but a pass or a skip.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Verdict::Pass | Verdict::Skipped(_))
    }

    /// Whether values were laid side by side.
    pub fn is_compared(&self) -> bool {
        matches!(self, Verdict::Pass | Verdict::Differ | Verdict::NonFinite)
    }

    /// One lower-case word, stable: the field `verdict` of the JSON report.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Differ => "differ",
            Verdict::Missing => "missing",
            Verdict::Extra => "extra",
            Verdict::Shape { .. } => "shape",
            Verdict::NonFinite => "nonfinite",
            Verdict::Skipped(_) => "skipped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn judge(x: &[f32], y: &[f32]) -> Verdict {
        Verdict::judge(&Metrics::measure(x, Values::F32(y), None).unwrap(), Limit::CUMULATIVE)
    }

    #[test]
    fn judges_each_way() {
        assert_eq!(judge(&[1.0, 2.0], &[1.0, 2.0]), Verdict::Pass);
        assert_eq!(judge(&[1.0, 2.0], &[1.0, 2.1]), Verdict::Differ);
        assert_eq!(judge(&[0.0, 0.0], &[0.0, 1e-20]), Verdict::Differ);
        assert_eq!(judge(&[], &[]), Verdict::Skipped("no elements".into()));
    }

    #[test]
    fn non_finite_is_never_a_pass() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(judge(&[1.0, 2.0], &[1.0, bad]), Verdict::NonFinite);
            assert_eq!(judge(&[1.0, bad], &[1.0, 2.0]), Verdict::NonFinite);
            assert_eq!(judge(&[1.0, bad], &[1.0, bad]), Verdict::NonFinite);
        }
    }

    #[test]
    fn everything_but_pass_and_skip_is_a_failure() {
        let shape = Verdict::Shape { reference: [2, 1, 1, 1], actual: [1, 2, 1, 1] };
        for bad in [Verdict::Differ, Verdict::Missing, Verdict::Extra, shape, Verdict::NonFinite] {
            assert!(bad.is_failure() && !bad.is_pass(), "{}", bad.name());
        }
        assert!(!Verdict::Skipped("filtered".into()).is_failure());
        assert!(!Verdict::Skipped("filtered".into()).is_pass());
    }
}
