//! The values of another tensor: an earlier token, step or layer, or one of another name. Which others are asked about is the
//! caller's to say.

use super::pair::Pair;
use super::{Finding, Shape};

/// A stale or swapped tensor.
pub(super) struct Stale;

impl Shape for Stale {
    fn name(&self) -> &'static str {
        "stale"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        // Of several the best: copies of a tensor, such as a view of it, come behind.
        let fits = pair.others.iter().filter(|other| other.values.len() == pair.actual.len());
        let fits = fits.filter_map(|other| Some((pair.explained(0, |i| other.values[i].into())?, other)));
        let (explains, other) = fits.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
        Some(Finding::verified(self, format!("the values of {}", other.name), explains))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::diagnose::Other;
    use crate::tensor::Values;

    #[test]
    fn the_tensor_whose_values_they_are_is_named() {
        let (x, y, z) = ([1.0, 2.0, 3.0], [2.0, -1.0, 5.0], [2.0, -1.0, 4.0]);
        let others = [Other { name: "Vcur-3", values: &z }, Other { name: "Kcur-3", values: &y }];
        let pair = Pair::new(&x, Values::F32(&y), &[3]).unwrap();
        assert_eq!(Stale.find(&pair), None); // without others nothing is known
        let found = Stale.find(&pair.clone().with_others(&others)).unwrap();
        assert_eq!((found.words.as_str(), found.explains), ("the values of Kcur-3", Some(1.0)));
        assert_eq!(Stale.find(&pair.with_others(&others[..1])), None);
        let shorter = [Other { name: "alpha-3", values: &y[..2] }];
        assert_eq!(Stale.find(&Pair::new(&x, Values::F32(&y), &[3]).unwrap().with_others(&shorter)), None);
    }
}
