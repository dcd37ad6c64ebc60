//! DSV4_HC_COMB: how the four streams of a hyper-connection are mixed: a softmax, made nearly doubly stochastic by Sinkhorn's
//! iterations.
//!
//! ```text
//! x {24, n_tokens}   s {>= 3}   b {24}   y {4, 4, n_tokens}; a row is dimension 0
//! l_j = x_{8+j} s_2 + b_{8+j};   M = softmax of each row of l, + eps;   columns;   n_iter - 1 times: rows, columns
//! a column or row is normalised by m / (eps + sum m);  eps, n_iter = params 0, 1
//! terms of y_i = y_i sqrt(sum_r (J_ir c_r)^2);  1 addition
//! ```
//! r runs over all roundings on the way: c_r is the size of one, relative to what it rounds in units of u, and
//! `J_ir = d ln y_i / d ln` of that. All numbers are positive, so relative errors multiply through, and the derivatives of every
//! step are known: `d ln m'_i / d ln m_j = [i = j] - [same group] m'_j`, for a softmax and for a normalisation with eps alike. J is
//! their product from there to the end. A bound that takes absolute values step by step doubles with each step; J does not, as
//! what a normalisation changes in a whole row or column, the next ones take out again. Roundings are independent, which the
//! budget takes for granted: their squares add up.
//!
//! ```text
//! l           |x s| and |l|                          l - max       |l - max|, as the exponential takes it
//! exp         2                                      softmax       1 each, and 3 sums and a reciprocal shared by a row
//! + eps       1                                      normalised    1 each, and 4 sums and a reciprocal shared by a group
//! ```
//! Below the smallest normal f32, a rounding is as large as one of that. All is f32, added in order
//! (`ggml_compute_forward_dsv4_hc_comb_f32`, ops.cpp).

use std::borrow::Cow;

use super::attention::values;
use super::sinkhorn::{Group, HC, Matrix, Sensitivity};
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct Dsv4HcComb;

/// Elements of a mix in front of those that are used here: what makes the weights of DSV4_HC_PRE and DSV4_HC_POST.
const OFFSET: usize = 2 * HC;
/// Elements of a mix.
const MIX: usize = (2 + HC) * HC;
/// Iterations that are evaluated at most: models have 20, and a number in a file must not keep us busy.
const MOST: i32 = 1000;

/// Roundings of the divisor of a softmax (the first of four is not added to anything), and of a normalisation.
const SOFTMAX_SUM: f64 = 4.0;
const SUM: f64 = 5.0;
/// Of an exponential.
const EXP: f64 = 2.0;

impl Oracle for Dsv4HcComb {
    fn ops(&self) -> &'static [&'static str] {
        &["DSV4_HC_COMB"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let Sources { mixes, scale, base, n_iter } = Sources::of(node)?;
        let (scale, eps) = (f64::from(scale), node.float(0));
        let elements = mixes.chunks_exact(MIX).flat_map(|mix| {
            let logits = std::array::from_fn(|j| {
                let (scaled, base) = (f64::from(mix[OFFSET + j]) * scale, f64::from(base[OFFSET + j]));
                Logit { value: scaled + base, scaled: scaled.abs() }
            });
            let (values, sensitivity) = combine(&logits, eps, n_iter);
            let errors = sensitivity.errors();
            std::array::from_fn::<_, { HC * HC }, _>(|i| (values[i], values[i] * errors[i]))
        });
        Ok(Exact::collect(1.0, elements))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let Sources { mixes, scale, base, n_iter } = Sources::of(node)?;
        let (isa, eps) = (executed.ggml.isa, node.single(0));
        let combined = mixes.chunks_exact(MIX).flat_map(|mix| {
            let mut m: [f32; HC * HC] =
                std::array::from_fn(|j| isa.madd(mix[OFFSET + j], scale, base[OFFSET + j]));
            for row in m.chunks_exact_mut(HC) {
                let max = row.iter().fold(f32::NEG_INFINITY, |max, &l| if max > l { max } else { l });
                row.iter_mut().for_each(|l| *l = (*l - max).exp());
                let factor = 1.0 / row.iter().fold(0.0, |sum, w| sum + w);
                row.iter_mut().for_each(|w| *w = isa.madd(*w, factor, eps));
            }
            for group in Group::sequence(n_iter) {
                for members in group.all() {
                    let factor = 1.0 / members.iter().fold(eps, |sum, &at| sum + m[at]);
                    members.iter().for_each(|&at| m[at] *= factor);
                }
            }
            m
        });
        Ok(combined.collect())
    }
}

/// A logit, and the size of the product in it.
#[derive(Clone, Copy)]
struct Logit {
    value: f64,
    scaled: f64,
}

