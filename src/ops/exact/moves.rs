//! CONT, CPY, DUP, CONCAT, RESHAPE, VIEW, PERMUTE, TRANSPOSE: values are moved, nothing is added.
//!
//! The result must equal the source to the bit, as the type of the result holds it: terms are 0 and nothing is forgiven.
//! Sources come as packed logical values: what a view selects has been gathered already.

use std::borrow::Cow;

use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct Moves;

impl Oracle for Moves {
    fn ops(&self) -> &'static [&'static str] {
        &["CONT", "CPY", "DUP", "CONCAT", "RESHAPE"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        if node.op == "CONCAT" {
            return concat(node);
        }
        let values = values(node, 0)?;
        node.require(values.len() == node.elements(), "source and result have different sizes")?;
        Ok(Exact::moved(values))
    }

    fn ggml(&self, node: &Invocation<'_>, _: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        Ok(self.exact(node)?.into_singles())
    }
}

/// Joins two sources along dimension `params[0]`.
fn concat(node: &Invocation<'_>) -> Result<Exact, OracleError> {
    let (a, b) = (node.source(0)?, node.source(1)?);
    let (first, second) = (values(node, 0)?, values(node, 1)?);
    let dim = usize::try_from(node.int(0))
        .ok()
        .filter(|&d| d < 4)
        .ok_or_else(|| node.parameter("its dimension"))?;
    let fits = (0..4).all(|d| {
        let joined = if d == dim { a.ne[d] + b.ne[d] } else { a.ne[d] };
        joined == node.ne[d] && (d == dim || a.ne[d] == b.ne[d])
    });
    node.require(fits, "the sources do not join to the result")?;
    let split = a.ne[dim] as usize;
    let values = super::indices(node.ne).map(|mut index| {
        if index[dim] < split {
            return first[a.at(index)];
        }
        index[dim] -= split;
        second[b.at(index)]
    });
    Ok(Exact::moved(values.collect()))
}

/// The values of a source, which may be integers.
pub(super) fn values(node: &Invocation<'_>, index: usize) -> Result<Vec<f64>, OracleError> {
    match node.source(index)?.ints() {
        None => floats(node, index),
        Some(ints) => ints.iter().map(|&int| integer(node, int)).collect(),
    }
}

/// An integer as f64, which holds it.
pub(super) fn integer(node: &Invocation<'_>, int: i64) -> Result<f64, OracleError> {
    let is_held = int.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS;
    node.require(is_held, &format!("{int} has more digits than f64"))?;
    Ok(int as f64)
}

/// The values of a source that must be floating-point.
pub(super) fn floats(node: &Invocation<'_>, index: usize) -> Result<Vec<f64>, OracleError> {
    Ok(singles(node, index)?.iter().map(|&value| value.into()).collect())
}

/// The same as they are.
pub(super) fn singles<'a>(node: &Invocation<'a>, index: usize) -> Result<Cow<'a, [f32]>, OracleError> {
    node.source(index)?.floats().ok_or_else(|| node.shape(format!("source {index} holds integers")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn joins_along_the_given_dimension() {
        let operand = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let sources = [operand([1, 2, 1, 1], &[1.0, 2.0]), operand([2, 2, 1, 1], &[3.0, 4.0, 5.0, 6.0])];
        let node =
            Invocation { op: "CONCAT", variant: None, params: &[], ne: [3, 2, 1, 1], sources: &sources };
        let exact = Moves.exact(&node).unwrap();
        assert_eq!(exact.values, [1.0, 3.0, 4.0, 2.0, 5.0, 6.0]);
        assert_eq!(exact.terms, [0.0; 6]);
        assert!(Moves.exact(&Invocation { ne: [4, 2, 1, 1], ..node }).is_err());
    }
}
