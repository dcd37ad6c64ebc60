//! What a distance is judged against.

/// The limit on a tensor's cumulative relative L2 (`|actual - reference| / |reference|`).
///
/// One constant for every tensor of every case, until a noise floor is measured per tensor. Why 1e-3:
/// rounding alone, f64 arithmetic against llama.cpp's f32 through 64 layers, gave 7.2e-5 at `l_out-63`
/// (3.7e-7 at `l_out-0`), an order of magnitude below; any wrong convention (a head map, a rotation's
/// pairing, an epsilon) gives more than 1e-2, an order of magnitude above. It is not tuned per case and
/// never relaxed: a tensor that exceeds it is a finding.
pub const CUMULATIVE_RELATIVE_L2: f64 = 1e-3;

/// The limits that a tensor must keep.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limit {
    /// Largest accepted relative L2.
    pub relative_l2: f64,
}

impl Limit {
    /// The limit of an engine that runs from tokens to logits on its own values.
    pub const CUMULATIVE: Limit = Limit { relative_l2: CUMULATIVE_RELATIVE_L2 };

    /// Whether an error is within the limit. NaN on either side is not, and neither is an infinite error.
    pub fn accepts(&self, relative_l2: f64) -> bool {
        relative_l2.is_finite() && relative_l2 <= self.relative_l2
    }

    /// The share of the limit that an error uses; at most 1 if it is accepted. NaN counts as infinite.
    pub fn share(&self, relative_l2: f64) -> f64 {
        let share = if relative_l2 == 0.0 { 0.0 } else { relative_l2 / self.relative_l2 };
        if share.is_nan() { f64::INFINITY } else { share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_limit_passes_and_above_it_fails() {
        assert!(Limit::CUMULATIVE.accepts(1e-3));
        assert!(!Limit::CUMULATIVE.accepts(1.0001e-3));
        assert_eq!(Limit::CUMULATIVE.share(5e-4), 0.5);
    }

    #[test]
    fn nan_and_infinity_are_never_accepted() {
        let nan = Limit { relative_l2: f64::NAN };
        assert!(!nan.accepts(0.5) && nan.share(0.5).is_infinite());
        assert!(!Limit::CUMULATIVE.accepts(f64::NAN));
        assert!(!Limit { relative_l2: f64::INFINITY }.accepts(f64::INFINITY));
        assert!(Limit::CUMULATIVE.share(f64::NAN).is_infinite());
        assert_eq!(Limit { relative_l2: 0.0 }.share(0.0), 0.0);
    }
}
