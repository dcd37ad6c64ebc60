//! Another function of the operator's input: `y = f(a)`, as silu in place of sigmoid, or no function at all.

use super::pair::Pair;
use super::{Finding, Shape};

/// Another function of the input.
pub(super) struct Activation;

fn sigmoid(a: f64) -> f64 {
    1.0 / (1.0 + (-a).exp())
}

/// A function of one number with its words.
type Named = (&'static str, fn(f64) -> f64);

/// Functions of one number that graphs have.
const FUNCTIONS: [Named; 8] = [
    ("the input itself", |a| a),
    ("silu of the input", |a| a * sigmoid(a)),
    ("sigmoid of the input", sigmoid),
    ("softplus of the input", |a| a.max(0.0) + (-a.abs()).exp().ln_1p()),
    ("exp of the input", f64::exp),
    ("tanh of the input", f64::tanh),
    ("relu of the input", |a| a.max(0.0)),
    ("1 plus the input", |a| 1.0 + a),
];

impl Shape for Activation {
    fn name(&self) -> &'static str {
        "activation"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let input = pair.input?;
        let bits = (FUNCTIONS.len() as f64).log2();
        let (found, explains) = FUNCTIONS
            .iter()
            .find_map(|(words, f)| Some((words, pair.chosen(0, bits, |i| f(f64::from(input[i])))?)))?;
        let is_right = |f: fn(f64) -> f64| {
            let (left, size) = pair.reference.iter().zip(input).fold((0.0, 0.0), |(left, size), (&x, &a)| {
                let (x, value) = (f64::from(x), f(a.into()));
                (left + (x - value).powi(2), size + x * x)
            });
            left <= pair.limit * pair.limit * size
        };
        let own = FUNCTIONS.iter().find(|(_, f)| is_right(*f));
        let own = own.map(|(words, _)| format!(" where the reference has {words}")).unwrap_or_default();
        Some(Finding::verified(self, format!("{found}{own}"), explains))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(of: impl Fn(f32) -> f32) -> Option<String> {
        let a = noise(32, 18);
        let x: Vec<f32> = a.iter().map(|&a| 1.0 / (1.0 + (-a).exp())).collect();
        let y: Vec<f32> = a.iter().map(|&a| of(a)).collect();
        let pair = Pair::new(&x, Values::F32(&y), &[2, 16]).unwrap();
        assert_eq!(Activation.find(&pair), None); // without the input nothing is known
        Activation.find(&pair.with_input(&a)).map(|finding| finding.words)
    }

    #[test]
    fn the_function_is_named_with_the_one_it_stands_for() {
        let silu = found(|a| a / (1.0 + (-a).exp()));
        assert_eq!(silu.as_deref(), Some("silu of the input where the reference has sigmoid of the input"));
        let none = found(|a| a);
        assert_eq!(none.as_deref(), Some("the input itself where the reference has sigmoid of the input"));
    }

    #[test]
    fn another_function_is_none() {
        assert_eq!(found(|a| a * a), None);
        assert_eq!(found(|a| 0.5 / (1.0 + (-a).exp())), None);
    }
}
