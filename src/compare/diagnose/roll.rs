//! Values that moved along the tokens: token t holds what token t - k should hold, with or without the end coming round.

use super::pair::{Pair, chance};
use super::{Axis, Finding, SHARE, Shape};
use crate::compare::U;

/// A roll along tokens.
pub(super) struct Roll;

/// Most tokens that values are looked for away from their own.
const FARTHEST: usize = 8;

impl Shape for Roll {
    fn name(&self) -> &'static str {
        "roll"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let cut = pair.cut_of(Axis::Token)?;
        let n = cut.extent;
        let farthest = FARTHEST.min(n - 1);
        let shifts = (1..=farthest).flat_map(|k| [k, n - k]);
        for k in shifts {
            let from = |i: usize| {
                let (o, t, inner) = cut.place(i);
                f64::from(pair.reference[cut.at(o, (t + n - k) % n, inner)])
            };
            if let Some(explains) = pair.explained(0, from) {
                return Some(Finding::verified(self, words(k, n, true), explains));
            }
            // What came in at the end is not known; at least half of the tokens must show the roll.
            let (is_forward, size) = (2 * k <= n, k.min(n - k));
            if 2 * size > n || n < 3 {
                continue;
            }
            let is_known = |t: usize| if is_forward { t >= size } else { t + size < n };
            let (mut left, mut error, mut total) = (0.0, 0.0, 0.0);
            let (mut fourth_powers, mut rounding) = (0.0, 0.0);
            for (i, &y) in pair.actual.iter().enumerate() {
                if !is_known(cut.place(i).1) {
                    continue;
                }
                let (y, moved) = (f64::from(y), from(i));
                left += (y - moved).powi(2);
                let square = (y - f64::from(pair.reference[i])).powi(2);
                error += square;
                fourth_powers += square * square;
                rounding += (y * U).powi(2);
                total += moved * moved;
                if left > (1.0 - SHARE) * pair.error {
                    break;
                }
            }
            let is_right = left <= (1.0 - SHARE) * error && left <= pair.limit * pair.limit * total;
            let carriers = chance::carriers(error, fourth_powers);
            let chance = || chance::of_share(left.max(rounding) / error, carriers, 0, pair.actual.len());
            if error > 0.0 && is_right && chance() <= chance::UNLIKELY {
                return Some(Finding::verified(self, words(k, n, false), 1.0 - left / error));
            }
        }
        None
    }
}

fn words(k: usize, n: usize, is_round: bool) -> String {
    let (size, sign) = if 2 * k <= n { (k, "-") } else { (n - k, "+") };
    let round = if is_round { ", coming round at the end" } else { "" };
    format!("a roll by {size} along tokens: token t holds token t{sign}{size}{round}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn found(x: &[f32], y: &[f32]) -> Option<String> {
        Roll.find(&Pair::new(x, Values::F32(y), &[x.len() / 2, 2]).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn forward_backward_round_or_not() {
        let x = [1.0, 2.0, 3.0, 5.0, 8.0, 9.0, -4.0, 6.0];
        let round = found(&x, &[-4.0, 6.0, 1.0, 2.0, 3.0, 5.0, 8.0, 9.0]);
        assert_eq!(
            round.as_deref(),
            Some("a roll by 1 along tokens: token t holds token t-1, coming round at the end")
        );
        let zeros = found(&x, &[0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 9.0]);
        assert_eq!(zeros.as_deref(), Some("a roll by 1 along tokens: token t holds token t-1"));
        let back = found(&x, &[3.0, 5.0, 8.0, 9.0, -4.0, 6.0, 7.0, 7.0]);
        assert_eq!(back.as_deref(), Some("a roll by 1 along tokens: token t holds token t+1"));
    }

    #[test]
    fn two_tokens_swapped_are_no_roll() {
        let x = [1.0, 2.0, 3.0, 5.0, 8.0, 9.0, -4.0, 6.0];
        assert_eq!(found(&x, &[3.0, 5.0, 1.0, 2.0, 8.0, 9.0, -4.0, 6.0]), None);
        assert_eq!(found(&x, &x.map(|x| 2.0 * x)), None);
    }
}
