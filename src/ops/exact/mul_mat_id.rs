//! MUL_MAT_ID: each token is multiplied with the matrices of its experts (`ggml_compute_forward_mul_mat_id`, ggml-cpu.c).
//!
//! ```text
//! y[n][i][t] = sum_k a[k][n][ids[i][t]] x[k][i % n_x][t]
//! a  {k, n, n_expert}   x  {k, n_x, n_t}   ids  {n_used, n_t}   y  {n, n_used, n_t};  n_used is a multiple of n_x
//! ```
//! Terms and additions are those of all products (`matrices`), and x is rounded as in front of MUL_MAT.

use super::matrices::{Matrices, Meeting};
use super::rounding::{likeliest_on_cpu, possible};
use super::{Data, Exact, Executed, Invocation, Operand, Oracle, OracleError, Rounding, Setting};
use crate::arithmetic::{Ggml, Kernel, Shape};
use crate::tensor::GgmlType;

pub(super) struct MulMatId;

impl Oracle for MulMatId {
    fn ops(&self) -> &'static [&'static str] {
        &["MUL_MAT_ID"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        self.exact_with(node, likeliest_on_cpu(node.source(0)?.ty().unwrap_or(GgmlType::F32)))
    }

    fn roundings(&self, node: &Invocation<'_>, setting: &Setting) -> Vec<Rounding> {
        let weight = node.source(0).ok().and_then(Operand::ty);
        // CUDA goes by the number of tokens (`ggml_cuda_mul_mat_id`, ggml-cuda.cu).
        weight.map_or(vec![Rounding::None], |weight| possible(weight, node.ne[2], setting))
    }

    fn exact_with(&self, node: &Invocation<'_>, rounding: Rounding) -> Result<Exact, OracleError> {
        Ok(matrices(node)?.exact(rounding))
    }

    /// Columns of one expert go to `ggml_vec_dot_*` one by one, or together to the tiles; never to llamafile's kernels
    /// (`ggml_compute_forward_mul_mat_id_tiled`, tiled.cpp). Repacked weights are multiplied with one column at a time
    /// (`forward_mul_mat_id`, repack.cpp).
    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let matrices = matrices(node)?;
        let ggml = Ggml { llamafile: false, ..executed.ggml };
        let is_weight = matches!(node.source(0)?.data, Data::Weight(_));
        let of_expert = |met: &Vec<Meeting>| {
            let shape = Shape { ty: matrices.ty, rows: matrices.n, columns: met.len(), contiguous: true };
            match if is_weight { Kernel::of_weight(ggml, shape) } else { Kernel::of(ggml, shape) } {
                Kernel::RepackedGemm => Kernel::RepackedGemv,
                own => own,
            }
        };
        let kernels: Vec<Kernel> = matrices.meetings.iter().map(of_expert).collect();
        matrices.in_ggml(node, executed, |expert, _| kernels[expert])
    }
}

