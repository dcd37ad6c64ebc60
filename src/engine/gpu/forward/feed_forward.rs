//! The feed-forward net: `down(silu(gate x) * up x)`.

use super::{Pass, Tensor, launch};
use crate::engine::EngineError;
use crate::engine::gpu::weights::LayerWeights;

/// Runs layer `il` on its normalised input `[n_tokens, n_embd]`.
pub(super) fn run(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    weights: &LayerWeights,
    input: Tensor,
) -> Result<Tensor, EngineError> {
    let layer = Some(il);
    let like = pass.rounds_like()?;
    let [gate, up] = pass.mul_mats([&weights.ffn_gate, &weights.ffn_up], &input, like.as_deref())?;
    let gate = pass.emit("ffn_gate", layer, gate)?;
    let up = pass.emit("ffn_up", layer, up)?;
    let mut product = pass.tensor(&gate.shape)?;
    launch::swiglu(pass.device, product.all_mut(), gate.all(), up.all())?;
    let product = pass.emit("ffn_swiglu", layer, product)?;
    let like = pass.rounds_like()?;
    let out = pass.mul_mat(&weights.ffn_down, &product, like.as_deref())?;
    pass.emit("ffn_out", layer, out)
}
