//! SUM_ROWS, MEAN, CUMSUM over dimension 0.
//!
//! ```text
//! SUM_ROWS  y = sum_i x_i      terms = sum_i |x_i|        MEAN  that over ne0
//! CUMSUM    y_i = y_{i-1} + x_i                           terms = sum_{m <= i} |x_m|
//! ```
//! A sum of a row accumulates in f64 and is rounded once (`ggml_vec_sum_f32`, vec.h), a mean once more after the division:
//! one and two additions. CUMSUM adds in f32, one element after the other, and keeps every partial sum: the rounding of y_m
//! stays in all that follow. Each is at most `u |y_m|`, and no partial sum up to i exceeds the terms of i, so an element is
//! a plain sum of as many additions as the row is long.

use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct Sums;

/// Roundings of a sum and of a mean.
const SUM: f64 = 1.0;
const MEAN: f64 = 2.0;

impl Oracle for Sums {
    fn ops(&self) -> &'static [&'static str] {
        &["SUM_ROWS", "MEAN", "CUMSUM"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let x = floats(node, 0)?;
        let width = node.source(0)?.width();
        node.require(width > 0, "a row is empty")?;
        let rows = x.chunks_exact(width);
        if node.op == "CUMSUM" {
            node.require(x.len() == node.elements(), "source and result have different sizes")?;
            return Ok(Exact::collect(width as f64, rows.flat_map(running_sums)));
        }
        node.require(rows.len() == node.elements() && node.ne[0] == 1, "not one result per row")?;
        let (additions, divisor) = if node.op == "MEAN" { (MEAN, width as f64) } else { (SUM, 1.0) };
        let sums = rows.filter_map(|row| running_sums(row).last());
        Ok(Exact::collect(additions, sums.map(|(sum, terms)| (sum / divisor, terms / divisor))))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let mut x = singles(node, 0)?.into_owned();
        let width = node.source(0)?.width();
        node.require(width > 0, "a row is empty")?;
        if node.op == "CUMSUM" {
            node.require(x.len() == node.elements(), "source and result have different sizes")?;
            x.chunks_exact_mut(width).for_each(executed.primitives.cumsum);
            return Ok(x);
        }
        let (rows, sum) = (x.chunks_exact(width), executed.primitives.sum);
        node.require(rows.len() == node.elements() && node.ne[0] == 1, "not one result per row")?;
        Ok(if node.op == "MEAN" {
            rows.map(|row| sum(row) / width as f32).collect()
        } else {
            rows.map(sum).collect()
        })
    }
}

/// The sum of a row and of its absolute values, up to each element.
fn running_sums(row: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    row.iter().scan((0.0, 0.0), |(sum, terms), x| {
        *sum += x;
        *terms += x.abs();
        Some((*sum, *terms))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn sums_of_two_rows() {
        let values = vec![1.0, -2.0, 4.0, 0.0, 3.0, 3.0];
        let sources = [Some(Operand { ne: [3, 2, 1, 1], data: Data::Float(values) })];
        let node =
            Invocation { op: "SUM_ROWS", variant: None, params: &[], ne: [1, 2, 1, 1], sources: &sources };
        let sums = Sums.exact(&node).unwrap();
        assert_eq!((sums.values, sums.terms, sums.additions), (vec![3.0, 6.0], vec![7.0, 6.0], 1.0));
        let means = Sums.exact(&Invocation { op: "MEAN", ..node }).unwrap();
        assert_eq!((means.values, means.terms), (vec![1.0, 2.0], vec![7.0 / 3.0, 2.0]));
        let running = Sums.exact(&Invocation { op: "CUMSUM", ne: [3, 2, 1, 1], ..node }).unwrap();
        assert_eq!(running.values, [1.0, -1.0, 3.0, 0.0, 3.0, 6.0]);
        assert_eq!((running.terms, running.additions), (vec![1.0, 3.0, 7.0, 0.0, 3.0, 6.0], 3.0));
        assert!(Sums.exact(&Invocation { op: "CUMSUM", ..node }).is_err());
        assert!(Sums.exact(&Invocation { ne: [3, 2, 1, 1], ..node }).is_err());
    }
}
