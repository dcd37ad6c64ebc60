//! One operator judged from the reference's own inputs: who left exact arithmetic.

use super::U;

/// How one side compares with the exact values.
#[derive(Clone, PartialEq, Debug)]
pub struct Leg {
    /// Largest `|value - exact| / terms`.
    pub scaled_error: f64,
    /// Largest share of the budget that an element uses; at most 1 if rounding explains every element.
    pub share: f64,
    /// Flat index of the element with that share.
    pub worst_index: u64,
    /// This side's value there.
    pub value: f64,
    /// The exact value there.
    pub exact: f64,
    /// Elements that took the other side of a purposeful rounding at a tie.
    pub flips: u64,
}

impl Leg {
    /// Whether rounding does not explain this side. NaN departs.
    pub fn departs(&self) -> bool {
        !(0.0..=1.0).contains(&self.share)
    }
}

/// Whose values are farther from the exact ones than rounding explains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Departs {
    /// Nobody's: both are within rounding.
    Neither,
    /// The engine's.
    Actual,
    /// The reference's.
    Reference,
    /// Both.
    Both,
}

impl Departs {
    /// One word, stable: the field `departs` of the JSON report.
    pub fn name(self) -> &'static str {
        match self {
            Departs::Neither => "neither",
            Departs::Actual => "actual",
            Departs::Reference => "reference",
            Departs::Both => "both",
        }
    }
}

/// The three distances between actual, reference and exact, all from the reference's own inputs.
#[derive(Clone, PartialEq, Debug)]
pub struct Legs {
    /// Largest `|actual - reference| / terms`: the error that this operator introduces.
    pub introduced: f64,
    /// The actual values against the exact ones.
    pub actual: Leg,
    /// The reference's against the exact ones.
    pub reference: Leg,
}

impl Legs {
    /// Who departed.
    pub fn departs(&self) -> Departs {
        match (self.actual.departs(), self.reference.departs()) {
            (false, false) => Departs::Neither,
            (true, false) => Departs::Actual,
            (false, true) => Departs::Reference,
            (true, true) => Departs::Both,
        }
    }

    /// The larger share of a budget on either side; never NaN.
    pub fn share(&self) -> f64 {
        let share = |leg: &Leg| if leg.share.is_nan() { f64::INFINITY } else { leg.share };
        share(&self.actual).max(share(&self.reference))
    }

    /// How much larger the cumulative scaled error is than what the operator introduces; none if it introduces nothing, not
    /// even a rounding, or if one of the two has no terms to be scaled by.
    pub fn amplification(&self, cumulative: f64) -> Option<f64> {
        let is_scaled = self.introduced.is_finite() && cumulative.is_finite();
        (self.introduced > 0.0 && is_scaled).then(|| cumulative / self.introduced)
    }

    /// The introduced error in units of u.
    pub fn introduced_u(&self) -> f64 {
        self.introduced / U
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(share: f64) -> Leg {
        Leg { scaled_error: share * U, share, worst_index: 0, value: 1.0, exact: 1.0, flips: 0 }
    }

    #[test]
    fn each_party_is_blamed() {
        let departs = |actual, reference| {
            Legs { introduced: U, actual: leg(actual), reference: leg(reference) }.departs()
        };
        assert_eq!(departs(1.0, 0.5), Departs::Neither);
        assert_eq!(departs(1.1, 0.5), Departs::Actual);
        assert_eq!(departs(0.0, f64::INFINITY), Departs::Reference);
        assert_eq!(departs(f64::NAN, 2.0), Departs::Both);
    }

    #[test]
    fn nan_is_the_largest_share() {
        let legs = Legs { introduced: 0.0, actual: leg(f64::NAN), reference: leg(0.5) };
        assert_eq!((legs.share(), legs.amplification(1.0)), (f64::INFINITY, None));
        let legs = Legs { introduced: 2.0, ..legs };
        assert_eq!((legs.amplification(6.0), legs.amplification(f64::INFINITY)), (Some(3.0), None));
        assert_eq!(Legs { introduced: f64::INFINITY, ..legs }.amplification(f64::INFINITY), None);
    }
}
