//! The feed-forward net: `down(silu(gate x) * up x)`.

use ndarray::Array2;

use super::Context;
use crate::engine::{EngineError, SwigluOrder};
use crate::ops::{Real, swiglu};

/// Runs layer `il` on its normalised input `[n_tokens, n_embd]`.
pub(super) fn run<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    input: Array2<T>,
) -> Result<Array2<T>, EngineError> {
    let (gate_name, up_name) = (format!("blk.{il}.ffn_gate.weight"), format!("blk.{il}.ffn_up.weight"));
    let like = context.rounds_like()?;
    let [gate, up] = context.projector.mul_mats([&gate_name, &up_name], &input, like.as_deref())?;
    let gate = context.emitter.emit("ffn_gate", Some(il), gate)?;
    let up = context.emitter.emit("ffn_up", Some(il), up)?;
    let product = match context.conventions.swiglu_order {
        SwigluOrder::GateActivated => swiglu(gate.view(), up.view()),
        SwigluOrder::UpActivated => swiglu(up.view(), gate.view()),
    };
    let product = context.emitter.emit("ffn_swiglu", Some(il), product)?;
    let like = context.rounds_like()?;
    let out = context.projector.mul_mat(&format!("blk.{il}.ffn_down.weight"), &product, like.as_deref())?;
    context.emitter.emit("ffn_out", Some(il), out)
}
