//! UNARY: a function of each element, in f32 (unary-ops.cpp, vec.h).
//!
//! ```text
//! ABS NEG SGN STEP RELU FLOOR CEIL ROUND TRUNC         exact: terms = 0; ROUND takes halves away from 0
//! SIGMOID SILU EXP TANH                                terms = |y|
//! GELU GELU_QUICK GELU_ERF                             in `activation`
//! ELU          x, or exp(x) - 1 for x <= 0             terms = |y|: expm1 does not cancel
//! EXPM1        exp(x) - 1                              terms = exp(x) + 1: the difference is formed, and cancels
//! SOFTPLUS     ln(1 + exp(x)), or x beyond 20          terms = 1 + |y|: the rounding of 1 + exp(x) is one of 1
//! HARDSIGMOID  min(1, max(0, (x + 3) / 6))             terms = |y|: a sum of two exact numbers is rounded once
//! HARDSWISH    x HARDSIGMOID                           terms = |y|
//! XIELU        p x^2 + b x for x > 0                   terms = |p x^2| + |b x|
//!              (exp(min(x, e)) - 1 - x) n + b x        terms = (|exp - 1| + |x|) |n| + |b x|;  n, p, b, e = params 1..5
//! ```
//! An element adds up [`STEPS`] roundings: the exponential (a polynomial of ggml's, a few units in the last place), an
//! addition and a division.

use super::activation::{Point, collect, gelu, gelu_erf, gelu_quick, relu, silu};
use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError};
use crate::ops::{sigmoid, softplus};

pub(super) struct Unary;

/// Roundings on the way: exponential, addition, division, product.
const STEPS: f64 = 4.0;

impl Oracle for Unary {
    fn ops(&self) -> &'static [&'static str] {
        &["UNARY"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let x = floats(node, 0)?;
        node.require(x.len() == node.elements(), "source and result have different sizes")?;
        let variant = node.variant.unwrap_or_default();
        if let Some(choose) = chosen(variant) {
            return Ok(Exact::moved(x.into_iter().map(choose).collect()));
        }
        if variant == "XIELU" {
            let [n, p, b, e] = [1, 2, 3, 4].map(|i| node.float(i));
            return Ok(collect(STEPS, x.into_iter().map(|x| xielu(x, n, p, b, e))));
        }
        let function = computed(variant).ok_or_else(|| node.unknown())?;
        Ok(collect(STEPS, x.into_iter().map(function)))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let variant = node.variant.unwrap_or_default();
        if chosen(variant).is_some() {
            return Ok(self.exact(node)?.into_singles());
        }
        let mut x = singles(node, 0)?.into_owned();
        node.require(x.len() == node.elements(), "source and result have different sizes")?;
        let (ggml, primitives) = (executed.ggml, executed.primitives);
        if variant == "SILU" {
            x.chunks_exact_mut(node.ne[0] as usize).for_each(|row| (primitives.silu_row)(ggml, row));
            return Ok(x);
        }
        let function: &dyn Fn(f32) -> f32 = match variant {
            "SIGMOID" => &|x| 1.0 / (1.0 + (-x).exp()),
            "EXP" => &f32::exp,
            "TANH" => &f32::tanh,
            "GELU" => &|x| (primitives.gelu)(ggml, x),
            "GELU_QUICK" => &primitives.gelu_quick,
            "ELU" => &|x| if x > 0.0 { x } else { x.exp_m1() },
            "EXPM1" => &|x| x.exp() - 1.0,
            "SOFTPLUS" => &|x| if x > 20.0 { x } else { (1.0 + x.exp()).ln() },
            "HARDSIGMOID" => &|x| ((x + 3.0) / 6.0).clamp(0.0, 1.0),
            "HARDSWISH" => &|x| x * ((x + 3.0) / 6.0).clamp(0.0, 1.0),
            _ => return Err(node.arithmetic("this function")),
        };
        x.iter_mut().for_each(|x| *x = function(*x));
        Ok(x)
    }
}

/// Functions without rounding.
fn chosen(variant: &str) -> Option<fn(f64) -> f64> {
    Some(match variant {
        "ABS" => f64::abs,
        "NEG" => |x| -x,
        "SGN" => |x| step(x) - step(-x),
        "STEP" => step,
        "RELU" => relu,
        "FLOOR" => f64::floor,
        "CEIL" => f64::ceil,
        "ROUND" => f64::round,
        "TRUNC" => f64::trunc,
        _ => return None,
    })
}

