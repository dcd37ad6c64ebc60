//! One number in place of every value, as of a gate that is not applied.

use super::factor::short;
use super::pair::Pair;
use super::{Finding, Shape};

/// One number everywhere.
pub(super) struct Constant;

/// Fewest elements: four of 24 bits are equal by a chance of 2^-72, and of a type of 8 bits by one of 2^-24.
const FEWEST: usize = 4;

impl Shape for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let is_constant = |values: &[f32]| values.iter().all(|&value| value == values[0]);
        let is_found =
            pair.actual.len() >= FEWEST && is_constant(&pair.actual) && !is_constant(pair.reference);
        is_found.then(|| {
            let number = short(pair.actual[0].into());
            Finding::verified(self, format!("a constant: every value is {number}"), 1.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    #[test]
    fn one_number_in_place_of_all() {
        let x = [1.0, -2.0, 3.0, 4.0];
        let found = |x: &[f32], y: &[f32]| Constant.find(&Pair::new(x, Values::F32(y), &[4]).unwrap());
        assert_eq!(found(&x, &[1.0; 4]).unwrap().words, "a constant: every value is 1");
        assert_eq!(found(&x, &[1.0, 1.0, 1.0, 1.5]), None);
        assert_eq!(found(&[2.0; 4], &[1.0; 4]), None); // a factor or an offset
    }
}
