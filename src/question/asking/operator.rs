//! Operators of ggml that work element by element, on tensors that the dump holds.

use super::{Held, Stop, tracked};
use crate::ops::Tracked;
use crate::ops::exact::{Data, Invocation, Operand, exact};

/// `f(x)`, a variant of UNARY (`SIGMOID`).
///
/// # Errors
/// If there is no such variant.
pub(in crate::question) fn unary(variant: &str, x: &Held) -> Result<Vec<Tracked>, Stop> {
    operator("UNARY", variant, &[x])
}

/// `silu(gate) up`
///
/// # Errors
/// If the two have different sizes.
pub(in crate::question) fn swiglu(gate: &Held, up: &Held) -> Result<Vec<Tracked>, Stop> {
    operator("GLU", "SWIGLU", &[gate, up])
}

/// Element by element.
pub(in crate::question) fn times(x: &[Tracked], by: &[Tracked]) -> Vec<Tracked> {
    x.iter().zip(by).map(|(&x, &by)| x * by).collect()
}

fn operator(op: &str, variant: &str, sources: &[&Held]) -> Result<Vec<Tracked>, Stop> {
    let ne = |held: &Held| {
        let [n3, n2, n1, n0] = held.shape.map(|n| n as u64);
        [n0, n1, n2, n3]
    };
    let operand = |held: &&Held| Some(Operand { ne: ne(held), data: Data::Float(held.values.clone()) });
    let operands: Vec<Option<Operand<'_>>> = sources.iter().map(operand).collect();
    let node = Invocation { op, variant: Some(variant), params: &[], ne: ne(sources[0]), sources: &operands };
    Ok(tracked(exact(&node)?))
}
