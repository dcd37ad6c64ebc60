//! How well a candidate's values explain the reference's.

use super::{CompareError, Metrics, budget};
use crate::tensor::Values;

/// How far the values of one candidate are from the reference's.
#[derive(Clone, PartialEq, Debug)]
pub struct Score {
    /// Elements compared.
    pub elements: u64,
    /// `1 - cosine` of the two as vectors; NaN if a value on either side is not finite.
    pub one_minus_cosine: f64,
    /// Largest `|value - reference| / terms`, where terms are at least the reference's own size, so that a candidate does not look
    /// worse by predicting small terms. Never NaN.
    pub scaled_error: f64,
    /// Largest share of the budget that an element uses; at most 1 if rounding explains every element. Never NaN.
    pub share: f64,
    /// Flat index of the element with that share.
    pub worst_index: u64,
    /// The reference's value there.
    pub reference: f64,
    /// The candidate's value there.
    pub value: f64,
}

/// What a candidate says of an element.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Predicted {
    /// The exact value.
    pub value: f64,
    /// What its error is scaled by.
    pub terms: f64,
    /// What the budget for one addition is taken of: `k u spread` is what rounding may do to it.
    pub spread: f64,
}

impl Score {
    /// Compares all elements.
    ///
    /// # Errors
    /// If the lengths differ.
    pub fn measure(reference: &[f32], predicted: &[Predicted]) -> Result<Score, CompareError> {
        let values: Vec<f64> = predicted.iter().map(|predicted| predicted.value).collect();
        let metrics = Metrics::measure(reference, Values::F64(&values), None)?;
        let mut score = Score {
            elements: metrics.elements,
            one_minus_cosine: metrics.one_minus_cosine,
            scaled_error: 0.0,
            share: 0.0,
            worst_index: 0,
            reference: reference.first().map_or(0.0, |&x| x.into()),
            value: values.first().copied().unwrap_or(0.0),
        };
        for (i, (&x, predicted)) in reference.iter().zip(predicted).enumerate() {
            let x = f64::from(x);
            let error = (predicted.value - x).abs();
            if error == 0.0 {
                continue;
            }
            let terms = if predicted.terms >= x.abs() { predicted.terms } else { x.abs() };
            score.scaled_error = largest(score.scaled_error, error / terms);
            let share = largest(0.0, error / budget(predicted.spread, 1.0));
            if share > score.share {
                (score.share, score.worst_index) = (share, i as u64);
                (score.reference, score.value) = (x, predicted.value);
            }
        }
        Ok(score)
    }

    /// Whether rounding explains every element, and there is one.
    pub fn fits(&self) -> bool {
        self.elements > 0 && self.share <= 1.0
    }

    /// The worst of two tensors: of each number the larger one.
    pub fn join(&mut self, other: &Score) {
        self.elements += other.elements;
        let is_nan = self.one_minus_cosine.is_nan() || other.one_minus_cosine.is_nan();
        self.one_minus_cosine =
            if is_nan { f64::NAN } else { self.one_minus_cosine.max(other.one_minus_cosine) };
        self.scaled_error = self.scaled_error.max(other.scaled_error);
        if other.share > self.share {
            self.share = other.share;
            (self.worst_index, self.reference, self.value) =
                (other.worst_index, other.reference, other.value);
        }
    }
}

/// The larger one; what is no number counts as infinite.
fn largest(so_far: f64, next: f64) -> f64 {
    if next.is_nan() { f64::INFINITY } else { so_far.max(next) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::U;

    fn of(value: f64, terms: f64, spread: f64) -> Predicted {
        Predicted { value, terms, spread }
    }

    #[test]
    fn an_element_at_its_budget_fits_and_beyond_it_does_not() {
        let at = |error: f64| Score::measure(&[1.0, 2.0], &[of(1.0 + error, 4.0, 2.0), of(2.0, 2.0, 0.0)]);
        let score = at(16.0 * U).unwrap(); // 8 u spread
        assert!(score.fits() && score.scaled_error == 4.0 * U, "{score:?}");
        let score = at(17.0 * U).unwrap();
        assert!(!score.fits() && score.worst_index == 0 && score.reference == 1.0, "{score:?}");
    }

    #[test]
    fn what_is_moved_must_be_equal_and_is_scaled_by_itself() {
        let score = Score::measure(&[2.0], &[of(0.0, 0.0, 0.0)]).unwrap();
        assert_eq!((score.scaled_error, score.fits()), (1.0, false));
        assert!(Score::measure(&[2.0], &[of(2.0, 2.0, 0.0)]).unwrap().fits());
    }

    #[test]
    fn what_is_no_number_never_fits_nor_does_nothing() {
        assert!(!Score::measure(&[1.0], &[of(f64::NAN, 1.0, 1.0)]).unwrap().fits());
        assert!(!Score::measure(&[f32::NAN], &[of(1.0, 1.0, 1.0)]).unwrap().fits());
        assert!(!Score::measure(&[1.0], &[of(f64::NAN, f64::NAN, f64::NAN)]).unwrap().fits());
        assert!(!Score::measure(&[], &[]).unwrap().fits());
        assert!(Score::measure(&[1.0], &[]).is_err());
    }

    #[test]
    fn joined_is_the_worst_of_both() {
        let mut score = Score::measure(&[1.0], &[of(1.0, 1.0, 1.0)]).unwrap();
        score.join(&Score::measure(&[1.0, 3.0], &[of(1.0, 1.0, 1.0), of(-3.0, 3.0, 1.0)]).unwrap());
        assert_eq!((score.elements, score.scaled_error, score.reference, score.value), (3, 2.0, 3.0, -3.0));
        score.join(&Score::measure(&[f32::NAN], &[of(1.0, 1.0, 1.0)]).unwrap());
        assert!(score.one_minus_cosine.is_nan() && score.share.is_infinite());
    }
}
