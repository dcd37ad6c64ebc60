//! SOLVE_TRI: X in `A X = B`, A lower triangular, by forward substitution.
//!
//! ```text
//! A {n, n, b2, b3}   B, X {k, n, b2, b3};  row i of A is A[.., i], of X is X[.., i]
//! X_i = (B_i - sum_{t < i} A_it X_t) / A_ii         what A holds above the diagonal is not read
//! terms of X_i = sum_{j <= i} |A^-1|_ij (|B_j| + sum_{t <= j} |A_jt X_t|)
//! ```
//! ggml-cpu adds the products of a row in f32, in order, then takes the difference and the quotient
//! (`ggml_compute_forward_solve_tri_f32`, ops.cpp). Row j of what it computes therefore solves
//! `sum_t A_jt X_t = B_j + r_j`, where r_j is the rounding of row j: that of a sum of j products, a difference and a quotient
//! whose terms are `|B_j| + sum_{t <= j} |A_jt X_t|`, the quotient's error being `u |A_jj X_j|`. The r_j of earlier rows are
//! not lost: the error of the solution is `A^-1 r`. So an element has the terms of all rows, each as far as the inverse
//! carries it, and `n + 1` additions, those of the longest row. (Skeel's componentwise bound, with the exact inverse.)

use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct SolveTri;

impl Oracle for SolveTri {
    fn ops(&self) -> &'static [&'static str] {
        &["SOLVE_TRI"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let (a, b) = (floats(node, 0)?, floats(node, 1)?);
        let [n, k] = extents(node)?;
        let matrices = a.chunks_exact(n * n).zip(b.chunks_exact(n * k));
        let solved = matrices.flat_map(|(a, b)| {
            let identity: Vec<f64> = (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect();
            let (x, inverse) = (substitute(a, b, n), substitute(a, &identity, n));
            let terms = terms(a, b, &x, &inverse, n);
            x.into_iter().zip(terms)
        });
        Ok(Exact::collect((n + 1) as f64, solved))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let (a, b) = (singles(node, 0)?, singles(node, 1)?);
        let [n, k] = extents(node)?;
        let (isa, solve_tri) = (executed.ggml.isa, executed.primitives.solve_tri);
        let matrices = a.chunks_exact(n * n).zip(b.chunks_exact(n * k));
        Ok(matrices.flat_map(|(a, b)| solve_tri(isa, a, b, n)).collect())
    }
}

/// n and k of sources that fit.
fn extents(node: &Invocation<'_>) -> Result<[usize; 2], OracleError> {
    let [n, rows, b2, b3] = node.source(0)?.ne.map(|n| n as usize);
    let k = node.source(1)?.width();
    let fits = n == rows && node.source(1)?.ne == node.ne && node.ne == [k, n, b2, b3].map(|n| n as u64);
    node.require(fits && n > 0 && k > 0, "the matrix, the right side and the result do not fit")?;
    Ok([n, k])
}

/// Solves `A X = B` for A `[n, n]` and B `[n, k]`.
fn substitute(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let k = b.len() / n;
    let mut x = b.to_vec(); // [n, k]
    for i in 0..n {
        for column in 0..k {
            let sum: f64 = (0..i).map(|t| a[i * n + t] * x[t * k + column]).sum();
            x[i * k + column] = (b[i * k + column] - sum) / a[i * n + i];
        }
    }
    x
}

/// The terms of each element of X `[n, k]`.
fn terms(a: &[f64], b: &[f64], x: &[f64], inverse: &[f64], n: usize) -> Vec<f64> {
    let k = b.len() / n;
    let mut of_rows = vec![0.0; n * k]; // |B_j| + sum_{t <= j} |A_jt X_t|
    for j in 0..n {
        for column in 0..k {
            let products = (0..=j).map(|t| (a[j * n + t] * x[t * k + column]).abs()).sum::<f64>();
            of_rows[j * k + column] = b[j * k + column].abs() + products;
        }
    }
    let carried = |i: usize, column: usize| -> f64 {
        (0..=i).map(|j| inverse[i * n + j].abs() * of_rows[j * k + column]).sum()
    };
    (0..n * k).map(|at| carried(at / k, at % k)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn rows_are_solved_in_order() {
        let float = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        // the 9 is above the diagonal
        let sources = [float([2, 2, 1, 1], &[2.0, 9.0, 3.0, 4.0]), float([1, 2, 1, 1], &[4.0, 10.0])];
        let node =
            Invocation { op: "SOLVE_TRI", variant: None, params: &[], ne: [1, 2, 1, 1], sources: &sources };
        let exact = SolveTri.exact(&node).unwrap();
        // X = 4 / 2, (10 - 3 * 2) / 4;  A^-1 = [1/2; -3/8, 1/4];  rows: |4| + |4|, |10| + |6| + |4|
        assert_eq!(exact.values, [2.0, 1.0]);
        assert_eq!(exact.terms, [0.5 * 8.0, 0.375 * 8.0 + 0.25 * 20.0]);
        assert_eq!(exact.additions, 3.0);
        assert!(SolveTri.exact(&Invocation { ne: [2, 1, 1, 1], ..node }).is_err());
    }
}
