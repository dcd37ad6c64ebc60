//! Full attention with normalised, rotated q and k, grouped kv heads and a gated output.
//!
//! ```text
//! Qcur_full = Wq x -> per head: query, gate;  Kcur = Wk x;  Vcur = Wv x
//! q, k <- rope(rms_norm(.) w);  p = softmax(scale q k^T), causal;  o = p v
//! out = Wo (o * sigmoid(gate))
//! ```
//! Shapes: q `[n_tokens, n_head, head_dim]`, k and v `[n_tokens, n_head_kv, head_dim]`, kq `[n_streams,
//! n_head, n_tokens of a stream, n_kv]`.
//! Mirrors `build_layer_attn` (models/qwen35.cpp) and `build_attn_mha` without flash attention (llama-graph.cpp).

use std::collections::BTreeMap;

use ndarray::{Array2, Array3, Array4, Axis, s};
use rayon::prelude::*;

use super::Context;
use super::state::KvCache;
use crate::engine::numerics::round_to;
use crate::engine::sequences::Placement;
use crate::engine::{
    AttnGate, Conventions, EngineError, HeadMap, HeadScale, Numerics, QGateSplit, QkNorm, RopeBase, RopeDims,
    StateFault,
};
use crate::model::Hparams;
use crate::ops::{Real, Rope, sigmoid, silu, soft_max_row};

/// The base that `rope_base = 10000` stands for.
const OTHER_ROPE_BASE: f64 = 10_000.0;

/// Runs layer `il` on its normalised input `[n_tokens, n_embd]`; puts keys and values into the caches of their streams.
pub(super) fn run<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    input: Array2<T>,
    caches: &mut BTreeMap<i32, KvCache<T>>,
    placement: &Placement,
    positions: &[i64],
) -> Result<Array2<T>, EngineError> {
    let layer = Some(il);
    let weight = |name: &str| format!("blk.{il}.{name}.weight");
    let (n_head, n_head_kv, head_dim) = {
        let h = context.hparams();
        (h.n_head, h.n_head_kv, h.n_embd_head)
    };
    let n_tokens = input.nrows();
    let names = [weight("attn_q"), weight("attn_k"), weight("attn_v")];
    let like = context.rounds_like()?;
    let [q_full, k, v] =
        context.projector.mul_mats(names.each_ref().map(String::as_str), &input, like.as_deref())?;
    let q_full = context.emitter.emit("Qcur_full", layer, q_full)?;
    let (q, gate) = split_query_and_gate(&q_full, n_head, head_dim, context.conventions.qgate_split);
    context.emitter.observe("Qcur_reshaped", layer, q.view())?;
    let Numerics { type_k, type_v, .. } = context.numerics;
    let v = context.emitter.emit("Vcur", layer, v)?;
    let v_like = context.rounds_like_in(type_v)?;
    context.emitter.observe(
        "Vcur",
        layer,
        v.view().into_shape_with_order((n_tokens, n_head_kv, head_dim)).expect("packed"),
    )?;
    let k = context.emitter.emit("Kcur", layer, k)?;
    let k = k.into_shape_with_order((n_tokens, n_head_kv, head_dim)).expect("packed");

    let mut q = normed_and_rotated(context, il, "Qcur", &weight("attn_q_norm"), q, positions)?;
    let q_like = context.rounds_like_in(type_k)?;
    let k = normed_and_rotated(context, il, "Kcur", &weight("attn_k_norm"), k, positions)?;
    let k_like = context.rounds_like_in(type_k)?;
    let mut k = k.into_shape_with_order((n_tokens, n_head_kv * head_dim)).expect("packed");
    let mut v = v;
    round_to(type_k, k.as_slice_mut().expect("packed"), k_like.as_deref());
    round_to(type_v, v.as_slice_mut().expect("packed"), v_like.as_deref());
    let cells =
        placement.streams.iter().flat_map(|placed| placed.cells.iter().map(|&at| (placed.stream, at)));
    for (t, (stream, cell)) in cells.enumerate() {
        let cache = caches.get_mut(&stream).expect("made when the tokens were placed");
        cache.k.row_mut(cell).assign(&k.row(t));
        cache.v.row_mut(cell).assign(&v.row(t));
    }
    // A product with keys rounds its other factor to their type.
    round_to(type_k, q.as_slice_mut().expect("packed"), q_like.as_deref());

    let attended = attend(context, il, &q, caches, placement)?;
    let gate = context.emitter.emit("gate_reshaped", layer, gate)?;
    let activated = gate.mapv(match context.conventions.attn_gate {
        AttnGate::Sigmoid | AttnGate::AfterOutput => sigmoid,
        // llama.cpp has no such gate, and so no order of operations for it.
        AttnGate::Silu => silu,
        AttnGate::Absent => |_| T::ONE,
    });
    let activated = context.emitter.emit("gate_sigmoid", layer, activated)?;
    let (gated, behind) = match context.conventions.attn_gate {
        AttnGate::AfterOutput => (attended, Some(activated)),
        _ => (attended * activated, None),
    };
    let gated = context.emitter.emit("attn_gated", layer, gated)?;
    let like = context.rounds_like()?;
    let mut out = context.projector.mul_mat(&weight("attn_output"), &gated, like.as_deref())?;
    if let Some(activated) = behind {
        out = out * activated;
    }
    context.emitter.emit("attn_output", layer, out)
}

