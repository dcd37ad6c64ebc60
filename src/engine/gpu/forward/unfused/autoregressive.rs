//! One token of each sequence: the structure of ops/gated_delta_net/autoregressive.rs.

use super::{Graph, Inputs, Tensor, launch};
use crate::engine::EngineError;
use crate::engine::gpu::launch::Matrices;

/// Outputs `[n_seqs, 1, n_v, d]` and the states behind, which the tap has seen.
pub(super) fn recur(
    graph: &mut Graph<'_, '_, '_, '_>,
    inputs: Inputs<'_>,
    before: Tensor,
) -> Result<(Tensor, Tensor), EngineError> {
    let Graph { n_seqs, n_v, d, .. } = *graph;
    let by_head = [n_seqs, n_v, 1, d];
    graph.view("k_in", &by_head, inputs.k)?;
    graph.view("v_in", &by_head, inputs.v)?;
    let state = updated(graph, inputs, &before)?.shaped(&[n_seqs, n_v, d, d]);
    let state = graph.step("new_state", state)?;
    let q = graph.pass.scaled(inputs.q, graph.scale())?.shaped(&by_head);
    let q = graph.step("q_in", q)?;
    let o = read(graph, &state, &q)?;
    Ok((o.shaped(&[n_seqs, 1, n_v, d]), state))
}

/// The state after the token.
fn updated(
    graph: &Graph<'_, '_, '_, '_>,
    inputs: Inputs<'_>,
    before: &Tensor,
) -> Result<Tensor, EngineError> {
    let (pass, n, d) = (&*graph.pass, graph.n_states(), graph.d);
    let number = |x| Matrices::packed(x, [n, 1, 1]);
    let row = |x| Matrices::packed(x, [n, 1, d]);
    let decay = pass.exp(inputs.gate)?;
    let state = pass.of_two(launch::mul_matrices, before.matrices(), number(decay.all()))?;
    let known = read(graph, &state, inputs.k)?;
    let missing = pass.of_two(launch::sub_matrices, row(inputs.v.all()), row(known.all()))?;
    let delta = pass.of_two(launch::mul_matrices, missing.matrices(), number(inputs.beta.all()))?;
    let written = pass.of_two(launch::mul_matrices, row(inputs.k.all()), row(delta.all()).transposed())?;
    pass.of_two(launch::add_matrices, state.matrices(), written.matrices())
}

/// Each row of each state times a vector `[.., d]`.
fn read(graph: &Graph<'_, '_, '_, '_>, state: &Tensor, by: &Tensor) -> Result<Tensor, EngineError> {
    let (n, d) = (graph.n_states(), graph.d);
    let mut y = graph.pass.tensor(&[n, d])?;
    launch::sum_products(graph.pass.device, y.all_mut(), state.all(), by.all(), [n, d, d])?;
    Ok(y)
}
