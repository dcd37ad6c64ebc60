//! The recurrence as llama.cpp's graph of plain operators, and the names that tensors around it then have.
//!
//! llama.cpp repeats q and k to the heads of v in front of it (models/qwen35.cpp), and names its inputs once more: what is a tensor of
//! its own there, and was `beta_sigmoid` or `k_conv_predelta`, has only the later name in the graph.

use ndarray::{Array3, Array4, ArrayView4, Axis, s};

use super::Heads;
use crate::arithmetic::{Ggml, Product, Shape};
use crate::engine::cpu::Context;
use crate::engine::cpu::attention::head_scale;
use crate::engine::route::Route;
use crate::engine::{Emitter, EngineError, StateFault};
use crate::ops::{
    DELTA_CHUNK, DecayOrder, DeltaInputs, DeltaRule, DeltaSteps, Real, delta_net_autoregressive,
    delta_net_chunked,
};
use crate::tensor::GgmlType;

/// Tensors of the graph go where all of the layer go, and mistakes are made on the way.
struct Emitted<'e, 't, T> {
    emitter: &'e mut Emitter<'t>,
    layer: Option<usize>,
    fault: Option<StateFault>,
    n_tokens: usize,
    /// The state in front of the chunk that is computed.
    before: Option<Array4<T>>,
    /// Chunks that have been computed.
    chunks: usize,
    /// The build whose order of operations is followed.
    ggml: Option<Ggml>,
}

impl<T: Real> Emitted<'_, '_, T> {
    /// Tokens of the last chunk.
    fn n_last(&self) -> usize {
        self.n_tokens - (self.n_tokens.div_ceil(DELTA_CHUNK) - 1) * DELTA_CHUNK
    }

    /// Padding decays as the last token does: `g_cs` `[.., n_chunks, 1, DELTA_CHUNK]`.
    fn count_padding(&self, g_cs: &mut Array4<T>) {
        let (n_last, last_chunk) = (self.n_last(), g_cs.dim().1 - 1);
        for mut row in g_cs.slice_mut(s![.., last_chunk, 0, ..]).outer_iter_mut() {
            let before = if n_last > 1 { row[n_last - 2] } else { T::ZERO };
            let decay = row[n_last - 1] - before;
            for token in n_last..DELTA_CHUNK {
                row[token] = row[token - 1] + decay;
            }
        }
    }

    /// What the next chunk reads in place of the state behind the one before it.
    fn stale(&mut self, after: Array4<T>) -> Array4<T> {
        self.chunks += 1;
        if self.chunks * DELTA_CHUNK >= self.n_tokens {
            return after;
        }
        self.before.replace(after.clone()).unwrap_or(after)
    }
}

impl<T: Real> DeltaSteps<T> for Emitted<'_, '_, T> {
    type Error = EngineError;

    fn step(&mut self, name: &'static str, mut values: Array4<T>) -> Result<Array4<T>, EngineError> {
        if (name, self.fault) == ("g_cs", Some(StateFault::PaddingCounted)) {
            self.count_padding(&mut values);
        }
        let values = self.emitter.emit(name, self.layer, values)?;
        Ok(match (name, self.fault) {
            ("dnet_add_ch_state", Some(StateFault::ChunkBoundary)) => self.stale(values),
            _ => values,
        })
    }

    fn product(&self, rows: usize, columns: usize, contiguous: bool) -> Product {
        let shape = Shape { ty: GgmlType::F32, rows, columns, contiguous };
        Product::of(self.ggml, shape)
    }

    fn view(&mut self, name: &'static str, values: ArrayView4<'_, T>) -> Result<(), EngineError> {
        if (name, self.fault) == ("dnet_add_ch_state", Some(StateFault::ChunkBoundary)) {
            self.before = Some(values.to_owned());
        }
        self.emitter.observe(name, self.layer, values)
    }
}

/// Outputs `[n_seqs, n_tokens, n_v, d]` and the states behind, from those in front `[n_seqs, n_v, d_v, d_k]`.
pub(super) fn recur<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    route: Route,
    [q, k, v]: [&Heads<T>; 3],
    (gate, beta): (&Array3<T>, &Array3<T>),
    before: Array4<T>,
) -> Result<(Heads<T>, Array4<T>), EngineError> {
    let rules = (context.conventions.update_rule, context.conventions.update_order);
    if rules != (DeltaRule::Delta, DecayOrder::BeforePrediction) {
        return Err(EngineError::UnfusedRule { got: rules });
    }
    let layer = Some(il);
    context.emitter.observe("g_in", layer, gate.view().insert_axis(Axis(3)))?;
    let inputs =
        DeltaInputs { q: q.view(), k: k.view(), v: v.view(), log_decay: gate.view(), beta: beta.view() };
    let scale = head_scale(context.conventions.gdn_scale, v.dim().3);
    let (fault, n_tokens, ggml) = (context.fault, v.dim().1, context.numerics.ggml);
    let emitter = &mut context.emitter;
    let mut steps = Emitted { emitter, layer, fault, n_tokens, before: None, chunks: 0, ggml };
    if route == Route::Autoregressive {
        return delta_net_autoregressive(&inputs, before, scale, &mut steps);
    }
    let (o, after) = delta_net_chunked(&inputs, before, scale, &mut steps)?;
    // A view of the last `dnet_add_ch_state`.
    context.emitter.observe("new_state", layer, after.view())?;
    Ok((o, after))
}