/// Checks that attention can be run with these conventions.
///
/// # Errors
/// If a gate as wide as the heads is to multiply an output of another width.
pub(super) fn check(hparams: &Hparams, conventions: &Conventions) -> Result<(), EngineError> {
    let (heads, n_embd) = (hparams.n_embd_q(), hparams.n_embd);
    if conventions.attn_gate == AttnGate::AfterOutput && heads != n_embd {
        let candidate = "after_output".to_owned();
        let why =
            format!("the gate has n_head * n_embd_head = {heads} elements, the output n_embd = {n_embd}");
        return Err(EngineError::Convention { name: "attn_gate", candidate, why });
    }
    Ok(())
}

/// `[n_tokens, 2 n_head head_dim]` to queries `[n_tokens, n_head, head_dim]` and gates `[n_tokens, n_head head_dim]`.
fn split_query_and_gate<T: Real>(
    full: &Array2<T>,
    n_head: usize,
    head_dim: usize,
    split: QGateSplit,
) -> (Array3<T>, Array2<T>) {
    let n_tokens = full.nrows();
    let (query_at, gate_at, stride) = match split {
        QGateSplit::PerHead => (0, head_dim, 2 * head_dim),
        QGateSplit::Halves => (0, n_head * head_dim, head_dim),
    };
    let take = |at: usize| {
        Array3::from_shape_fn((n_tokens, n_head, head_dim), |(t, head, i)| full[[t, at + head * stride + i]])
    };
    let gate = take(gate_at).into_shape_with_order((n_tokens, n_head * head_dim)).expect("packed");
    (take(query_at), gate)
}

/// Norm and rotation of q or k, emitted as `norm-il`, `<name>_normed-il` and `<name>-il`.
fn normed_and_rotated<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    name: &str,
    norm_weight: &str,
    mut x: Array3<T>,
    positions: &[i64],
) -> Result<Array3<T>, EngineError> {
    let rope = rope(context.hparams(), context.conventions);
    // On text the three channels that count hold the position; llama.cpp sets the fourth to 0.
    let late = i64::from(context.fault == Some(StateFault::PositionAfterBoundary) && positions[0] > 0);
    let positions: Vec<[i64; 4]> = positions.iter().map(|&p| p + late).map(|p| [p, p, p, 0]).collect();
    let normed = format!("{name}_normed");
    match context.conventions.qk_norm {
        QkNorm::BeforeRotation => {
            x = context.norm(il, norm_weight, &normed, x)?;
            rope.rotate(x.view_mut(), &positions);
        }
        QkNorm::AfterRotation => {
            rope.rotate(x.view_mut(), &positions);
            x = context.norm(il, norm_weight, &normed, x)?;
        }
        QkNorm::Absent => {
            context.emitter.observe("norm", Some(il), x.view())?;
            x = context.emitter.emit(&normed, Some(il), x)?;
            rope.rotate(x.view_mut(), &positions);
        }
    }
    context.emitter.emit(name, Some(il), x)
}

fn rope(hparams: &Hparams, conventions: &Conventions) -> Rope {
    Rope {
        n_dims: match conventions.rope_dims {
            RopeDims::FromFile => hparams.n_rot,
            RopeDims::WholeHead => hparams.n_embd_head,
        },
        freq_base: match conventions.rope_base {
            RopeBase::FromFile => f64::from(hparams.rope_freq_base),
            RopeBase::TenThousand => OTHER_ROPE_BASE,
        },
        sections: hparams.rope_sections,
        layout: conventions.rope_sections,
        pairing: conventions.rope_pairing,
    }
}

