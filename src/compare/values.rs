//! The values of an engine under test, and what is wrong with two sets of values before they are compared.

use thiserror::Error;

use crate::tensor::Layout;

/// Contiguous values of one tensor, ggml dimension 0 fastest.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// From an engine that computes in f32.
    F32(&'a [f32]),
    /// From an engine that computes in f64.
    F64(&'a [f64]),
}

impl Values<'_> {
    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(v) => v.len(),
            Values::F64(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a flat index, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<f64> {
        match self {
            Values::F32(v) => v.get(index).map(|&v| f64::from(v)),
            Values::F64(v) => v.get(index).copied(),
        }
    }
}

/// Why two sets of values cannot be laid side by side. Never answered by comparing the shorter length.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum CompareError {
    /// The two sides have different numbers of elements.
    #[error("compare: the reference has {reference} elements, the actual tensor {actual}")]
    Elements {
        /// Elements of the reference.
        reference: usize,
        /// Elements of the actual tensor.
        actual: usize,
    },
    /// The sums of absolute terms are not one per element.
    #[error("compare: the reference has {reference} elements, its terms {terms}")]
    Terms {
        /// Elements of the reference.
        reference: usize,
        /// Elements of the terms.
        terms: usize,
    },
    /// A side's values are not as many as its own shape says.
    #[error("compare: the {side} values of a tensor of ne = {ne:?} are {values}")]
    Shape {
        /// `reference` or `actual`.
        side: &'static str,
        /// The extents that side claims.
        ne: [u64; 4],
        /// The values it came with.
        values: usize,
    },
}

/// Checks that `values` is the product of `ne`.
pub(super) fn check_count(side: &'static str, ne: [u64; 4], values: usize) -> Result<(), CompareError> {
    let elements = Layout { ne, nb: [0; 4] }.elements();
    if elements == Some(values as u64) { Ok(()) } else { Err(CompareError::Shape { side, ne, values }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_f64_and_never_past_the_end() {
        assert_eq!(Values::F32(&[0.5, 1.5]).get(1), Some(1.5));
        assert_eq!(Values::F64(&[0.1]).get(0), Some(0.1));
        assert_eq!(Values::F64(&[0.1]).get(1), None);
        assert!(Values::F32(&[]).is_empty());
    }

    #[test]
    fn a_count_that_is_not_the_product_of_ne_is_refused() {
        assert_eq!(check_count("actual", [3, 2, 1, 1], 6), Ok(()));
        assert!(check_count("actual", [3, 2, 1, 1], 5).is_err());
        assert!(check_count("actual", [u64::MAX, 2, 1, 1], 0).is_err());
    }
}