fn computed(variant: &str) -> Option<fn(f64) -> Point> {
    Some(match variant {
        "SIGMOID" => |x| Point::plain(sigmoid(x)),
        "SILU" => |x| silu(x, 1.0),
        "EXP" => |x| Point::plain(x.exp()),
        "TANH" => |x| Point::plain(x.tanh()),
        "GELU" => gelu,
        "GELU_QUICK" => gelu_quick,
        "GELU_ERF" => gelu_erf,
        "ELU" => |x| Point::plain(if x > 0.0 { x } else { x.exp_m1() }),
        "EXPM1" => |x| Point { terms: x.exp() + 1.0, ..Point::plain(x.exp_m1()) },
        "SOFTPLUS" => |x| Point { terms: 1.0 + softplus(x), ..Point::plain(softplus(x)) },
        "HARDSIGMOID" => |x| Point::plain(hardsigmoid(x)),
        "HARDSWISH" => |x| Point::plain(x * hardsigmoid(x)),
        _ => return None,
    })
}

fn step(x: f64) -> f64 {
    if x > 0.0 { 1.0 } else { 0.0 }
}

fn hardsigmoid(x: f64) -> f64 {
    ((x + 3.0) / 6.0).clamp(0.0, 1.0)
}

fn xielu(x: f64, n: f64, p: f64, b: f64, e: f64) -> Point {
    if x > 0.0 {
        let (square, linear) = (p * x * x, b * x);
        return Point { terms: square + linear.abs(), ..Point::plain(square + linear) };
    }
    let exponential = x.min(e).exp_m1();
    let value = (exponential - x) * n + b * x;
    Point { terms: (exponential.abs() + x.abs()) * n.abs() + (b * x).abs(), ..Point::plain(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    fn unary(variant: &str, x: &[f32], params: &[i32]) -> Result<Exact, OracleError> {
        let ne = [x.len() as u64, 1, 1, 1];
        let sources = [Some(Operand { ne, data: Data::Float(x.to_vec()) })];
        Unary.exact(&Invocation { op: "UNARY", variant: Some(variant), params, ne, sources: &sources })
    }

    #[test]
    fn variants_are_told_apart_and_unknown_ones_named() {
        let x = [2.0, -0.5, 2.5];
        assert_eq!(unary("NEG", &x, &[]).unwrap(), Exact::moved(vec![-2.0, 0.5, -2.5]));
        assert_eq!(unary("SGN", &x, &[]).unwrap().values, [1.0, -1.0, 1.0]);
        assert_eq!(unary("ROUND", &x, &[]).unwrap().values, [2.0, -1.0, 3.0]);
        assert_eq!(
            unary("HARDSWISH", &x, &[]).unwrap().values,
            [2.0 * 5.0 / 6.0, -0.5 * 2.5 / 6.0, 2.5 * 5.5 / 6.0]
        );
        assert_eq!(unary("SOFTPLUS", &x, &[]).unwrap().terms[0], 1.0 + softplus(2.0));
        let unknown = unary("WIGGLE", &x, &[]).unwrap_err();
        assert_eq!(unknown, OracleError::Unknown { op: "UNARY WIGGLE".into() });
    }

    #[test]
    fn a_difference_that_cancels_has_the_terms_of_its_parts() {
        let exact = unary("EXPM1", &[0.0], &[]).unwrap();
        assert_eq!((exact.values[0], exact.terms[0]), (0.0, 2.0));
        assert_eq!(unary("ELU", &[0.0], &[]).unwrap().terms[0], 0.0);
    }

    #[test]
    fn xielu_is_a_parabola_on_the_right() {
        let params = [0, 2f32.to_bits() as i32, 3f32.to_bits() as i32, 0.5f32.to_bits() as i32, 0];
        let exact = unary("XIELU", &[2.0, -1.0], &params).unwrap();
        assert_eq!((exact.values[0], exact.terms[0]), (13.0, 13.0));
        let exponential = (-1f64).exp_m1();
        assert_eq!(exact.values[1], (exponential + 1.0) * 2.0 - 0.5);
        assert_eq!(exact.terms[1], (exponential.abs() + 1.0) * 2.0 + 0.5);
    }
}
