//! MUL_MAT: `y[n][t] = sum_k a[k][n] x[k][t]`, per matrix of dimensions 2 and 3 (`ggml_compute_forward_mul_mat`, ggml-cpu.c).
//!
//! ```text
//! a  {k, n, b2, b3}   x  {k, t, c2, c3}   y  {n, t, c2, c3};  matrix (i2, i3) of x meets (i2 / (c2 / b2), i3 / (c3 / b3)) of a
//! ```
//! Terms and additions are those of all products (`matrices`).

use super::matrices::{Matrices, Meeting};
use super::rounding::{likeliest_on_cpu, possible};
use super::{Data, Exact, Executed, Invocation, Operand, Oracle, OracleError, Rounding, Setting};
use crate::arithmetic::{Kernel, Shape};
use crate::tensor::GgmlType;

pub(super) struct MulMat;

impl Oracle for MulMat {
    fn ops(&self) -> &'static [&'static str] {
        &["MUL_MAT"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        self.exact_with(node, likeliest_on_cpu(node.source(0)?.ty().unwrap_or(GgmlType::F32)))
    }

    fn roundings(&self, node: &Invocation<'_>, setting: &Setting) -> Vec<Rounding> {
        let weight = node.source(0).ok().and_then(Operand::ty);
        weight.map_or(vec![Rounding::None], |weight| possible(weight, node.ne[1], setting))
    }

    fn exact_with(&self, node: &Invocation<'_>, rounding: Rounding) -> Result<Exact, OracleError> {
        Ok(matrices(node)?.exact(rounding))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let matrices = matrices(node)?;
        let (ggml, primitives) = (executed.ggml, executed.primitives);
        if node.int(1) == HINT_HADAMARD && !ggml.reference_kernels {
            let k = matrices.k;
            let mut values = matrices.activations.into_owned();
            values.chunks_exact_mut(k.max(1)).for_each(primitives.fwht);
            return Ok(values);
        }
        let columns = node.ne[1] as usize;
        let contiguous = executed.contiguous.get(1).copied().unwrap_or(true);
        let shape = Shape { ty: matrices.ty, rows: matrices.n, columns, contiguous };
        let kernel = match node.source(0)?.data {
            Data::Weight(_) => Kernel::of_weight(ggml, shape),
            _ => Kernel::of(ggml, shape),
        };
        matrices.in_ggml(node, executed, |_, column| kernel.at(columns, column % columns.max(1)))
    }
}

/// The value of params 1 that says that the first source is a Hadamard matrix (`GGML_HINT_SRC0_IS_HADAMARD`).
const HINT_HADAMARD: i32 = 1;

