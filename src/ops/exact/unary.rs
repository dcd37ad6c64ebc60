//! UNARY and GLU: a function of each element.
//!
//! ```text
//! UNARY  SIGMOID, SILU, GELU, SOFTPLUS, EXP, NEG, TANH, RELU, ABS     GLU  SWIGLU, GEGLU, REGLU: f(a) b
//! terms = |y|, but for SOFTPLUS 1 + |y|: ggml forms 1 + exp(x), whose rounding is one of 1 (unary-ops.cpp)
//! ```
//! GELU is a table of f16 in ggml-cpu: `gelu_table` rounds as it does. An element adds up [`STEPS`] roundings: the exponential (a polynomial of ggml's, a few units in the last place), an
//! addition and a division.

use half::f16;

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
                Some("GEGLU") => Ok(gelu(&x, &up)),
                Some("REGLU") => Ok(plain(x.iter().zip(&up).map(|(&x, &up)| relu(x) * up))),
                _ => Err(node.unknown()),
            };
        }
        let function: fn(f64) -> f64 = match node.variant {
            Some("SIGMOID") => sigmoid,
            Some("SILU") => silu,
            Some("EXP") => f64::exp,
            Some("NEG") => |x| -x,
            Some("TANH") => f64::tanh,
            Some("RELU") => relu,
            Some("GELU") => return Ok(gelu(&x, &vec![1.0; x.len()])),
            Some("ABS") => f64::abs,
            Some("SOFTPLUS") => {
                return Ok(Exact::collect(STEPS, x.iter().map(|&x| (softplus(x), 1.0 + softplus(x)))));
            }
            _ => return Err(node.unknown()),
        };
        Ok(plain(x.iter().map(|&x| function(x))))
    }
}

fn relu(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.0 }
}

/// Beyond this, ggml takes gelu(x) to be x or 0.
const GELU_LINEAR: f64 = 10.0;
/// `sqrt(2 / pi)` and the cubic coefficient of the tanh form (vec.h).
const SQRT_2_OVER_PI: f32 = 0.797_884_6;
const GELU_COEF_A: f32 = 0.044_715;
/// Eight roundings of the f32 formula: the cube, two sums, tanh (two), and two products.
const TABLE_ERROR: f64 = 8.0 / (1u64 << 24) as f64;

/// `gelu(x) factor`, with the flips of the table.
fn gelu(x: &[f64], factors: &[f64]) -> Exact {
    let looked_up: Vec<(f64, f64)> = x.iter().map(|&x| gelu_table(x)).collect();
    let values = looked_up.iter().zip(factors).map(|(&(y, _), factor)| y * factor);
    let flips = looked_up.iter().zip(factors).map(|(&(_, flip), factor)| flip * factor.abs()).collect();
    Exact { flips, ..plain(values) }
}

/// gelu as ggml-cpu looks it up, and how far it moves if its rounding goes to the other side: for x rounded to f16, the f32
/// value of the tanh form rounded to f16 (`ggml_table_gelu_f16`, ggml-cpu.c). The input is an f32.
///
/// The table is filled by the compiler's f32 arithmetic, contracted or not: a value within [`TABLE_ERROR`] of the middle
/// between two f16 may have gone either way, a very small one by several steps.
fn gelu_table(x: f64) -> (f64, f64) {
    if x <= -GELU_LINEAR {
        return (0.0, 0.0);
    }
    if x >= GELU_LINEAR {
        return (x, 0.0);
    }
    let x = f16::from_f64(x).to_f32();
    let y = 0.5 * x * (1.0 + (SQRT_2_OVER_PI * x * (1.0 + GELU_COEF_A * x * x)).tanh());
    let nearest = f16::from_f32(y).to_f64();
    // 1 + tanh cancels for negative x: its rounding is one of 1, whatever is left.
    let error = TABLE_ERROR * f64::from(0.5 * x).abs();
    let moves = [-error, error].map(|error| (f16::from_f64(f64::from(y) + error).to_f64() - nearest).abs());
    (nearest, moves[0].max(moves[1]))
}

fn plain(values: impl Iterator<Item = f64>) -> Exact {
    Exact::collect(STEPS, values.map(|y| (y, y.abs())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn gelu_is_rounded_to_f16_on_both_sides() {
        assert_eq!([-11.0, 0.0, 11.5].map(|x| gelu_table(x).0), [0.0, 0.0, 11.5]);
        // 1.0002 rounds to 1; gelu(1) = 0.8412 rounds to the f16 0.8413086, far from a tie
        assert_eq!(gelu_table(1.0002), (0.84130859375, 0.0));
    }

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
