//! ADD, SUB, MUL, DIV, SCALE: element by element, the second source repeated where it is smaller.
//!
//! ```text
//! ADD, SUB   y = a +- b         terms = |a| + |b|
//! MUL, DIV   y = a b, a / b     terms = |y|
//! SCALE      y = s a + c        terms = |s a| + |c|      s, c = params 0, 1
//! ```

use super::moves::floats;
use super::{Exact, Invocation, Oracle, OracleError, indices};

pub(super) struct Elementwise;

impl Oracle for Elementwise {
    fn ops(&self) -> &'static [&'static str] {
        &["ADD", "SUB", "MUL", "DIV", "SCALE"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let a = floats(node, 0)?;
        node.require(a.len() == node.elements(), "source 0 and result have different sizes")?;
        if node.op == "SCALE" {
            let (scale, bias) = (node.float(0), node.float(1));
            return Ok(Exact::collect(
                2.0,
                a.iter().map(|a| (scale * a + bias, (scale * a).abs() + bias.abs())),
            ));
        }
        let (small, b) = (node.source(1)?, floats(node, 1)?);
        let repeats = (0..4).all(|d| small.ne[d] > 0 && node.ne[d].is_multiple_of(small.ne[d]));
        node.require(repeats, "source 1 does not repeat to the result")?;
        let pairs = a.iter().zip(indices(node.ne).map(|index| b[small.at(index)]));
        Ok(match node.op {
            "ADD" => Exact::collect(2.0, pairs.map(|(a, b)| (a + b, a.abs() + b.abs()))),
            "SUB" => Exact::collect(2.0, pairs.map(|(a, b)| (a - b, a.abs() + b.abs()))),
            "MUL" => Exact::collect(1.0, pairs.map(|(a, b)| (a * b, (a * b).abs()))),
            _ => Exact::collect(1.0, pairs.map(|(a, b)| (a / b, (a / b).abs()))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn a_row_is_repeated_over_tokens() {
        let operand = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let sources = [operand([2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0]), operand([2, 1, 1, 1], &[10.0, -1.0])];
        let node = Invocation { op: "MUL", variant: None, params: &[], ne: [2, 2, 1, 1], sources: &sources };
        assert_eq!(Elementwise.exact(&node).unwrap().values, [10.0, -2.0, 30.0, -4.0]);
        let sum = Elementwise.exact(&Invocation { op: "ADD", ..node }).unwrap();
        assert_eq!((sum.values[1], sum.terms[1]), (1.0, 3.0));
        let half = [0.5f32.to_bits() as i32];
        let scaled = Elementwise.exact(&Invocation { op: "SCALE", params: &half, ..node }).unwrap();
        assert_eq!(scaled.values, [0.5, 1.0, 1.5, 2.0]);
    }
}
