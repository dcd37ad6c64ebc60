//! What is wrong with two sets of values before they are compared.

use thiserror::Error;

use crate::tensor::Layout;

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
    fn a_count_that_is_not_the_product_of_ne_is_refused() {
        assert_eq!(check_count("actual", [3, 2, 1, 1], 6), Ok(()));
        assert!(check_count("actual", [3, 2, 1, 1], 5).is_err());
        assert!(check_count("actual", [u64::MAX, 2, 1, 1], 0).is_err());
    }
}