/// The matrix of a token, and how far roundings carry.
fn combine(logits: &[Logit; HC * HC], eps: f64, n_iter: usize) -> (Matrix, Sensitivity) {
    let max = |row: usize| logits[row * HC..][..HC].iter().fold(f64::NEG_INFINITY, |max, l| max.max(l.value));
    let difference: Matrix = std::array::from_fn(|i| logits[i].value - max(i / HC));
    let weights = difference.map(f64::exp);
    let softmax = Group::Row.normalised(&weights, 0.0);
    let first = softmax.map(|p| p + eps);
    let mut steps = Vec::new();
    let mut m = first;
    for group in Group::sequence(n_iter) {
        m = group.normalised(&m, eps);
        steps.push((group, m));
    }
    // backwards, from the result to the logits
    let mut sensitivity = Sensitivity::of_the_result();
    for (group, m) in steps.into_iter().rev() {
        sensitivity.round(&m.map(rounding));
        sensitivity.round_shared(group, SUM);
        sensitivity.before(group, &m);
    }
    let part = |size: f64, i: usize| if first[i] == 0.0 { 0.0 } else { size / first[i] };
    sensitivity.round(&first.map(rounding));
    sensitivity.round(&std::array::from_fn(|i| part(softmax[i].max(SMALLEST), i)));
    sensitivity.scale(&std::array::from_fn(|i| part(softmax[i], i)));
    sensitivity.round_shared(Group::Row, SOFTMAX_SUM);
    sensitivity.before(Group::Row, &softmax);
    sensitivity.round(&std::array::from_fn(|i| {
        // what weighs nothing has no error
        let (weight, Logit { value, scaled }) = (weights[i], logits[i]);
        let squares =
            (EXP * rounding(weight)).powi(2) + scaled.powi(2) + value.powi(2) + difference[i].powi(2);
        if weight == 0.0 { 0.0 } else { squares.sqrt() }
    }));
    (m, sensitivity)
}

/// Below it the distance of two f32 does not shrink.
const SMALLEST: f64 = f32::MIN_POSITIVE as f64;

/// The size of a rounding of a positive number, relative to it, in units of u; nothing is added to 0.
fn rounding(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { (SMALLEST / value).max(1.0) }
}

/// The sources of a node, which fit each other, and the number of iterations.
struct Sources<'a> {
    /// `[n_tokens, MIX]`
    mixes: Cow<'a, [f32]>,
    scale: f32,
    /// `[MIX]`
    base: Cow<'a, [f32]>,
    n_iter: usize,
}

