//! ADD, SUB, MUL, DIV, SCALE: element by element, the second source repeated where it is smaller.
//!
//! ```text
//! ADD, SUB   y = a +- b         terms = |a| + |b|
//! MUL, DIV   y = a b, a / b     terms = |y|
//! SCALE      y = s a + c        terms = |s a| + |c|      s, c = params 0, 1
//! ```

use super::moves::singles;
use super::{Exact, Executed, Invocation, Oracle, OracleError, indices};

pub(super) struct Elementwise;

impl Oracle for Elementwise {
    fn ops(&self) -> &'static [&'static str] {
        &["ADD", "SUB", "MUL", "DIV", "SCALE"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        if node.op == "SCALE" {
            let (scale, bias) = (node.float(0), node.float(1));
            let a = scaled(node)?.into_iter().map(f64::from);
            return Ok(Exact::collect(2.0, a.map(|a| (scale * a + bias, (scale * a).abs() + bias.abs()))));
        }
        let pairs = pairs(node)?.into_iter().map(|(a, b)| (f64::from(a), f64::from(b)));
        Ok(match node.op {
            "ADD" => Exact::collect(2.0, pairs.map(|(a, b)| (a + b, a.abs() + b.abs()))),
            "SUB" => Exact::collect(2.0, pairs.map(|(a, b)| (a - b, a.abs() + b.abs()))),
            "MUL" => Exact::collect(1.0, pairs.map(|(a, b)| (a * b, (a * b).abs()))),
            _ => Exact::collect(1.0, pairs.map(|(a, b)| (a / b, (a / b).abs()))),
        })
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        if node.op == "SCALE" {
            let mut values = scaled(node)?;
            (executed.primitives.scale_and_bias)(executed.ggml, &mut values, node.single(0), node.single(1));
            return Ok(values);
        }
        let operation: fn((f32, f32)) -> f32 = match node.op {
            "ADD" => |(a, b)| a + b,
            "SUB" => |(a, b)| a - b,
            "MUL" => |(a, b)| a * b,
            _ => |(a, b)| a / b,
        };
        Ok(pairs(node)?.into_iter().map(operation).collect())
    }
}

/// The source of SCALE.
fn scaled(node: &Invocation<'_>) -> Result<Vec<f32>, OracleError> {
    let a = singles(node, 0)?;
    node.require(a.len() == node.elements(), "source 0 and result have different sizes")?;
    Ok(a.into_owned())
}

/// Each element of the first source with that of the second, which is repeated.
fn pairs(node: &Invocation<'_>) -> Result<Vec<(f32, f32)>, OracleError> {
    let a = scaled(node)?;
    let (small, b) = (node.source(1)?, singles(node, 1)?);
    let repeats = (0..4).all(|d| small.ne[d] > 0 && node.ne[d].is_multiple_of(small.ne[d]));
    node.require(repeats, "source 1 does not repeat to the result")?;
    Ok(a.into_iter().zip(indices(node.ne).map(|index| b[small.at(index)])).collect())
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
