//! MUL_MAT: `y[n][t] = sum_k a[k][n] x[k][t]`, per matrix of dimensions 2 and 3.
//!
//! ```text
//! a  {k, n, b2, b3}   x  {k, t, c2, c3}   y  {n, t, c2, c3};  matrix (i2, i3) of x meets (i2 / (c2 / b2), i3 / (c3 / b3)) of a
//! terms = sum_k |a x|, or sum_k |(a - min) x| + |min x| for formats with a minimum, whose two sums ggml forms apart
//! k additions
//! ```
//! ggml-cpu rounds x to the type that a's dot product takes (`vec_dot_type`) first; `round_activation` does the same. Q8_1
//! brings the sum of each block of x, rounded, for the minima.

use rayon::prelude::*;

use super::{
    ActivationRounding, Data, Exact, Invocation, Oracle, OracleError, Rounded, Rounding, Setting,
    round_activation, vec_dot_type,
};
use crate::tensor::GgmlType;

pub(super) struct MulMat;

impl Oracle for MulMat {
    fn ops(&self) -> &'static [&'static str] {
        &["MUL_MAT"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        self.exact_with(node, Rounding::Activation(ActivationRounding::X86))
    }

    fn roundings(&self, _node: &Invocation<'_>, _setting: &Setting) -> Vec<Rounding> {
        vec![Rounding::Activation(ActivationRounding::X86)]
    }

    fn exact_with(&self, node: &Invocation<'_>, _rounding: Rounding) -> Result<Exact, OracleError> {
        let (a, x) = (node.source(0)?, node.source(1)?);
        let activations = x.floats().ok_or_else(|| node.shape("source 1 holds integers"))?;
        let [k, n, b2, b3] = a.ne.map(|n| n as usize);
        let [_, t, c2, c3] = x.ne.map(|n| n as usize);
        let fits = x.width() == k
            && node.ne == [n, t, c2, c3].map(|n| n as u64)
            && b2 > 0
            && b3 > 0
            && c2.is_multiple_of(b2)
            && c3.is_multiple_of(b3);
        node.require(fits, "the matrices do not multiply to the result")?;
        let (ty, rows) = match &a.data {
            Data::Weight(rows) => (rows.ty(), rows.n_in * rows.n_out),
            Data::Float(values) => (GgmlType::F32, values.len()),
            Data::Narrow(ty, values) => (*ty, values.len()),
            Data::Int(_) => return Err(node.shape("source 0 holds integers")),
        };
        node.require(rows == k * n * b2 * b3, "source 0 has other rows")?;
        let partner = vec_dot_type(ty).ok_or_else(|| node.parameter(format!("weights of type {ty}")))?;
        let activations: Vec<Rounded> =
            activations.chunks_exact(k.max(1)).map(|row| round_activation(partner, row)).collect();
        // One task per row of `a`: decoded once, used for every token and matrix that meets it.
        let products: Vec<Vec<(f64, f64)>> = (0..n * b2 * b3)
            .into_par_iter()
            .map(|row| {
                let mut weights = vec![0.0; k];
                let mut minima = vec![0.0; k];
                let mut has_minima = false;
                match &a.data {
                    Data::Weight(rows) => {
                        rows.decode_row(row, &mut weights);
                        has_minima = rows.minima_of_row(row, &mut minima);
                    }
                    Data::Float(values) | Data::Narrow(_, values) => {
                        weights.copy_from_slice(&values[row * k..][..k])
                    }
                    Data::Int(_) => {}
                }
                let (i2, i3) = (row / n % b2, row / n / b2);
                let (r2, r3) = (c2 / b2, c3 / b3);
                let matrices = (i3 * r3..(i3 + 1) * r3)
                    .flat_map(|j3| (i2 * r2..(i2 + 1) * r2).map(move |j2| j3 * c2 + j2));
                let tokens = matrices.flat_map(|matrix| (0..t).map(move |token| matrix * t + token));
                let minima = has_minima.then_some(&minima[..]);
                tokens.map(|token| product(&weights, minima, &activations[token])).collect()
            })
            .collect();
        let mut exact = Exact {
            values: vec![0.0; node.elements()],
            terms: vec![0.0; node.elements()],
            additions: k as f64,
            flips: Vec::new(),
        };
        let (r2, r3) = (c2 / b2, c3 / b3);
        for (row, products) in products.into_iter().enumerate() {
            let (i1, i2, i3) = (row % n, row / n % b2, row / n / b2);
            let mut products = products.into_iter();
            for j3 in i3 * r3..(i3 + 1) * r3 {
                for j2 in i2 * r2..(i2 + 1) * r2 {
                    for token in 0..t {
                        let at = ((j3 * c2 + j2) * t + token) * n + i1;
                        (exact.values[at], exact.terms[at]) =
                            products.next().expect("one per token and matrix");
                    }
                }
            }
        }
        Ok(exact)
    }
}

/// Elements whose sum Q8_1 stores.
const SUM_BLOCK: usize = 32;

/// The exact product of a row with an activation, and its terms.
fn product(row: &[f32], minima: Option<&[f32]>, x: &Rounded) -> (f64, f64) {
    let Some(minima) = minima else {
        return row.iter().zip(&x.values).fold((0.0, 0.0), |(sum, terms), (&a, &x)| {
            let term = f64::from(a) * f64::from(x);
            (sum + term, terms + term.abs())
        });
    };
    let (mut sum, mut terms) = (0.0, 0.0);
    for ((&a, &min), &x) in row.iter().zip(minima).zip(&x.values) {
        let (a, min, x) = (f64::from(a), f64::from(min), f64::from(x));
        sum += a * x;
        terms += ((a - min) * x).abs() + (min * x).abs();
    }
    for (min, error) in minima.iter().step_by(SUM_BLOCK).zip(x.sum_errors.iter().flatten()) {
        sum += f64::from(*min) * f64::from(*error);
    }
    (sum, terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::Operand;

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
}
