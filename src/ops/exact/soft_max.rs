//! SOFT_MAX over dimension 0: `p_j = exp(l_j - max) / sum`, `l_j = s x_j + slope m_j`.
//!
//! ```text
//! x, y {n, n_row, n_head, n_seq}   m  the mask {n, >= n_row, divides n_head, divides n_seq}   sinks {n_head}
//! s, max_bias = params 0, 1;  a sink of head h adds exp(sink_h - max) to the sum
//! slope of head h: 1 without max_bias; else (ALiBi) with N the largest power of two up to n_head
//!   h < N: (2^(-max_bias / N))^(h + 1)      else: (2^(-max_bias / 2 / N))^(2 (h - N) + 1)
//! d_j     = |s x_j| + w |slope m_j| + |l_j| + |l_j - max|,  w = 1, but the exponent of the slope + 2 with ALiBi;
//!           without |s x_j| if s = 1, and without |l_j| if there is no mask: then nothing is multiplied or added
//! terms   = p_j (1 + d_j + sum_k p_k d_k)
//! ```
//! What is rounded in front of the exponential changes its value by that much times itself: the products `s x` and
//! `slope m`, their sum and the difference, d_j together; a slope is a power of a number rounded to f32. The sum of the
//! others moves by the mean of theirs; a sink counts with `d = |sink - max|`. What is subtracted from all alike, max, need not
//! be exact. The sum is one of positive numbers in f64 over sums of eight (`ggml_vec_soft_max_f32`, vec.cpp).

use std::borrow::Cow;

use super::attention::{single_slope, slope};
use super::moves::singles;
use super::{Exact, Executed, Invocation, Operand, Oracle, OracleError, indices};

pub(super) struct SoftMax;

/// Roundings on the way: exponential (two), sums of eight, reciprocal, product.
const STEPS: f64 = 5.0;

impl Oracle for SoftMax {
    fn ops(&self) -> &'static [&'static str] {
        &["SOFT_MAX"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let Sources { x, mask, sinks } = Sources::of(node)?;
        let (scale, max_bias) = (node.float(0), node.float(1));
        let [width, n_rows, n_head, _] = node.ne.map(|n| n as usize);
        let addends: Vec<Addend> = x
            .iter()
            .zip(indices(node.ne))
            .map(|(&x, index)| {
                let x = f64::from(x);
                let (slope, roundings) = slope(max_bias, index[2], n_head);
                let weight = roundings + 1.0; // and that of the product with the mask
                let scaled = scale * x;
                let product = if scale == 1.0 { 0.0 } else { scaled.abs() };
                let Some((operand, values)) = &mask else {
                    return Addend { logit: scaled, rounded: product };
                };
                let mask = slope * f64::from(values[operand.at(index)]);
                let logit = scaled + mask;
                Addend { logit, rounded: product + weight * mask.abs() + logit.abs() }
            })
            .collect();
        let rows = addends.chunks_exact(width).enumerate().flat_map(|(row, addends)| {
            let sink = sinks.as_ref().map(|(_, sinks)| sinks[row / n_rows % n_head].into());
            probabilities(addends, sink)
        });
        Ok(Exact::collect(STEPS, rows))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let Sources { x, mask, sinks } = Sources::of(node)?;
        let (scale, max_bias) = (node.single(0), node.single(1));
        let [width, n_rows, n_head, _] = node.ne.map(|n| n as usize);
        let mut x = x.into_owned();
        for (row, values) in x.chunks_exact_mut(width).enumerate() {
            let (i1, i2, i3) = (row % n_rows, row / n_rows % n_head, row / n_rows / n_head);
            let mask = mask.as_ref().map(|(operand, values)| {
                (single_slope(max_bias, i2, n_head), &values[operand.at([0, i1, i2, i3])..][..width])
            });
            let sink = sinks.as_ref().map(|(_, sinks)| sinks[i2]);
            (executed.primitives.soft_max)(executed.ggml, values, scale, mask, sink);
        }
        Ok(x)
    }
}

/// A logit, and the sum of what was rounded to make it.
struct Addend {
    logit: f64,
    rounded: f64,
}

/// Values and terms of a row.
fn probabilities(row: &[Addend], sink: Option<f64>) -> Vec<(f64, f64)> {
    let max = row.iter().map(|addend| addend.logit).chain(sink).fold(f64::NEG_INFINITY, f64::max);
    // exp(l - max) and d; what is masked weighs nothing, however far it is from the maximum
    let weigh = |logit: f64, rounded: f64| {
        let weight = (logit - max).exp();
        (weight, if weight == 0.0 { 0.0 } else { rounded + (logit - max).abs() })
    };
    let weighed: Vec<(f64, f64)> = row.iter().map(|addend| weigh(addend.logit, addend.rounded)).collect();
    let (sum, moved) = weighed
        .iter()
        .copied()
        .chain(sink.map(|sink| weigh(sink, 0.0)))
        .fold((0.0, 0.0), |(sum, moved), (weight, d)| (sum + weight, moved + weight * d));
    weighed.into_iter().map(|(weight, d)| (weight / sum, weight / sum * (1.0 + d + moved / sum))).collect()
}

