//! All values times one number: `y = f x`.

use super::pair::Pair;
use super::{Finding, Shape};

/// A constant factor.
pub(super) struct Factor;

impl Shape for Factor {
    fn name(&self) -> &'static str {
        "factor"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let values = || pair.reference.iter().zip(&*pair.actual).map(|(&x, &y)| (f64::from(x), f64::from(y)));
        let (xx, xy) = values().fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + x * x, xy + x * y));
        let factor = xy / xx;
        // -1 has a name of its own; 0 is no factor but a tensor of zeros.
        if !factor.is_finite() || factor == 0.0 || (factor + 1.0).abs() <= pair.limit {
            return None;
        }
        let explains = pair.explained(1, |i| factor * f64::from(pair.reference[i]))?;
        Some(Finding::verified(self, format!("a factor {}", with_name(factor, &pair.shape)), explains))
    }
}

/// Relative distance at which a factor is a number with a name. Powers of sqrt 2 and integers to 64 are 1.6e-2 apart
/// or more, so that no two are taken for each other.
const SAME: f64 = 1e-4;

/// `2`, `1/3`, `sqrt(128)`, `1/sqrt(80)`: small numbers first, then roots of powers of two, then what the extents give.
fn name(factor: f64, shape: &[usize]) -> Option<String> {
    let (size, sign) = (factor.abs(), if factor < 0.0 { "-" } else { "" });
    let is = |value: f64| (size / value - 1.0).abs() <= SAME;
    let whole = |n: f64| {
        let words = |form: &str| Some(form.replace('n', &n.to_string()));
        if is(n) {
            words("n")
        } else if is(1.0 / n) {
            words("1/n")
        } else if is(n.sqrt()) {
            words("sqrt(n)")
        } else if is(1.0 / n.sqrt()) {
            words("1/sqrt(n)")
        } else {
            None
        }
    };
    let small = (2..=64).map(f64::from).find_map(|n| match () {
        () if is(n) => Some(n.to_string()),
        () if is(1.0 / n) => Some(format!("1/{n}")),
        () => None,
    });
    let powers = || (1..=24).map(|k| 2f64.powi(k)).find_map(whole);
    let extents = || shape.iter().filter(|&&n| n > 1).map(|&n| n as f64).find_map(whole);
    let name = small.or_else(powers).or_else(extents)?;
    Some(format!("{sign}{name}"))
}

/// The number, and its name if that says more: `0.3333 = 1/3`.
pub(super) fn with_name(factor: f64, shape: &[usize]) -> String {
    let number = near_one(factor);
    match name(factor, shape) {
        Some(name) if name != number => format!("{number} = {name}"),
        _ => number,
    }
}

/// Four digits, or what a number near 1 is away from it.
pub(super) fn near_one(factor: f64) -> String {
    let (away, sign) = ((factor - 1.0).abs(), if factor < 1.0 { '-' } else { '+' });
    if away > 0.0 && away < 1e-3 { format!("1 {sign} {away:.1e}") } else { short(factor) }
}

/// Four digits.
pub(super) fn short(value: f64) -> String {
    if (1e-3..1e5).contains(&value.abs()) {
        let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 7.0) as usize;
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    } else {
        format!("{value:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn found(x: &[f32], y: &[f32]) -> Option<String> {
        Factor.find(&Pair::new(x, Values::F32(y), &[x.len()]).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn a_factor_with_its_name() {
        let x = [1.0, -2.0, 3.0, 4.0];
        assert_eq!(found(&x, &x.map(|x| x * 128f32.sqrt())).as_deref(), Some("a factor 11.31 = sqrt(128)"));
        assert_eq!(found(&x, &x.map(|x| x / 3.0)).as_deref(), Some("a factor 0.3333 = 1/3"));
        assert_eq!(found(&x, &x.map(|x| x * 4.0)).as_deref(), Some("a factor 4"));
        assert_eq!(found(&x, &x.map(|x| x * 1.2346)).as_deref(), Some("a factor 1.235"));
        assert_eq!((near_one(1.00002).as_str(), near_one(0.9998).as_str()), ("1 + 2.0e-5", "1 - 2.0e-4"));
        assert_eq!(name(80f64.sqrt().recip(), &[3, 80]).as_deref(), Some("1/sqrt(80)"));
        assert_eq!(name(-0.5, &[]).as_deref(), Some("-1/2"));
    }

    #[test]
    fn neither_a_sign_nor_an_offset_is_one() {
        let x = [1.0, -2.0, 3.0, 4.0];
        assert_eq!(found(&x, &x.map(|x| -x)), None);
        assert_eq!(found(&x, &x.map(|x| x + 1.0)), None);
    }
}
