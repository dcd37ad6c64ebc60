//! What a distance is judged against.

/// The limit on a tensor's cumulative relative L2 (`|actual - reference| / |reference|`) where no noise floor was measured.
///
/// One constant for every tensor of every case. Why 1e-3:
/// rounding alone, f64 arithmetic against llama.cpp's f32 through 64 layers, gave 7.2e-5 at `l_out-63`
/// (3.7e-7 at `l_out-0`), an order of magnitude below; any wrong convention (a head map, a rotation's
/// pairing, an epsilon) gives more than 1e-2, an order of magnitude above. It is not tuned per case and
/// never relaxed: a tensor that exceeds it is a finding.
pub const CUMULATIVE_RELATIVE_L2: f64 = 1e-3;

/// How many times its noise floor a tensor's cumulative relative L2 may be.
///
/// The floor is the distance of an f32 run from an f64 run of the same engine, `|A g1|` with g1 the roundings and A what
/// later operators make of them. The distance from the reference, which rounds elsewhere, is `|A (g1 - g2)|` with roundings g2
/// of the same size. If A has many directions, the ratio is near sqrt 2. In the worst case it has one, and both are the sizes of
/// single normal numbers: then the ratio exceeds t with a probability of `2/pi atan(sqrt(2) / t)`, 0.056 at t = 16. A floor is
/// taken as the largest one along the way to the tensor; with three independent ones on that way this is 2e-4.
pub const FLOOR_FACTOR: f64 = 16.0;

/// The largest limit that a floor gives: any wrong convention gives more than this, so where noise exceeds it the two cannot be
/// told apart, and the tensor does not pass.
pub const LARGEST_LIMIT: f64 = 1e-2;

/// The limits that a tensor must keep.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limit {
    /// Largest accepted relative L2.
    pub relative_l2: f64,
}

impl Limit {
    /// The limit of an engine that runs from tokens to logits on its own values.
    pub const CUMULATIVE: Limit = Limit { relative_l2: CUMULATIVE_RELATIVE_L2 };

    /// What is equal, and nothing else.
    pub const EQUAL: Limit = Limit { relative_l2: 0.0 };

    /// The limit of a tensor whose noise floor is known. A floor of 0 accepts what is equal; one that is no number, or infinite, gives
    /// the largest limit.
    pub fn of_floor(floor: f64) -> Limit {
        let limit = FLOOR_FACTOR * floor;
        Limit { relative_l2: if limit <= LARGEST_LIMIT { limit } else { LARGEST_LIMIT } }
    }

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
    fn a_floor_gives_a_limit_that_is_never_beyond_what_shows_something() {
        assert_eq!(Limit::of_floor(1e-6).relative_l2, 16e-6);
        assert_eq!(Limit::of_floor(1.0).relative_l2, LARGEST_LIMIT);
        assert_eq!(Limit::of_floor(f64::NAN).relative_l2, LARGEST_LIMIT);
        assert!(Limit::of_floor(0.0).accepts(0.0) && !Limit::of_floor(0.0).accepts(1e-30));
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
