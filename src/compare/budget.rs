//! How far a result may be from the exact one by rounding alone.

/// Half the distance from 1 to the next f32: the relative error of one rounding.
pub const U: f64 = 1.0 / (1u64 << 24) as f64;

/// The k of the budget `k sqrt(n) u terms`, one for all operators.
///
/// Adding n terms in f32 rounds each product and each partial sum: at most 2 n errors of at most u times a partial sum, and
/// no partial sum exceeds the terms. Taken as independent and uniform in +-u they have a standard deviation of
/// `sqrt(2 n / 3) u terms` at most. 8 is 9.8 of those, so that among 10^9 elements a correct one is not over its budget. What
/// it can see shrinks with n: an error counts from 2^-20 of the terms for n = 4, from 2^-15 for n = 4096.
pub const BUDGET_FACTOR: f64 = 8.0;

/// The largest error that rounding explains, for an element with these terms that adds up `additions` numbers.
///
/// Values that are only moved (no additions) have no budget. Below the smallest normal f32 there are no relative errors:
/// that much is granted to every computed element.
pub fn budget(terms: f64, additions: f64) -> f64 {
    if additions == 0.0 {
        return 0.0;
    }
    BUDGET_FACTOR * additions.sqrt() * U * terms + f64::from(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_has_no_budget() {
        assert_eq!(budget(1e9, 0.0), 0.0);
        assert_eq!(budget(2.0, 4.0), 8.0 * 2.0 * 2.0 / 16_777_216.0 + f64::from(f32::MIN_POSITIVE));
        // What the doc of the factor says can be seen.
        let smallest = f64::from(f32::MIN_POSITIVE);
        assert_eq!(budget(1.0, 4.0), 2f64.powi(-20) + smallest);
        assert_eq!(budget(1.0, 4096.0), 2f64.powi(-15) + smallest);
        assert_eq!(budget(0.0, 1.0), f64::from(f32::MIN_POSITIVE));
    }
}
