//! One element wrong, all others right.

use super::pair::{Cut, Pair, squared_distance};
use super::wrong_parts::wrong_parts;
use super::{Finding, SHARE, Shape};

/// A single wrong element.
pub(super) struct Element;

impl Shape for Element {
    fn name(&self) -> &'static str {
        "element"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let distances =
            pair.reference.iter().zip(&*pair.actual).map(|(&x, &y)| squared_distance(x, y.into()));
        let (at, most) = distances.enumerate().fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
        // Of a tensor of one or two elements, one is not a place.
        if pair.actual.len() < 4 || most < SHARE * pair.error {
            return None;
        }
        // Beside an outlier the errors of all others are small: it must stand out by what it is off of its own size.
        let each = Cut { outer: 1, extent: pair.actual.len(), inner: 1 };
        let wrong = wrong_parts(pair, each).filter(|wrong| wrong.parts == [at])?;
        let words = format!(
            "one wrong element: {:?}, reference {:e}, actual {:e}",
            pair.index(at),
            pair.reference[at],
            pair.actual[at]
        );
        Some(Finding::verified(self, words, wrong.explains))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    #[test]
    fn one_and_only_one() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let found = |y: &[f32]| Element.find(&Pair::new(&x, Values::F32(y), &[2, 3]).unwrap());
        let one = found(&[1.0, 2.0, 3.0, 4.0, 9.0, 6.0]).unwrap();
        assert_eq!(one.words, "one wrong element: [1, 1], reference 5e0, actual 9e0");
        assert_eq!(found(&[1.0, 2.0, 3.0, 4.0, 9.0, 5.0]), None);
    }
}