/// Scores, softmax and weighted values over all cells of each stream: `[n_tokens, n_head head_dim]`.
fn attend<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    q: &Array3<T>,
    caches: &BTreeMap<i32, KvCache<T>>,
    placement: &Placement,
) -> Result<Array2<T>, EngineError> {
    let (n_tokens, n_head, head_dim) = q.dim();
    let n_head_kv = context.hparams().n_head_kv;
    let kv_head = |head: usize| match context.conventions.attn_head_map {
        HeadMap::Blocked => head / (n_head / n_head_kv),
        HeadMap::Interleaved => head % n_head_kv,
    };
    let scale = match context.hparams().f_attention_scale {
        Some(scale) => T::from_f32(scale),
        None => head_scale(context.conventions.attn_scale, head_dim),
    };
    let streams = &placement.streams;
    let per_stream = n_tokens / streams.len();
    let cache = |stream: usize| &caches[&streams[stream].stream];

    let of_scores = context.product(context.numerics.type_k, placement.n_kv, per_stream, per_stream == 1);
    let mut kq = Array4::from_elem((streams.len(), n_head, per_stream, placement.n_kv), T::ZERO);
    for (stream, mut kq) in kq.axis_iter_mut(Axis(0)).enumerate() {
        let keys = &cache(stream).k;
        kq.axis_iter_mut(Axis(0)).into_par_iter().enumerate().for_each(|(head, mut scores)| {
            for ((t, cell), score) in scores.indexed_iter_mut() {
                let query = q.slice(s![stream * per_stream + t, head, ..]);
                let query = query.to_slice().expect("packed");
                *score = T::product(of_scores, head_row(keys, cell, kv_head(head), head_dim), query);
            }
        });
    }
    let mut kq = context.emitter.emit("kq", Some(il), kq)?;
    for (placed, mut kq) in streams.iter().zip(kq.axis_iter_mut(Axis(0))) {
        let mut visible = Array2::from_elem((per_stream, placement.n_kv), false);
        for (mut row, seen) in visible.outer_iter_mut().zip(&placed.seen) {
            seen.iter().for_each(|&cell| row[cell] = true);
        }
        kq.axis_iter_mut(Axis(0)).into_par_iter().for_each(|mut scores| {
            for (t, row) in scores.outer_iter_mut().enumerate() {
                let row = row.into_slice().expect("packed");
                soft_max_row(row, scale, |cell| visible[[t, cell]]);
            }
        });
    }
    let mut probabilities = context.emitter.emit("kq_soft_max", Some(il), kq)?;
    let type_v = context.numerics.type_v;
    let like = context.rounds_like_in(type_v)?;
    round_to(type_v, probabilities.as_slice_mut().expect("packed"), like.as_deref());
    let of_values = context.product(type_v, head_dim, per_stream, true);
    let mut kqv = Array4::from_elem((streams.len(), n_head, per_stream, head_dim), T::ZERO);
    for (stream, mut kqv) in kqv.axis_iter_mut(Axis(0)).enumerate() {
        let values = &cache(stream).v;
        kqv.axis_iter_mut(Axis(0)).into_par_iter().enumerate().for_each(|(head, mut out)| {
            for (t, mut row) in out.outer_iter_mut().enumerate() {
                let weights = probabilities.slice(s![stream, head, t, ..]);
                let weights = weights.to_slice().expect("packed");
                let value = |cell: usize| head_row(values, cell, kv_head(head), head_dim);
                let sum = row.as_slice_mut().expect("packed");
                T::weighted_sum(of_values, weights, &streams[stream].seen[t], value, sum);
            }
        });
    }
    let kqv = context.emitter.emit("kqv", Some(il), kqv)?;
    let merged = kqv.permuted_axes([0, 2, 1, 3]).as_standard_layout().into_owned();
    let merged = merged.into_shape_with_order((n_tokens, n_head * head_dim)).expect("packed");
    context.emitter.emit("attn_pregate", Some(il), merged)
}

/// The key or value of one kv head in one cell.
fn head_row<T: Real>(rows: &Array2<T>, cell: usize, head: usize, head_dim: usize) -> &[T] {
    let at = cell * rows.ncols() + head * head_dim;
    &rows.as_slice().expect("a cache is packed")[at..at + head_dim]
}

/// The factor that a candidate stands for.
pub(super) fn head_scale<T: Real>(scale: HeadScale, head_dim: usize) -> T {
    match scale {
        HeadScale::InverseSqrt => T::inverse_sqrt(head_dim),
        HeadScale::Inverse => T::from_f64(1.0 / head_dim as f64),
        HeadScale::One => T::ONE,
    }
}
