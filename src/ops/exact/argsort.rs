//! ARGSORT and TOP_K: indices by scores (`ggml_compute_forward_argsort`, `ggml_compute_forward_top_k`, ops.cpp), row by row.
//!
//! ```text
//! ARGSORT  x[y[0]] <= x[y[1]] <= ..   of all indices; params 0:  0 ascending   1 descending (>=)       x, y {n, ..}
//! TOP_K    the k indices of the greatest x, in any order                                        x {n, ..}   y {k, ..}
//! ```
//! Nothing is added up: terms are 0. Equal scores may come in any order ([`Choice`]). ggml-cpu's is the one that `std::sort` and
//! `std::partial_sort` leave; it swaps the first two of TOP_K to show that they have none.

use super::choice::{Choice, Chosen};
use super::moves::floats;
use super::{Exact, Executed, Invocation, Oracle, OracleError};
use crate::arithmetic::{partial_sort, sort};

pub(super) struct Argsort;

impl Oracle for Argsort {
    fn ops(&self) -> &'static [&'static str] {
        &["ARGSORT", "TOP_K"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let choice = choice(node)?;
        let first = choice.first();
        Ok(Exact { choice: Some(choice), ..Exact::moved(first) })
    }

    fn ggml(&self, node: &Invocation<'_>, _: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let Choice { scores, width, chosen, kind, .. } = choice(node)?;
        let mut values = Vec::with_capacity(node.elements());
        for row in scores.chunks_exact(width.max(1)) {
            let mut all: Vec<usize> = (0..width).collect();
            match kind {
                Chosen::Ascending => sort(&mut all, |a, b| row[a] < row[b]),
                Chosen::Descending => sort(&mut all, |a, b| row[a] > row[b]),
                Chosen::Greatest => {
                    partial_sort(&mut all, chosen, |a, b| row[a] > row[b]);
                    if chosen > 1 {
                        all.swap(0, 1);
                    }
                }
            }
            values.extend(all[..chosen].iter().map(|&index| index as f32));
        }
        Ok(values)
    }
}

/// The greatest width whose indices f32 holds.
const WIDEST: usize = 1 << f32::MANTISSA_DIGITS;

fn choice(node: &Invocation<'_>) -> Result<Choice, OracleError> {
    let (scores, [width, rest @ ..]) = (floats(node, 0)?, node.source(0)?.ne);
    let kind = match (node.op, node.int(0)) {
        ("TOP_K", _) => Chosen::Greatest,
        (_, 0) => Chosen::Ascending,
        (_, 1) => Chosen::Descending,
        (_, other) => return Err(node.parameter(format!("order {other}"))),
    };
    let [chosen, of_result @ ..] = node.ne;
    let fits = rest == of_result && if kind == Chosen::Greatest { chosen <= width } else { chosen == width };
    node.require(fits, "scores and indices do not fit")?;
    node.require(width as usize <= WIDEST, "too many scores in a row")?;
    node.require(scores.iter().all(|score| !score.is_nan()), "a score is not a number")?;
    Ok(Choice::new(scores, width as usize, chosen as usize, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Ggml};
    use crate::ops::exact::{Data, Operand};

    /// What is exact, and what ggml-cpu gives.
    fn chosen(
        op: &str,
        order: i32,
        ne: [u64; 4],
        width: u64,
        scores: &[f32],
    ) -> Result<[Vec<f64>; 2], OracleError> {
        let rows = scores.len() as u64 / width;
        let sources = [Some(Operand { ne: [width, rows, 1, 1], data: Data::Float(scores.to_vec()) })];
        let node = Invocation { op, variant: None, params: &[order], ne, sources: &sources };
        let ggml = Ggml::of("CPU : ").expect("a scalar build");
        let executed = Executed { ggml, primitives: &GGML_CPU, contiguous: &[] };
        let own = Argsort.ggml(&node, &executed)?.into_iter().map(f64::from).collect();
        Ok([Argsort.exact(&node)?.values, own])
    }

    #[test]
    fn rows_are_sorted_either_way() {
        let scores = [2.0, 1.0, 3.0, -1.0, f32::NEG_INFINITY, 0.0];
        let both = |order, values: [f64; 6]| {
            assert_eq!(
                chosen("ARGSORT", order, [3, 2, 1, 1], 3, &scores).unwrap(),
                [values.to_vec(), values.to_vec()]
            );
        };
        both(0, [1.0, 0.0, 2.0, 1.0, 0.0, 2.0]);
        both(1, [2.0, 0.0, 1.0, 2.0, 0.0, 1.0]);
    }

    #[test]
    fn the_greatest_are_a_set_whose_first_two_ggml_swaps() {
        let [exact, ggml] = chosen("TOP_K", 0, [2, 1, 1, 1], 4, &[2.0, 1.0, 3.0, 0.0]).unwrap();
        assert_eq!((exact, ggml), (vec![2.0, 0.0], vec![0.0, 2.0]));
        let [_, one] = chosen("TOP_K", 0, [1, 1, 1, 1], 4, &[2.0, 1.0, 3.0, 0.0]).unwrap();
        assert_eq!(one, [2.0]);
    }

    #[test]
    fn what_cannot_be_sorted_is_refused() {
        let refused =
            |op, order, ne, scores: &[f32]| chosen(op, order, ne, 2, scores).unwrap_err().to_string();
        assert_eq!(refused("ARGSORT", 2, [2, 1, 1, 1], &[0.0; 2]), "ARGSORT with order 2 not known");
        assert_eq!(refused("ARGSORT", 0, [1, 1, 1, 1], &[0.0; 2]), "ARGSORT: scores and indices do not fit");
        assert_eq!(refused("TOP_K", 0, [3, 1, 1, 1], &[0.0; 2]), "TOP_K: scores and indices do not fit");
        assert_eq!(refused("TOP_K", 0, [1, 1, 1, 1], &[0.0, f32::NAN]), "TOP_K: a score is not a number");
    }
}