/// The sources, each matrix of the first with the tokens of all matrices of the second that meet it.
fn matrices<'a>(node: &Invocation<'a>) -> Result<Matrices<'a>, OracleError> {
    let [_, n, b2, b3] = node.source(0)?.ne.map(|n| n as usize);
    let [_, t, c2, c3] = node.source(1)?.ne.map(|n| n as usize);
    let fits = node.ne == [n, t, c2, c3].map(|n| n as u64)
        && b2 > 0
        && b3 > 0
        && c2.is_multiple_of(b2)
        && c3.is_multiple_of(b3);
    node.require(fits, "the matrices do not multiply to the result")?;
    let (r2, r3) = (c2 / b2, c3 / b3);
    let met_by = |i2: usize, i3: usize| {
        let met =
            (i3 * r3..(i3 + 1) * r3).flat_map(move |j3| (i2 * r2..(i2 + 1) * r2).map(move |j2| j3 * c2 + j2));
        let columns = met.flat_map(move |matrix| matrix * t..(matrix + 1) * t);
        columns.map(|column| Meeting { x: column, y: column }).collect()
    };
    let meetings = (0..b3).flat_map(|i3| (0..b2).map(move |i2| met_by(i2, i3))).collect();
    Matrices::of(node, meetings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Rows;
    use crate::ops::exact::{ActivationRounding, CpuKernel};

    #[test]
    fn a_smaller_first_source_is_used_for_several_matrices() {
        let operand = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        // a: one matrix of 1 row of 2; x: two matrices of 1 token
        let sources = [operand([2, 1, 1, 1], &[1.0, -2.0]), operand([2, 1, 2, 1], &[3.0, 1.0, 5.0, 5.0])];
        let node =
            Invocation { op: "MUL_MAT", variant: None, params: &[], ne: [1, 1, 2, 1], sources: &sources };
        let exact = MulMat.exact(&node).unwrap();
        assert_eq!((exact.values, exact.terms), (vec![1.0, -5.0], vec![5.0, 15.0]));
        assert!(MulMat.exact(&Invocation { ne: [2, 1, 1, 1], ..node }).is_err());
    }

    /// The product of one row of 32 weights with `x`, zeros behind it.
    fn of_row(ty: GgmlType, row: &[u8], x: &[f32], to: ActivationRounding) -> Exact {
        let mut values = x.to_vec();
        values.resize(32, 0.0);
        let weights = Operand { ne: [32, 1, 1, 1], data: Data::Weight(Rows::new(ty, row, 32, 1).unwrap()) };
        let sources = [Some(weights), Some(Operand { ne: [32, 1, 1, 1], data: Data::Float(values) })];
        let node = Invocation { op: "MUL_MAT", variant: None, params: &[], ne: [1; 4], sources: &sources };
        MulMat.exact_with(&node, Rounding::Activation(to)).unwrap()
    }

    const ONE: [u8; 2] = [0x00, 0x3c]; // of f16
    const TWO: [u8; 2] = [0x00, 0x40];

    #[test]
    fn the_kernels_give_different_products() {
        let row = [&ONE[..], &[1; 32]].concat(); // Q8_0: ones
        // codes 127, 0, 2 by ties to even; 127, 1, 2 away from zero
        let of = |kernel| of_row(GgmlType::Q8_0, &row, &[127.0, 0.5, 1.5], ActivationRounding::Q8_0(kernel));
        assert_eq!((of(CpuKernel::X86).values, of(CpuKernel::X86).flips), (vec![129.0], vec![]));
        assert_eq!(of(CpuKernel::Portable).values, [130.0]);
    }

    #[test]
    fn a_minimum_meets_the_stored_sum() {
        // Q4_1: codes 0 of 1, the minimum 2. Rounded to 127, 0, 0; 0.25 + 0.25 are left out by Q8_1 and in by MMVQ.
        let row = [&ONE[..], &TWO, &[0; 16]].concat();
        let of = |to| of_row(GgmlType::Q4_1, &row, &[127.0, 0.25, 0.25], to);
        let cpu = of(ActivationRounding::Q8_1(CpuKernel::X86));
        assert_eq!((cpu.values, cpu.terms), (vec![254.0], vec![254.0]));
        assert_eq!(of(ActivationRounding::Mmvq).values, [255.0]);
    }

    #[test]
    fn mmvq_takes_the_middle_of_q4_0_off_the_stored_sum() {
        // Q4_0: d = 1, codes 0, so -8 throughout: (0 - 8) * 127.5
        let row = [&ONE[..], &[0; 16]].concat();
        let of = |to| of_row(GgmlType::Q4_0, &row, &[127.0, 0.25, 0.25], to);
        assert_eq!(of(ActivationRounding::Mmvq).values, [-1020.0]);
        assert_eq!(of(ActivationRounding::Q8_0(CpuKernel::X86)).values, [-1016.0]);
    }

    #[test]
    fn doubtful_codes_are_counted_by_what_they_move() {
        // Q8_0: weights 2, -3, 0, ..; 0.5 and 1.5 are ties that CUDA's quotient may miss
        let mut row = [0; 34];
        (row[1], row[2], row[3], row[4]) = (0x3c, 1, 2, -3i8 as u8);
        let exact = of_row(GgmlType::Q8_0, &row, &[127.0, 0.5, 1.5], ActivationRounding::Mmvq);
        assert_eq!((exact.values, exact.flips), (vec![127.0 + 2.0 - 6.0], vec![2.0 + 3.0]));
    }
}
