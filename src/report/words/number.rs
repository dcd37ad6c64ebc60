//! How numbers are written.

use std::fmt::Display;

/// With thousands separators: `22,816`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// C's `%.{digits}e`, two digits of exponent: `2.1e-09`; `0` for zero.
pub(crate) fn scientific(value: f64, digits: usize) -> String {
    if value == 0.0 { "0".to_owned() } else { exponent_of_two_digits(format!("{value:.digits$e}")) }
}

/// A limit, with as many digits as it has: `1e-03`.
pub(crate) fn limit(value: f64) -> String {
    exponent_of_two_digits(format!("{value:e}"))
}

fn exponent_of_two_digits(text: String) -> String {
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text, // NaN, inf
    }
}

/// A plain value: two decimals where they say something (`0.42`), else `4.2e-03`.
pub(crate) fn decimal(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if (0.095..1e5).contains(&size) {
        format!("{value:.2}")
    } else {
        scientific(value, 1)
    }
}

/// An error in units of u = 2^-24.
pub(crate) fn units(scaled_error: f64) -> String {
    if scaled_error == 0.0 {
        "exact".to_owned()
    } else if scaled_error >= 1e4 {
        format!("{} u", scientific(scaled_error, 1))
    } else {
        format!("{} u", decimal(scaled_error))
    }
}

/// A cosine by its distance from 1: `1 - 2.1e-09`, `1` if that is zero, `0.0412` if it is far.
pub(crate) fn cosine(one_minus_cosine: f64) -> String {
    if one_minus_cosine == 0.0 {
        "1".to_owned()
    } else if one_minus_cosine < 0.1 {
        format!("1 - {}", scientific(one_minus_cosine, 1))
    } else {
        format!("{:.4}", 1.0 - one_minus_cosine)
    }
}

/// As many digits as an f32 can tell apart.
pub(crate) fn digits(value: f64) -> String {
    if (1e-3..1e5).contains(&value.abs()) { format!("{value:.7}") } else { scientific(value, 7) }
}

/// A share of a limit, two digits: `0.4`, `0.11`, `310`. Never rounded onto 1, which decides.
pub(crate) fn share(share: f64) -> String {
    if share == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e5).contains(&share) {
        return scientific(share, 0);
    }
    let decimals = match share {
        s if s >= 9.95 => 0,
        s if s >= 0.995 => 1,
        s if s >= 0.0995 => 2,
        s if s >= 0.00995 => 3,
        _ => 4,
    };
    let text = format!("{share:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    match text {
        "1" if share < 1.0 => "0.99".to_owned(),
        "1" if share > 1.0 => "1.01".to_owned(),
        _ => text.to_owned(),
    }
}

/// A coverage in percent, rounded down to a tenth: only full coverage is `100%`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let tenths = if whole == 0 { 0 } else { u128::from(part) * 1000 / u128::from(whole) };
    match tenths % 10 {
        0 => format!("{}%", tenths / 10),
        tenth => format!("{}.{tenth}%", tenths / 10),
    }
}

/// The value if it is finite, as JSON can write no other.
pub(crate) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// An index or a shape: `[3,417]`.
pub(crate) fn index<T: Display>(index: &[T]) -> String {
    let places: Vec<String> = index.iter().map(T::to_string).collect();
    format!("[{}]", places.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_powers() {
        assert_eq!(
            [count(0), count(999), count(22_816), count(1_234_567)],
            ["0", "999", "22,816", "1,234,567"]
        );
        assert_eq!(
            [scientific(2.14e-9, 1), scientific(1.0, 1), scientific(f64::NAN, 1)],
            ["2.1e-09", "1.0e+00", "NaN"]
        );
        assert_eq!([limit(1e-3), limit(2.5e-4), limit(3e120)], ["1e-03", "2.5e-04", "3e+120"]);
        assert_eq!([decimal(0.31), decimal(-12.0), decimal(4.2e-3)], ["0.31", "-12.00", "4.2e-03"]);
    }

    #[test]
    fn a_cosine_is_told_by_its_distance_from_one() {
        assert_eq!([cosine(0.0), cosine(2.1e-9), cosine(0.9588)], ["1", "1 - 2.1e-09", "0.0412"]);
        assert_eq!([cosine(2.0), cosine(f64::NAN)], ["-1.0000", "NaN"]);
    }

    #[test]
    fn a_share_is_never_rounded_onto_the_limit() {
        assert_eq!([share(0.4), share(0.114), share(310.2), share(2.04)], ["0.4", "0.11", "310", "2"]);
        assert_eq!([share(1.0), share(0.9999), share(1.0001)], ["1", "0.99", "1.01"]);
        assert_eq!(
            [share(0.0), share(4e-5), share(0.00123), share(f64::INFINITY)],
            ["0", "4e-05", "0.0012", "inf"]
        );
    }

    #[test]
    fn coverage_is_never_rounded_up() {
        assert_eq!([percent(412, 412), percent(99_999, 100_000), percent(1, 2)], ["100%", "99.9%", "50%"]);
        assert_eq!([percent(0, 0), percent(0, 5)], ["0%", "0%"]);
    }
}