impl<'a> Sources<'a> {
    fn of(node: &Invocation<'a>) -> Result<Sources<'a>, OracleError> {
        let (([mix, n_tokens, more @ ..], mixes), (scale_ne, scale)) = (values(node, 0)?, values(node, 1)?);
        let (base_ne, base) = values(node, 2)?;
        let fits = mix == MIX
            && more == [1, 1]
            && scale_ne[0] >= 3
            && scale_ne[1..] == [1, 1, 1]
            && base_ne == [MIX, 1, 1, 1]
            && node.ne == [HC as u64, HC as u64, n_tokens as u64, 1];
        node.require(fits, "the mixes, their scale and base and the result do not fit")?;
        let (eps, iterations) = (node.float(0), node.int(1));
        if !(eps >= 0.0 && eps.is_finite()) {
            return Err(node.parameter(format!("an epsilon of {eps}")));
        }
        if !(1..=MOST).contains(&iterations) {
            return Err(node.parameter(format!("{iterations} iterations")));
        }
        Ok(Sources { mixes, scale: scale[2], base, n_iter: iterations as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Ggml, Isa};
    use crate::ops::exact::{Data, Operand, U};

    fn float(ne: [u64; 4], values: &[f32]) -> Option<Operand<'static>> {
        Some(Operand { ne, data: Data::Float(values.to_vec()) })
    }

    /// A mix whose last 16 elements are `size` times different numbers within +-1, with a base of its own.
    fn sources(size: f32) -> [Option<Operand<'static>>; 3] {
        let mix: Vec<f32> = (0..MIX).map(|i| size * (i as f32 * 2.4).sin()).collect();
        let base: Vec<f32> = (0..MIX).map(|i| 0.1 * i as f32).collect();
        [float([24, 1, 1, 1], &mix), float([3, 1, 1, 1], &[9.0, 9.0, 0.7]), float([24, 1, 1, 1], &base)]
    }

    fn params(eps: f32, n_iter: i32) -> [i32; 2] {
        [eps.to_bits() as i32, n_iter]
    }

    fn node<'a>(params: &'a [i32], sources: &'a [Option<Operand<'a>>]) -> Invocation<'a> {
        Invocation { op: "DSV4_HC_COMB", variant: None, params, ne: [4, 4, 1, 1], sources }
    }

    #[test]
    fn equal_logits_are_mixed_equally() {
        let zeros = [0.0; MIX];
        let sources =
            [float([24, 1, 1, 1], &zeros), float([3, 1, 1, 1], &zeros[..3]), float([24, 1, 1, 1], &zeros)];
        let exact = Dsv4HcComb.exact(&node(&params(0.0, 1), &sources)).unwrap();
        assert_eq!(exact.values, [0.25; 16]);
        // Column: 1 + 5. In front of it J is 3/4, and -1/4 for the rest of the column, squares 3/4: + eps, the product, and
        // of each row one, 3/4 + 3/4 + 4 * 3/4. In front of the softmax 9/16, six times -3/16, nine times 1/16, squares 9/16:
        // the exponential, 4 * 9/16.
        let squares = 6.0 + 4.5 + 2.25;
        assert!(exact.terms.iter().all(|terms| (terms - 0.25 * f64::sqrt(squares)).abs() < 1e-12));
        assert_eq!(exact.additions, 1.0);
        // with an epsilon: 1/2 each, over 1/4 + 4 * 1/2
        let exact = Dsv4HcComb.exact(&node(&params(0.25, 1), &sources)).unwrap();
        assert_eq!(exact.values, [0.5 / 2.25; 16]);
    }

    #[test]
    fn columns_come_last() {
        let exact = Dsv4HcComb.exact(&node(&params(1e-6, 20), &sources(4.0))).unwrap();
        let sum = |at: [usize; 4]| at.iter().map(|&i| exact.values[i]).sum::<f64>();
        for i in 0..4 {
            let column = sum([i, 4 + i, 8 + i, 12 + i]);
            assert!((column - 1.0 / (1.0 + 1e-6)).abs() < 1e-7 && column < 1.0);
            assert!((sum([4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3]) - 1.0).abs() < 1e-3);
        }
        let once = Dsv4HcComb.exact(&node(&params(1e-6, 1), &sources(4.0))).unwrap();
        assert!((once.values[..4].iter().sum::<f64>() - 1.0).abs() > 0.1);
    }

    #[test]
    fn many_iterations_do_not_amplify() {
        let worst = |n_iter| {
            let exact = Dsv4HcComb.exact(&node(&params(1e-6, n_iter), &sources(4.0))).unwrap();
            let shares = exact.terms.iter().zip(&exact.values).map(|(terms, value)| terms / value);
            shares.fold(0.0, f64::max)
        };
        // two normalisations more, each with a rounding of what is left of it: as a square root
        assert!(worst(1) < 20.0 && worst(20) < worst(1) + 10.0 && worst(1000) < 8.0 * worst(20));
    }

    #[test]
    fn sensitivities_are_derivatives() {
        let logits: [f64; 16] = std::array::from_fn(|i| 3.0 * (i as f64 * 2.4).sin());
        let evaluate =
            |logits: &[f64; 16]| combine(&logits.map(|value| Logit { value, scaled: 0.0 }), 0.01, 3);
        let (values, sensitivity) = evaluate(&logits);
        for moved in 0..16 {
            let mut logits = logits;
            logits[moved] += 1e-6;
            for (i, value) in evaluate(&logits).0.iter().enumerate() {
                let derivative = (value / values[i]).ln() / 1e-6;
                assert!((derivative - sensitivity.jacobian[i][moved]).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn what_f32_computes_is_near() {
        for (isa, size) in [(Isa::Sse2, 1.0), (Isa::Avx2, 4.0), (Isa::Avx2, 60.0)] {
            let (params, sources) = (params(1e-6, 20), sources(size));
            let exact = Dsv4HcComb.exact(&node(&params, &sources)).unwrap();
            let executed = Executed {
                ggml: Ggml { isa, ..Ggml::of("CPU : ").unwrap() },
                primitives: &GGML_CPU,
                contiguous: &[],
            };
            let ggml = Dsv4HcComb.ggml(&node(&params, &sources), &executed).unwrap();
            for (i, &value) in ggml.iter().enumerate() {
                assert!((f64::from(value) - exact.values[i]).abs() <= 8.0 * U * exact.terms[i]);
            }
            assert!((0..16).any(|i| f64::from(ggml[i]) != exact.values[i]));
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let parameter = |eps, n_iter| {
            let error = Dsv4HcComb.exact(&node(&params(eps, n_iter), &sources(1.0))).unwrap_err();
            assert!(matches!(error, OracleError::Parameter { .. }));
        };
        parameter(1e-6, 0);
        parameter(1e-6, i32::MAX);
        parameter(-1e-6, 1);
        parameter(f32::NAN, 1);
        for (index, wrong) in [(0, [23, 1, 1, 1]), (1, [2, 1, 1, 1]), (2, [16, 1, 1, 1])] {
            let mut sources = sources(1.0);
            sources[index] = float(wrong, &vec![0.0; wrong[0] as usize]);
            let error = Dsv4HcComb.exact(&node(&params(1e-6, 1), &sources)).unwrap_err();
            assert!(matches!(error, OracleError::Shape { .. }));
        }
    }
}
