//! Which parts of a tensor are wrong, if the others are right.

use super::pair::{Cut, Pair};
use super::{Axis, SHARE};

/// Parts that hold the error.
pub(super) struct WrongParts {
    /// In order.
    pub(super) parts: Vec<usize>,
    pub(super) extent: usize,
    /// The share of the error's energy that they hold.
    pub(super) explains: f64,
}

/// The fewest parts without which the tensor would pass, if they stand out: the others hold at most `1 - SHARE` of the error and each of
/// them is off by at most a tenth of what each of these is (`1 - SHARE` in energy), relative to its own values. None if there are
/// no such parts, or they are all.
pub(super) fn wrong_parts(pair: &Pair<'_>, cut: Cut) -> Option<WrongParts> {
    if cut.extent < 2 {
        return None;
    }
    let squares = |x: f64, y: f64| {
        let d = if x == y { 0.0 } else { y - x };
        [d * d, x * x, x * x + y * y]
    };
    let sums = cut.sums(pair, squares);
    let relative = |i: usize| if sums[i][0] == 0.0 { 0.0 } else { sums[i][0] / sums[i][2] };
    let mut order: Vec<usize> = (0..cut.extent).collect();
    order.sort_by(|&a, &b| relative(b).total_cmp(&relative(a)));
    let mut left = [pair.error, sums.iter().map(|s| s[1]).sum::<f64>()];
    for n in 1..cut.extent {
        let (last, next) = (order[n - 1], order[n]);
        left[0] -= sums[last][0];
        left[1] -= sums[last][1];
        let stands_out = relative(next) <= (1.0 - SHARE) * relative(last);
        if !stands_out || left[0] > (1.0 - SHARE) * pair.error {
            continue;
        }
        // Summed anew: what is left of a difference of large sums is rounding.
        let rest =
            order[n..].iter().fold([0.0, 0.0], |rest, &i| [rest[0] + sums[i][0], rest[1] + sums[i][1]]);
        if rest[0] <= pair.limit * pair.limit * rest[1] {
            let mut parts = order[..n].to_vec();
            parts.sort_unstable();
            return Some(WrongParts { parts, extent: cut.extent, explains: 1.0 - rest[0] / pair.error });
        }
    }
    None
}

/// The wrong tokens.
pub(super) fn wrong_tokens(pair: &Pair<'_>) -> Option<WrongParts> {
    wrong_parts(pair, pair.cut_of(Axis::Token)?)
}

impl WrongParts {
    /// The first wrong part, if all behind it are wrong too, and no part in front of it is.
    pub(super) fn from(&self) -> Option<usize> {
        let first = *self.parts.first()?;
        (first + self.parts.len() == self.extent).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn parts(x: &[f32], y: &[f32]) -> Option<Vec<usize>> {
        let pair = Pair::new(x, Values::F32(y), &[x.len() / 2, 2]).unwrap();
        wrong_tokens(&pair).map(|wrong| wrong.parts)
    }

    #[test]
    fn the_parts_that_stand_out_while_the_others_are_right() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(parts(&x, &[1.0, 2.0, 3.5, 4.0, 5.0, 6.0]), Some(vec![1]));
        assert_eq!(parts(&x, &[1.5, 2.0, 3.0, 4.0, 5.0, 6.5]), Some(vec![0, 2]));
        // rounding elsewhere is passed over
        assert_eq!(parts(&x, &[1.0, 2.00001, 3.5, 4.0, 5.00001, 6.0]), Some(vec![1]));
    }

    #[test]
    fn an_error_everywhere_has_no_place() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(parts(&x, &[1.1, 2.2, 3.3, 4.4, 5.5, 6.6]), None);
        // 99.99% of the energy is in one row, and the others are off by as much of their own
        let x = [1.0, 1.0, 1e3, 1e3, 1.0, 1.0];
        assert_eq!(parts(&x, &[1.1, 1.1, 1.1e3, 1.1e3, 1.1, 1.1]), None);
    }
}
