//! Which parts of a tensor are wrong, if the others are right.

use super::pair::{Cut, Pair, chance};
use super::{Axis, SHARE};
use crate::compare::U;

/// Parts that hold the error.
pub(super) struct WrongParts {
    /// In order.
    pub(super) parts: Vec<usize>,
    pub(super) extent: usize,
    /// The share of the error's energy that they hold.
    pub(super) explains: f64,
}

/// The fewest parts without which the tensor would pass, if they stand out: the others hold at most `1 - SHARE` of the error and each of
/// them is off by at most a tenth of what each of these is (`1 - SHARE` in energy), relative to its own values, which noise hardly shows
/// by chance. None if there are no such parts, or they are all.
pub(super) fn wrong_parts(pair: &Pair<'_>, cut: Cut) -> Option<WrongParts> {
    if cut.extent < 2 {
        return None;
    }
    let squares = |x: f64, y: f64| {
        let d = if x == y { 0.0 } else { y - x };
        // A mask of infinities is no size.
        if x.is_finite() { [d * d, x * x, x * x + y * y, d.powi(4)] } else { [0.0; 4] }
    };
    let sums = cut.sums(pair, squares);
    let relative = |i: usize| if sums[i][0] == 0.0 { 0.0 } else { sums[i][0] / sums[i][2] };
    if !may_stand_out((0..cut.extent).map(relative), cut) {
        return None;
    }
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
            let carriers =
                parts.iter().map(|&i| chance::carriers(sums[i][0], sums[i][3])).sum::<f64>() / n as f64;
            // Values of 24 bits are equal more often than real numbers.
            let gap = relative(next).max(U * U) / relative(last);
            if chance::of_gap(gap, cut.extent, n, carriers) > chance::UNLIKELY {
                continue;
            }
            return Some(WrongParts { parts, extent: cut.extent, explains: 1.0 - rest[0] / pair.error });
        }
    }
    None
}

/// Whether some errors may stand out from the others, and not by chance, by their exponents alone: sorting millions takes seconds.
fn may_stand_out(errors: impl Iterator<Item = f64>, cut: Cut) -> bool {
    let mut counts = vec![0; 1 << 11];
    errors.for_each(|error| counts[(error.max(U * U).to_bits() >> 52) as usize & 0x7ff] += 1);
    let (mut above, mut lowest) = (0, None);
    for exponent in (0..counts.len()).rev().filter(|&exponent| counts[exponent] > 0) {
        if let Some(lowest) = lowest {
            let gap = 0.5f64.powi((lowest - exponent) as i32 + 1);
            let most_carriers = cut.part_len() as f64;
            if gap <= 1.0 - SHARE && chance::of_gap(gap, cut.extent, above, most_carriers) <= chance::UNLIKELY
            {
                return true;
            }
        }
        above += counts[exponent];
        lowest = Some(exponent);
    }
    false
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
        assert_eq!(parts(&x, &[1.5, 2.5, 3.0, 4.0, 5.5, 6.5]), Some(vec![0, 2]));
        // rounding elsewhere is passed over
        assert_eq!(parts(&x, &[1.0, 2.000001, 3.5, 4.5, 5.000001, 6.0]), Some(vec![1]));
    }

    #[test]
    fn exponents_tell_that_none_stands_out() {
        let cut = |extent: usize| Cut { outer: 1, extent, inner: 8 };
        let may = |errors: &[f64]| may_stand_out(errors.iter().copied(), cut(errors.len()));
        assert!(may(&[1.0, 0.0]) && may(&[1.0, 1e-6, 1.5]));
        assert!(!may(&[1.0, 0.1, 0.01]) && !may(&[1.0]));
    }

    #[test]
    fn an_error_everywhere_has_no_place() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(parts(&x, &[1.1, 2.2, 3.3, 4.4, 5.5, 6.6]), None);
        // one element of each row is wrong, and the second by a tenth: noise of so few elements would often show it
        assert_eq!(parts(&x, &[1.1, 2.0, 3.0, 4.0001, 5.5, 6.0]), None);
        // 99.99% of the energy is in one row, and the others are off by as much of their own
        let x = [1.0, 1.0, 1e3, 1e3, 1.0, 1.0];
        assert_eq!(parts(&x, &[1.1, 1.1, 1.1e3, 1.1e3, 1.1, 1.1]), None);
    }
}
