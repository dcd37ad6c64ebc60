//! NORM over dimension 0, GROUP_NORM over dimensions 0 and 1 and a group of dimension 2.
//!
//! ```text
//! y = (x - mean) / sqrt(variance + eps)     NORM: eps = params 0      GROUP_NORM: n_groups, eps = params 0, 1
//! a group is ceil(ne2 / n_groups) matrices, the last ones fewer
//! terms = (|x| + |mean|) / sqrt(variance + eps)
//! ```
//! The sums accumulate in f64, or in f64 over sums of eight (`ggml_vec_cvar_f32`, vec.cpp). The mean is rounded to f32: that
//! error of `u |mean|` is in every difference, which is why it is among the terms. The variance takes it in the second order
//! only. What is left are [`STEPS`] roundings. A NORM of rows that are not contiguous sums in f32 (ops.cpp), which is not
//! told from the sources here and not forgiven.

use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct CentredNorm;

/// Roundings on the way: sum, mean, difference, variance, root and reciprocal, product.
const STEPS: f64 = 6.0;

impl Oracle for CentredNorm {
    fn ops(&self) -> &'static [&'static str] {
        &["NORM", "GROUP_NORM"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let x = floats(node, 0)?;
        node.require(x.len() == node.elements() && !x.is_empty(), "source and result have different sizes")?;
        let [n0, n1, n2, _] = node.ne.map(|n| n as usize);
        if node.op == "NORM" {
            let eps = node.float(0);
            return Ok(Exact::collect(STEPS, x.chunks(n0).flat_map(|row| normalised(row, eps))));
        }
        let groups = usize::try_from(node.int(0)).ok().filter(|&groups| groups > 0);
        let groups = groups.ok_or_else(|| node.parameter(format!("{} groups", node.int(0))))?;
        let (eps, group) = (node.float(1), n2.div_ceil(groups) * n0 * n1);
        let sequences = x.chunks(n0 * n1 * n2);
        let parts = sequences.flat_map(|sequence| sequence.chunks(group));
        Ok(Exact::collect(STEPS, parts.flat_map(|part| normalised(part, eps))))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        if node.op != "NORM" || executed.contiguous.first() == Some(&false) {
            return Err(node.arithmetic("groups, or rows that are not contiguous"));
        }
        let mut x = singles(node, 0)?.into_owned();
        node.require(x.len() == node.elements() && !x.is_empty(), "source and result have different sizes")?;
        x.chunks_exact_mut(node.ne[0] as usize)
            .for_each(|row| (executed.primitives.norm)(executed.ggml, row, node.single(0)));
        Ok(x)
    }
}

/// Values and terms of what is normalised together.
fn normalised(part: &[f64], eps: f64) -> impl Iterator<Item = (f64, f64)> {
    let n = part.len() as f64;
    let mean = part.iter().sum::<f64>() / n;
    let variance = part.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    let scale = 1.0 / (variance + eps).sqrt();
    part.iter().map(move |x| ((x - mean) * scale, (x.abs() + mean.abs()) * scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn rows_and_groups() {
        let x = vec![1.0, 3.0, 5.0, 5.0, 2.0, 6.0];
        let sources = [Some(Operand { ne: [2, 1, 3, 1], data: Data::Float(x) })];
        let eps = [0.0f32.to_bits() as i32];
        let node =
            Invocation { op: "NORM", variant: None, params: &eps, ne: [2, 1, 3, 1], sources: &sources };
        let rows = CentredNorm.exact(&Invocation { params: &[3f32.to_bits() as i32], ..node }).unwrap();
        // means 2, 5, 4; variances 1 + 3, 0 + 3, 4 + 3
        assert_eq!(rows.values[..4], [-0.5, 0.5, 0.0, 0.0]);
        assert_eq!(rows.terms[..2], [1.5, 2.5]);
        // two groups: rows 0 and 1, then row 2; mean 3.5, variance (6.25 + 0.25 + 2.25 + 2.25) / 4 = 2.75
        let params = [2, 1.25f32.to_bits() as i32];
        let groups = CentredNorm.exact(&Invocation { op: "GROUP_NORM", params: &params, ..node }).unwrap();
        assert_eq!(groups.values[..4], [-1.25, -0.25, 0.75, 0.75]);
        assert_eq!(groups.values[4], -2.0 / 5.25f64.sqrt());
        assert!(CentredNorm.exact(&Invocation { op: "GROUP_NORM", params: &[], ..node }).is_err());
    }
}
