//! SOFT_MAX over dimension 0: `p_j = exp(s x_j + m_j - max) / sum`, s = params 0, m the mask (source 1).
//!
//! terms = p (1 + |s x_j| + |max|): what is rounded in front of the exponential, `s x_j`, `+ m_j` and `- max`, changes p by
//! that much times p. The sum of positive numbers accumulates in f64 (ops.cpp). ALiBi (params 1) is not evaluated.

use super::moves::floats;
use super::{Exact, Invocation, Oracle, OracleError, indices};

pub(super) struct SoftMax;

/// Roundings on the way: scale, mask, difference, exponential, product.
const STEPS: f64 = 5.0;

impl Oracle for SoftMax {
    fn ops(&self) -> &'static [&'static str] {
        &["SOFT_MAX"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let x = floats(node, 0)?;
        node.require(x.len() == node.elements() && node.ne[0] > 0, "source and result have different sizes")?;
        if node.float(1) != 0.0 {
            return Err(node.parameter(format!("max_bias {}", node.float(1))));
        }
        if node.sources.get(2).is_some_and(Option::is_some) {
            return Err(node.parameter("sinks"));
        }
        let scale = node.float(0);
        let mask = match node.sources.get(1).and_then(Option::as_ref) {
            Some(mask) => Some((mask, floats(node, 1)?)),
            None => None,
        };
        let masked = x
            .iter()
            .zip(indices(node.ne))
            .map(|(x, index)| scale * x + mask.as_ref().map_or(0.0, |(mask, values)| values[mask.at(index)]));
        let logits: Vec<f64> = masked.collect();
        let width = node.ne[0] as usize;
        let rows = logits.chunks_exact(width).zip(x.chunks_exact(width));
        let elements = rows.flat_map(|(logits, x)| {
            let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logits.iter().map(|l| (l - max).exp()).sum();
            logits.iter().zip(x).map(move |(l, x)| {
                let p = (l - max).exp() / sum;
                (p, p * (1.0 + (scale * x).abs() + max.abs()))
            })
        });
        Ok(Exact::collect(STEPS, elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn masked_elements_are_zero() {
        let float = |values: &[f32]| Some(Operand { ne: [3, 1, 1, 1], data: Data::Float(values.to_vec()) });
        let sources = [float(&[1.0, 1.0, 9.0]), float(&[0.0, 0.0, f32::NEG_INFINITY])];
        let one = [1f32.to_bits() as i32];
        let node =
            Invocation { op: "SOFT_MAX", variant: None, params: &one, ne: [3, 1, 1, 1], sources: &sources };
        let exact = SoftMax.exact(&node).unwrap();
        assert_eq!((exact.values, exact.terms), (vec![0.5, 0.5, 0.0], vec![1.5, 1.5, 0.0]));
    }
}
