//! RMS_NORM and L2_NORM over dimension 0.
//!
//! ```text
//! RMS_NORM  y = x / sqrt(mean(x^2) + eps)      L2_NORM  y = x / max(sqrt(sum(x^2)), eps)      eps = params 0
//! ```
//! terms = |y|: the squares are all positive, so their sum loses nothing; it accumulates in f64 (ops.cpp). What is left are
//! [`STEPS`] roundings: squares, mean, root, division.

use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct Norm;

/// Roundings on the way: squares, mean, root and reciprocal, product.
const STEPS: f64 = 4.0;

impl Oracle for Norm {
    fn ops(&self) -> &'static [&'static str] {
        &["RMS_NORM", "L2_NORM"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let mut x = floats(node, 0)?;
        node.require(x.len() == node.elements() && node.ne[0] > 0, "source and result have different sizes")?;
        let width = node.ne[0] as usize;
        let eps = node.float(0);
        for row in x.chunks_exact_mut(width) {
            let sum: f64 = row.iter().map(|v| v * v).sum();
            let scale = match node.op {
                "RMS_NORM" => 1.0 / (sum / width as f64 + eps).sqrt(),
                _ => 1.0 / sum.sqrt().max(eps),
            };
            row.iter_mut().for_each(|v| *v *= scale);
        }
        Ok(Exact::collect(STEPS, x.into_iter().map(|y| (y, y.abs()))))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let mut x = singles(node, 0)?.into_owned();
        node.require(x.len() == node.elements() && node.ne[0] > 0, "source and result have different sizes")?;
        let eps = node.single(0);
        for row in x.chunks_exact_mut(node.ne[0] as usize) {
            match node.op {
                "RMS_NORM" => (executed.primitives.rms_norm)(row, eps),
                _ => (executed.primitives.l2_norm)(row, eps),
            }
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn rows_are_normalised_one_by_one() {
        let sources = [Some(Operand { ne: [2, 2, 1, 1], data: Data::Float(vec![3.0, 4.0, 0.0, 2.0]) })];
        let eps = [3.5f32.to_bits() as i32];
        let node =
            Invocation { op: "RMS_NORM", variant: None, params: &eps, ne: [2, 2, 1, 1], sources: &sources };
        // mean square 12.5 + 3.5 = 4^2; 2 + 3.5
        assert_eq!(Norm.exact(&node).unwrap().values, [0.75, 1.0, 0.0, 2.0 / 5.5f64.sqrt()]);
        let l2 = Norm.exact(&Invocation { op: "L2_NORM", ..node }).unwrap();
        assert_eq!(l2.values, [3.0 * (1.0 / 5.0), 4.0 * (1.0 / 5.0), 0.0, 2.0 * (1.0 / 3.5)]);
    }
}
