//! What is said where no shape applies: equal tensors, values that are not finite, zeros, and an error of no
//! shape.

use super::Pair;
use crate::compare::Metrics;
use crate::compare::diagnose::Finding;
use crate::tensor::Values;

fn plain(shape: &'static str, words: String) -> Finding {
    Finding { shape, words, explains: None, is_verified: true }
}

/// What is so before any shape is looked for.
pub(in crate::compare::diagnose) fn state(pair: &Pair<'_>) -> Option<Finding> {
    let (x, y) = (pair.reference, &*pair.actual);
    if x.is_empty() {
        return Some(plain("empty", "nothing: there are no elements".to_owned()));
    }
    let is_bad = |(x, y): &(&f32, &f32)| (!x.is_finite() || !y.is_finite()) && x != y;
    let mut bad = x.iter().zip(y).enumerate().filter(|(_, values)| is_bad(values));
    if let Some((at, (xa, ya))) = bad.next() {
        let words = format!(
            "values that are not finite: {} in the reference, {} in the actual tensor; first at {:?}, reference {xa}, actual {ya}",
            x.iter().filter(|v| !v.is_finite()).count(),
            y.iter().filter(|v| !v.is_finite()).count(),
            pair.index(at)
        );
        return Some(plain("nonfinite", words));
    }
    let zeros = |values: &[f32]| values.iter().all(|&v| v == 0.0);
    match (zeros(x), zeros(y), pair.error == 0.0) {
        (true, true, _) => {
            Some(plain("equal", "no difference: both are zero, which shows nothing".to_owned()))
        }
        (_, _, true) => Some(plain("equal", "no difference: the values are equal".to_owned())),
        (true, false, _) => {
            Some(plain("zero", "zeros in the reference, where the actual tensor has values".to_owned()))
        }
        (false, true, _) => {
            Some(plain("zero", "zeros in the actual tensor, where the reference has values".to_owned()))
        }
        (false, false, false) => None,
    }
}

/// Where no shape was verified: cosine and norms, without a guess at what they mean.
pub(in crate::compare::diagnose) fn unknown(pair: &Pair<'_>) -> Finding {
    let unknown = |words: String| Finding { shape: "unknown", words, explains: None, is_verified: false };
    let Ok(m) = Metrics::measure(pair.reference, Values::F32(&pair.actual), None) else {
        return unknown("no known shape".to_owned());
    };
    let norms = (m.actual_mean_square / m.reference_mean_square).sqrt();
    let cosine = if m.one_minus_cosine < 1e-3 {
        format!("1 - {:.1e}", m.one_minus_cosine)
    } else {
        format!("{:.3}", m.cosine)
    };
    unknown(format!("no known shape (cosine {cosine}, norm {norms:.3} of the reference's)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::diagnose::diagnose;

    fn said(x: &[f32], y: &[f32]) -> (String, String, bool) {
        let found = diagnose(&Pair::new(x, Values::F32(y), &[x.len()]).unwrap());
        (found[0].shape.to_owned(), found[0].words.clone(), found[0].is_verified)
    }

    #[test]
    fn what_has_no_shape_is_said() {
        let shape = |x: &[f32], y: &[f32]| said(x, y).0;
        assert_eq!(shape(&[], &[]), "empty");
        assert_eq!(shape(&[1.0, f32::INFINITY], &[1.0, f32::INFINITY]), "equal");
        assert_eq!(shape(&[0.0, 0.0], &[0.0, -0.0]), "equal");
        assert_eq!(shape(&[0.0, 0.0], &[0.0, 1.0]), "zero");
        assert_eq!(shape(&[0.0, 1.0], &[0.0, 0.0]), "zero");
        for (x, y) in [([1.0, f32::NAN], [1.0, f32::NAN]), ([1.0, 2.0], [1.0, f32::INFINITY])] {
            let (shape, words, _) = said(&x, &y);
            assert_eq!(shape, "nonfinite");
            assert!(words.contains("first at [1]"), "{words}");
        }
    }

    #[test]
    fn an_unknown_shape_is_told_by_numbers_only() {
        let (x, y) = ([1.0, 2.0, 2.0, 4.0], [2.0, -1.0, 4.0, -2.0]); // x.y = 0, |x|^2 = |y|^2 = 25
        let (shape, words, is_verified) = said(&x, &y);
        assert_eq!((shape.as_str(), is_verified), ("unknown", false));
        assert_eq!(words, "no known shape (cosine 0.000, norm 1.000 of the reference's)");
    }
}
