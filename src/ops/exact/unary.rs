//! UNARY and GLU: a function of each element.
//!
//! ```text
//! UNARY  SIGMOID, SILU, SOFTPLUS, EXP, NEG, TANH, RELU, ..     GLU  SWIGLU: silu(a) b
//! terms = |y|, but for SOFTPLUS 1 + |y|: ggml forms 1 + exp(x), whose rounding is one of 1 (unary-ops.cpp)
//! ```
//! An element adds up [`STEPS`] roundings: the exponential (a polynomial of ggml's, a few units in the last place), an
//! addition and a division.

use super::moves::floats;
use super::{Exact, Invocation, Oracle, OracleError};
use crate::ops::{sigmoid, silu, softplus};

pub(super) struct Unary;

/// Roundings on the way: exponential, addition, division, product.
const STEPS: f64 = 4.0;

impl Oracle for Unary {
    fn ops(&self) -> &'static [&'static str] {
        &["UNARY", "GLU"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let x = floats(node, 0)?;
        node.require(x.len() == node.elements(), "source 0 and result have different sizes")?;
        if node.op == "GLU" {
            // params[1]: which half of a joint tensor is the gate; with two tensors it has no meaning.
            let up = floats(node, 1)?;
            node.require(up.len() == x.len(), "the two sources have different sizes")?;
            return match node.variant {
                Some("SWIGLU") => Ok(plain(x.iter().zip(&up).map(|(&x, &up)| silu(x) * up))),
                _ => Err(node.unknown()),
            };
        }
        let function: fn(f64) -> f64 = match node.variant {
            Some("SIGMOID") => sigmoid,
            Some("SILU") => silu,
            Some("EXP") => f64::exp,
            Some("NEG") => |x| -x,
            Some("TANH") => f64::tanh,
            Some("RELU") => |x| if x > 0.0 { x } else { 0.0 },
            Some("ABS") => f64::abs,
            Some("SOFTPLUS") => {
                return Ok(Exact::collect(STEPS, x.iter().map(|&x| (softplus(x), 1.0 + softplus(x)))));
            }
            _ => return Err(node.unknown()),
        };
        Ok(plain(x.iter().map(|&x| function(x))))
    }
}

fn plain(values: impl Iterator<Item = f64>) -> Exact {
    Exact::collect(STEPS, values.map(|y| (y, y.abs())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn variants_are_told_apart_and_unknown_ones_named() {
        let sources = [Some(Operand { ne: [1, 1, 1, 1], data: Data::Float(vec![2.0]) })];
        let node = |variant| Invocation { op: "UNARY", variant, params: &[], ne: [1; 4], sources: &sources };
        assert_eq!(Unary.exact(&node(Some("NEG"))).unwrap().values, [-2.0]);
        assert_eq!(Unary.exact(&node(Some("SOFTPLUS"))).unwrap().terms, [1.0 + softplus(2.0)]);
        let unknown = Unary.exact(&node(Some("WIGGLE"))).unwrap_err();
        assert_eq!(unknown, OracleError::Unknown { op: "UNARY WIGGLE".into() });
    }
}