type Source<'a> = Option<(&'a Operand<'a>, Cow<'a, [f32]>)>;

/// The sources of a node, which fit each other.
struct Sources<'a> {
    x: Cow<'a, [f32]>,
    mask: Source<'a>,
    sinks: Source<'a>,
}

impl<'a> Sources<'a> {
    fn of(node: &Invocation<'a>) -> Result<Sources<'a>, OracleError> {
        let x = singles(node, 0)?;
        node.require(x.len() == node.elements() && !x.is_empty(), "source and result have different sizes")?;
        let mask = optional(node, 1)?;
        if let Some((operand, _)) = &mask {
            let ne = operand.ne;
            let covers = ne[0] == node.ne[0]
                && ne[1] >= node.ne[1]
                && [2, 3].iter().all(|&d| ne[d] > 0 && node.ne[d].is_multiple_of(ne[d]));
            node.require(covers, "the mask does not cover the source")?;
        }
        let sinks = optional(node, 2)?;
        let n_head = node.ne[2] as usize;
        node.require(sinks.as_ref().is_none_or(|(_, sinks)| sinks.len() == n_head), "not one sink per head")?;
        Ok(Sources { x, mask, sinks })
    }
}

/// A source that may be none.
fn optional<'a>(node: &Invocation<'a>, index: usize) -> Result<Source<'a>, OracleError> {
    match node.sources.get(index).and_then(Option::as_ref) {
        Some(operand) => Ok(Some((operand, singles(node, index)?))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::Data;

    fn float(ne: [u64; 4], values: &[f32]) -> Option<Operand<'static>> {
        Some(Operand { ne, data: Data::Float(values.to_vec()) })
    }

    fn bits(x: f32) -> i32 {
        x.to_bits() as i32
    }

    #[test]
    fn masked_elements_are_zero() {
        let row = [3, 1, 1, 1];
        let sources = [float(row, &[1.0, 1.0, 9.0]), float(row, &[0.0, 0.0, f32::NEG_INFINITY])];
        let one = [bits(1.0)];
        let node = Invocation { op: "SOFT_MAX", variant: None, params: &one, ne: row, sources: &sources };
        let exact = SoftMax.exact(&node).unwrap();
        // d = |1 + 0| for both, and so is its mean
        assert_eq!((exact.values, exact.terms), (vec![0.5, 0.5, 0.0], vec![1.5, 1.5, 0.0]));
        let scaled = SoftMax.exact(&Invocation { params: &[bits(2.0)], ..node }).unwrap();
        assert_eq!(scaled.terms, [0.5 * 9.0, 0.5 * 9.0, 0.0]); // d = |2| + |2|
        let alone = SoftMax.exact(&Invocation { sources: &sources[..1], ..node }).unwrap();
        // d = 8, 8, 0: only the difference is rounded
        let p = (-8f64).exp() / (1.0 + 2.0 * (-8f64).exp());
        assert!((alone.terms[0] / p - (1.0 + 8.0 + 16.0 * p)).abs() <= 1e-12);
    }

    #[test]
    fn a_sink_takes_its_share() {
        let sources = [float([1, 1, 2, 1], &[0.0, 0.0]), None, float([2, 1, 1, 1], &[0.0, 1.0])];
        let one = [bits(1.0)];
        let node =
            Invocation { op: "SOFT_MAX", variant: None, params: &one, ne: [1, 1, 2, 1], sources: &sources };
        let values = SoftMax.exact(&node).unwrap().values;
        assert_eq!(values, [0.5, (-1f64).exp() / ((-1f64).exp() + 1.0)]);
        let few = [sources[0].clone(), None, float([1, 1, 1, 1], &[0.0])];
        assert!(SoftMax.exact(&Invocation { sources: &few, ..node }).is_err());
    }

    #[test]
    fn a_slope_scales_the_mask() {
        let sources = [float([2, 1, 1, 1], &[0.0, 0.0]), float([2, 1, 1, 1], &[0.0, -1.0])];
        let params = [bits(1.0), bits(1.0)]; // one head: 2^-1
        let node = Invocation {
            op: "SOFT_MAX",
            variant: None,
            params: &params,
            ne: [2, 1, 1, 1],
            sources: &sources,
        };
        let expected = (-0.5f64).exp() / (1.0 + (-0.5f64).exp());
        assert_eq!(SoftMax.exact(&node).unwrap().values[1], expected);
    }
}
