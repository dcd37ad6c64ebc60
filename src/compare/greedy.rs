//! Whether two rows of logits choose the same token, and whether rounding explains it if they do not.

use super::{Limit, Metrics};

/// How the token that the actual logits choose stands to the reference's, from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Greedy {
    /// Both sides choose the same token.
    Equal,
    /// They choose different tokens, which the reference's own logits hold no further apart than noise may move them.
    NearTie,
    /// They choose different tokens for another reason than noise, or a side chooses none.
    Different,
}

impl Greedy {
    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Greedy::Equal => "equal",
            Greedy::NearTie => "near_tie",
            Greedy::Different => "different",
        }
    }

    /// Judges by the tokens that both sides choose and by how far the reference's logits of the two are apart.
    pub(super) fn judge(
        reference: Option<u32>,
        actual: Option<u32>,
        behind: Option<f64>,
        noise: f64,
    ) -> Greedy {
        match (reference, actual, behind) {
            (Some(x), Some(y), _) if x == y => Greedy::Equal,
            (Some(_), Some(_), Some(behind)) if noise.is_finite() && behind <= noise => Greedy::NearTie,
            _ => Greedy::Different,
        }
    }
}

/// How far noise may move two logits of a row against each other, by the limit L of the tensor's relative L2.
///
/// With x the n logits of the reference and d what the actual ones are off by, `|d| <= L |x|`: a logit is off by a root mean
/// square of `L |x| / sqrt(n)`, and the difference of two by
///
/// ```text
/// noise = sqrt(2) L |x| / sqrt(n)
/// ```
///
/// If the actual logits prefer token j to the reference's i, then `d_j - d_i` is at least `x_i - x_j`, so that noise explains it if
/// `x_i - x_j <= noise`. What a pair may be off by beyond the mean is in L: it is 16 floors, and the ratio of one normal number
/// (the pair's) to another (the floor's) exceeds 16 as seldom as [`super::FLOOR_FACTOR`] says.
///
/// Without any assumption only `|d_j - d_i| <= sqrt(2) |d|` holds, the same without `sqrt(n)`, as all of d could lie in this one
/// pair. That bound would accept every token of a row that keeps its limit, and with 248,320 tokens it is 498 times as wide, which
/// is more than what lies between good and bad tokens: a fault in one row of the output's weights would pass by it.
///
/// Not a number if a logit of the reference is not finite, which explains nothing.
pub(super) fn noise(reference: &Metrics, limit: Limit) -> f64 {
    match reference.reference_nonfinite.count {
        0 => std::f64::consts::SQRT_2 * limit.relative_l2 * reference.reference_mean_square.sqrt(),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn noise_of(reference: &[f32], limit: f64) -> f64 {
        let metrics = Metrics::measure(reference, Values::F32(reference), None).unwrap();
        noise(&metrics, Limit { relative_l2: limit })
    }

    #[test]
    fn the_noise_of_a_difference_written_out() {
        // |x| = sqrt(1 + 49 + 1 + 49) = 10, n = 4: 5 per logit, a hundredth of it 0.05, and sqrt(2) for two
        let noise = noise_of(&[1.0, 7.0, -1.0, 7.0], 0.01);
        assert!((noise - 0.05 * 2f64.sqrt()).abs() < 1e-15, "{noise}");
        assert_eq!(noise_of(&[3.0, 4.0, 0.0], 0.0), 0.0);
    }

    #[test]
    fn each_verdict() {
        let judge = |actual, behind| Greedy::judge(Some(1), Some(actual), Some(behind), 0.5);
        assert_eq!(judge(1, 0.0), Greedy::Equal);
        assert_eq!([judge(2, 0.0), judge(2, 0.5)], [Greedy::NearTie; 2]);
        assert_eq!(judge(2, 0.5001), Greedy::Different);
    }

    #[test]
    fn what_is_no_number_is_no_tie_and_nobody_agrees_with_none() {
        let judge = |behind, noise| Greedy::judge(Some(1), Some(2), behind, noise);
        assert_eq!(judge(Some(f64::NAN), 0.5), Greedy::Different);
        assert_eq!(judge(Some(f64::INFINITY), f64::INFINITY), Greedy::Different);
        assert_eq!(judge(Some(0.0), f64::NAN), Greedy::Different);
        assert_eq!(judge(None, 0.5), Greedy::Different);
        assert_eq!(Greedy::judge(None, None, Some(0.0), 0.5), Greedy::Different);
        assert!(noise_of(&[1.0, f32::INFINITY], 0.01).is_nan());
    }
}