/// The sources, each expert with the columns that chose it.
fn matrices<'a>(node: &Invocation<'a>) -> Result<Matrices<'a>, OracleError> {
    let [_, n, n_expert, _] = node.source(0)?.ne.map(|n| n as usize);
    let [_, n_x, n_t, _] = node.source(1)?.ne.map(|n| n as usize);
    let ids = node.source(2)?;
    let n_used = ids.width();
    let chosen = ids.ints().ok_or_else(|| node.shape("source 2 holds no integers"))?;
    let one_matrix = node.source(0)?.ne[3] == 1 && node.source(1)?.ne[3] == 1;
    let fits = one_matrix
        && node.ne == [n, n_used, n_t, 1].map(|n| n as u64)
        && ids.ne[1..] == [n_t as u64, 1, 1]
        && chosen.len() == n_used * n_t
        && n_x > 0
        && n_used.is_multiple_of(n_x);
    node.require(fits, "the matrices, the experts chosen and the result do not fit")?;
    let mut meetings = vec![Vec::new(); n_expert];
    for (y, &expert) in chosen.iter().enumerate() {
        let met = usize::try_from(expert).ok().and_then(|expert| meetings.get_mut(expert));
        let met = met.ok_or_else(|| node.shape(format!("expert {expert} of {n_expert}")))?;
        met.push(Meeting { x: y / n_used * n_x + y % n_used % n_x, y });
    }
    Matrices::of(node, meetings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Isa};
    use crate::ops::Rows;
    use crate::ops::exact::mul_mat::MulMat;

    fn floats(ne: [u64; 4], values: &[f32]) -> Option<Operand<'static>> {
        Some(Operand { ne, data: Data::Float(values.to_vec()) })
    }

    /// Three experts of one row of two, two tokens with two experts each.
    fn of(x: Option<Operand<'static>>, ids: &[i64]) -> Result<Exact, OracleError> {
        let experts = floats([2, 1, 3, 1], &[1.0, -2.0, 10.0, 20.0, 100.0, 0.5]);
        let ids = Some(Operand { ne: [2, 2, 1, 1], data: Data::Int(ids.to_vec()) });
        let sources = [experts, x, ids];
        let node =
            Invocation { op: "MUL_MAT_ID", variant: None, params: &[], ne: [1, 2, 2, 1], sources: &sources };
        MulMatId.exact(&node)
    }

    #[test]
    fn each_token_meets_its_experts() {
        let one = of(floats([2, 1, 2, 1], &[3.0, 1.0, -1.0, 2.0]), &[2, 0, 1, 2]).unwrap();
        // 300 + 0.5, 3 - 2; -10 + 40, -100 + 1
        assert_eq!(one.values, [300.5, 1.0, 30.0, -99.0]);
        assert_eq!((one.terms, one.additions), (vec![300.5, 5.0, 50.0, 101.0], 2.0));
    }

    #[test]
    fn each_expert_of_a_token_may_have_its_own_column() {
        let x = [3.0, 1.0, 4.0, 1.0, -1.0, 2.0, -1.0, 4.0];
        let own = of(floats([2, 2, 2, 1], &x), &[2, 0, 1, 2]).unwrap();
        // 300 + 0.5, 4 - 2; -10 + 40, -100 + 2
        assert_eq!(own.values, [300.5, 2.0, 30.0, -98.0]);
    }

    #[test]
    fn an_expert_that_there_is_not_is_an_error() {
        let x = || floats([2, 1, 2, 1], &[3.0, 1.0, -1.0, 2.0]);
        for expert in [-1, 3, i64::MAX] {
            let refused = of(x(), &[0, 1, expert, 2]).unwrap_err();
            assert_eq!(refused.to_string(), format!("MUL_MAT_ID: expert {expert} of 3"));
        }
        assert!(matches!(of(x(), &[0, 1, 2]), Err(OracleError::Shape { .. })));
        assert!(matches!(of(floats([2, 3, 2, 1], &[1.0; 12]), &[0; 4]), Err(OracleError::Shape { .. })));
    }

    #[test]
    fn an_activation_is_rounded_as_the_weights_want_it() {
        // Q8_0: an expert of ones and one of twos; 0.5 becomes 0 by ties to even
        let block = |code: u8| [&[0x00, 0x3c][..], &[code; 32]].concat();
        let bytes = [block(1), block(2)].concat();
        let weights = Rows::new(GgmlType::Q8_0, &bytes, 32, 2).unwrap();
        let mut x = vec![0.5; 32];
        x[0] = 127.0;
        let ids = Some(Operand { ne: [2, 1, 1, 1], data: Data::Int(vec![1, 0]) });
        let weights = Some(Operand { ne: [32, 1, 2, 1], data: Data::Weight(weights) });
        let sources = [weights, floats([32, 1, 1, 1], &x), ids];
        let node =
            Invocation { op: "MUL_MAT_ID", variant: None, params: &[], ne: [1, 2, 1, 1], sources: &sources };
        assert_eq!(MulMatId.exact(&node).unwrap().values, [254.0, 127.0]);
        assert_eq!(MulMatId.exact_with(&node, Rounding::None).unwrap().values, [285.0, 142.5]);
    }

    #[test]
    fn several_columns_of_an_expert_are_added_as_one() {
        // 2^24 and -2^24 meet first in four registers, 2^24 and 1 in the one of llamafile's kernels
        let mut x = vec![0f32; 32];
        (x[0], x[8], x[16]) = (16_777_216.0, 1.0, -16_777_216.0);
        let columns = [x.clone(), x].concat();
        let ggml = Ggml { isa: Isa::Avx2, llamafile: true, ..Ggml::of("CPU : ").unwrap() };
        let executed = Executed { ggml, primitives: &GGML_CPU, contiguous: &[] };
        let ids = Some(Operand { ne: [1, 2, 1, 1], data: Data::Int(vec![0, 0]) });
        let sources = [floats([32, 4, 1, 1], &[1.0; 128]), floats([32, 1, 2, 1], &columns), ids];
        let node =
            Invocation { op: "MUL_MAT_ID", variant: None, params: &[], ne: [4, 1, 2, 1], sources: &sources };
        assert_eq!(MulMatId.ggml(&node, &executed).unwrap(), [1.0; 8]);
        let sources = [floats([32, 4, 1, 1], &[1.0; 128]), floats([32, 2, 1, 1], &columns)];
        let node = Invocation { op: "MUL_MAT", ne: [4, 2, 1, 1], sources: &sources, ..node };
        assert_eq!(MulMat.ggml(&node, &executed).unwrap(), [0.0; 8]);
    }
}
