//! The recurrence of the delta net as llama.cpp's graph of plain operators.
//!
//! Names, shapes and their order are those of the cpu engine (ops/gated_delta_net), which mirrors llama.cpp's graph. There q and k are
//! repeated to the heads of v in front of it. What a tensor shows that another one has is seen as a view.

mod autoregressive;
mod chunked;
mod matrices;

use super::{Pass, Tensor, launch};
use crate::engine::EngineError;
use crate::engine::route::Route;

/// What the recurrence reads. Of each sequence there are equally many tokens.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// Normalised, `[n_seqs, n_tokens, n_v, d]`: repeated to the heads of v. (One operator reads the n_k heads that there are.)
    pub(super) q: &'a Tensor,
    /// As q.
    pub(super) k: &'a Tensor,
    /// `[n_seqs, n_tokens, n_v, d]`
    pub(super) v: &'a Tensor,
    /// The log decay, `[n_seqs, n_tokens, n_v]`.
    pub(super) gate: &'a Tensor,
    /// `[n_seqs, n_tokens, n_v, 1]`
    pub(super) beta: &'a Tensor,
}

/// A graph that is being computed: tensors go where all of its layer go.
struct Graph<'p, 'a, 'm, 't> {
    pass: &'p mut Pass<'a, 'm, 't>,
    layer: Option<usize>,
    n_seqs: usize,
    /// Tokens of each sequence.
    n_tokens: usize,
    n_v: usize,
    /// Size of a head.
    d: usize,
}

/// Outputs `[n_seqs, n_tokens, n_v, d]` and the states behind, from those in front `[n_seqs, n_v, d_v, d_k]`.
pub(super) fn recur(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    route: Route,
    inputs: Inputs<'_>,
    before: Tensor,
) -> Result<(Tensor, Tensor), EngineError> {
    let layer = Some(il);
    let &[n_seqs, n_tokens, n_v, d] = &inputs.v.shape[..] else { unreachable!("v is by head") };
    pass.observe("g_in", layer, &[n_seqs, n_tokens, n_v, 1], |device| Ok(device.read(inputs.gate.all())?))?;
    let mut graph = Graph { pass, layer, n_seqs, n_tokens, n_v, d };
    match route {
        Route::Autoregressive => autoregressive::recur(&mut graph, inputs, before),
        Route::Chunked => chunked::recur(&mut graph, inputs, before),
        Route::Fused => unreachable!("that is one operator"),
    }
}

/// `x` `[.., n_k, d]` with the heads that the heads of v read: `[.., n_v, d]`, head h that of h modulo n_k.
pub(super) fn repeated(pass: &Pass<'_, '_, '_>, x: &Tensor, n_v: usize) -> Result<Tensor, EngineError> {
    let &[n_seqs, n_tokens, n_k, d] = &x.shape[..] else { unreachable!("q and k are by head") };
    let rows: Vec<i32> = (0..n_seqs * n_tokens)
        .flat_map(|token| (0..n_v).map(move |head| (token * n_k + head % n_k) as i32))
        .collect();
    let rows = pass.device.upload(&rows)?;
    let mut repeated = pass.tensor(&[n_seqs, n_tokens, n_v, d])?;
    launch::gather_rows(pass.device, repeated.all_mut(), x.all(), rows.all(), d)?;
    Ok(repeated)
}

impl Graph<'_, '_, '_, '_> {
    /// States: one for each head of v of each sequence.
    fn n_states(&self) -> usize {
        self.n_seqs * self.n_v
    }

    /// What q is multiplied with.
    fn scale(&self) -> f32 {
        (1.0 / (self.d as f64).sqrt()) as f32
    }

    /// Shows a tensor to the tap; returns it, or what the tap put in its place.
    fn step(&mut self, name: &str, tensor: Tensor) -> Result<Tensor, EngineError> {
        self.pass.emit(name, self.layer, tensor)
    }

    /// Shows a view that has the values of a tensor, in another shape.
    fn view(&mut self, name: &str, shape: &[usize], tensor: &Tensor) -> Result<(), EngineError> {
        self.pass.observe(name, self.layer, shape, |device| Ok(device.read(tensor.all())?))
    }
}
