//! The last two axes exchanged: the values lie as `[.., b, a]` where they should lie as `[.., a, b]`.

use super::pair::Pair;
use super::{Finding, Shape};

/// A transpose of the last two axes.
pub(super) struct Transpose;

impl Shape for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let [.., a, b] = pair.shape[..] else { return None };
        if a < 2 || b < 2 {
            return None;
        }
        let from = |i: usize| {
            let (matrix, at) = (i / (a * b), i % (a * b));
            // lying as [b, a]: element (row, column) of that
            let (row, column) = (at / a, at % a);
            f64::from(pair.reference[matrix * a * b + column * b + row])
        };
        let explains = pair.explained(0, from)?;
        Some(Finding::verified(self, format!("a transpose of the last two axes, {a} x {b}"), explains))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Values;

    fn found(x: &[f32], y: &[f32], shape: &[usize]) -> Option<String> {
        Transpose.find(&Pair::new(x, Values::F32(y), shape).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn square_or_not_in_every_matrix() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let y = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
        assert_eq!(found(&x, &y, &[2, 3]).as_deref(), Some("a transpose of the last two axes, 2 x 3"));
        let (x, y) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0]);
        assert!(found(&x, &y, &[2, 2, 2]).is_some());
    }

    #[test]
    fn rows_exchanged_are_none() {
        let (x, y) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
        assert_eq!(found(&x, &y, &[2, 3]), None);
        assert_eq!(found(&x, &y, &[6]), None);
    }
}
