//! The same operators in few launches: what lies between two tensors of the residual stream, where nobody looks at it.
//!
//! Each function returns none, and has done nothing, if the tap wants a tensor that would be skipped, or something is asked for that only
//! the plain kernels do. Rounding is the same in both ways but for attention, which adds up in another order here.

use std::collections::BTreeMap;

use super::input::Needs;
use super::recurrence::{gathered, scatter};
use super::{Pass, Tensor, Tokens, launch};
use crate::engine::gpu::GpuError;
use crate::engine::gpu::state::{DeltaNetStates, KvCache, Sizes};
use crate::engine::gpu::weights::{AttentionWeights, DeltaNetWeights, LayerWeights, Mixer, Weight};
use crate::engine::{ActivationMode, DeltaNetRoute, EngineError, HeadMap, Numerics, OutputRows, QkL2Norm};
use crate::model::Hparams;

/// Tokens of a sequence up to which attention goes over the keys for each of them alone.
const SINGLE_TOKENS: usize = 8;

/// Whether there are kernels for attention in one pass over these heads and caches.
fn attends_in_one_pass(h: &Hparams, numerics: &Numerics) -> bool {
    let fits = launch::FlashShape::fits(h.n_head, h.n_head_kv, h.n_embd_head);
    fits && numerics.type_k == numerics.type_v
}

/// Whether a layer runs in few launches where nobody looks on. The many of other layers work in memory that is made on the way: they
/// cannot be recorded.
pub(in crate::engine::gpu) fn takes(layer: &LayerWeights, h: &Hparams, numerics: &Numerics) -> bool {
    let share = |weights: &[&Weight]| Needs::of(weights).is_some();
    let mixer = match &layer.mixer {
        Mixer::Attention(own) => share(&[&own.q, &own.k, &own.v]) && attends_in_one_pass(h, numerics),
        Mixer::DeltaNet(own) => share(&[&own.qkv, &own.gate, &own.alpha, &own.beta]),
    };
    mixer && share(&[&layer.ffn_gate, &layer.ffn_up])
}

impl Pass<'_, '_, '_> {
    /// Whether tensors with these names, the next of a layer, can be left out.
    fn can_skip(&self, names: &[&str], layer: Option<usize>) -> bool {
        let is_rounded_here =
            matches!(self.numerics.activations, ActivationMode::Whole | ActivationMode::Mmvq);
        is_rounded_here && !self.emitter.wants_any(names, layer)
    }
}

/// `attn_residual` of a layer with a delta net.
pub(super) fn delta_net(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    (layer_weights, weights): (&LayerWeights, &DeltaNetWeights),
    residual: &Tensor,
    states: &mut DeltaNetStates,
    sizes: Sizes,
    tokens: &Tokens,
) -> Result<Option<Tensor>, EngineError> {
    let layer = Some(il);
    let dialect = pass.numerics.dialect;
    let (n_seqs, n_tokens) = (tokens.slots.len(), tokens.of_sequence());
    let mut before = vec!["norm", "attn_norm", "linear_attn_qkv_mixed", "z", "beta"];
    before.extend(dialect.beta_sigmoid);
    before.extend(["alpha", "a_softplus", "gate", "conv_states", "conv_states_reshaped"]);
    before.extend(["qkv_mixed_transposed", "conv_input", dialect.conv_state_last]);
    before.extend(["conv_output_raw", "conv_output_silu", "q_conv", "k_conv", "q_conv_predelta"]);
    before.extend(["k_conv_predelta", "v_conv_predelta", "state_predelta"]);
    before.extend(dialect.gated_delta_net.map(|names| names.of(n_tokens)));
    let behind = ["attn_output", "norm", "final_output", "linear_attn_out"];
    let all: Vec<&str> = before.iter().chain(&behind).copied().collect();
    let inputs = [&weights.qkv, &weights.gate, &weights.alpha, &weights.beta];
    let (Some(needs), Some(out_needs)) = (Needs::of(&inputs), Needs::of(&[&weights.out])) else {
        return Ok(None);
    };
    // With earlier states kept, tokens go one by one; out of plain operators, each runs by itself.
    let is_plain = pass.memory.n_rs_seq > 0 || pass.numerics.delta_net == DeltaNetRoute::Unfused;
    if is_plain || !pass.can_skip(&all, layer) {
        return Ok(None);
    }
    pass.emitter.skip(&before, layer);
    let h = pass.hparams();
    let (n_k, n_v, d) = (h.ssm_n_group, h.ssm_dt_rank, h.ssm_d_state);
    let inner = h.ssm_d_inner;
    let device = pass.device;
    let scale = (1.0 / (d as f64).sqrt()) as f32;
    let shape = launch::DeltaShape { n_seqs, n_tokens, n_k, n_v, d, head_map: HeadMap::Interleaved, scale };
    let x = pass.normed(residual, &layer_weights.attn_norm, &needs)?;
    let [qkv, z, alpha, beta] = pass.products(inputs, &x)?;
    let mut o = pass.tensor(&[n_seqs * n_tokens, inner])?;
    if n_tokens == 1 {
        step(pass, weights, [&qkv, &alpha, &beta], &mut o, states, tokens, &shape)?;
    } else {
        many_steps(pass, weights, [&qkv, &alpha, &beta], &mut o, states, tokens, &shape)?;
    }
    if pass.emitter.wants_any(&["new_state"], layer) {
        let state = sizes.s;
        let slots = || tokens.slots.iter().map(|slots| slots.before.s);
        let after = gathered(pass, &states.s, state, slots())?.shaped(&[n_seqs, n_v, d, d]);
        let after = pass.emit("new_state", layer, after)?;
        scatter(device, &mut states.s, state, slots(), &after)?;
    } else {
        pass.emitter.skip(&["new_state"], layer);
    }
    pass.emitter.skip(&behind, layer);
    let rows = n_seqs * n_tokens;
    let (norm, eps, both) = (weights.norm.all(), pass.eps(), [o.all(), z.all()]);
    let gated = pass.input(
        &o.shape,
        &out_needs,
        |fold| launch::gated_norm_fold_fits(d, fold),
        |to, fold| launch::gated_norm_fold(device, to, both, norm, [rows, inner], eps, fold),
        |to| launch::gated_norm(device, to, both, norm, [rows * n_v, d], eps),
    )?;
    pass.product_on(&weights.out, &gated, residual).map(Some)
}

/// One token of each sequence: convolution, norms, gates and recurrence in one launch.
fn step(
    pass: &Pass<'_, '_, '_>,
    weights: &DeltaNetWeights,
    [qkv, alpha, beta]: [&Tensor; 3],
    o: &mut Tensor,
    states: &mut DeltaNetStates,
    tokens: &Tokens,
    shape: &launch::DeltaShape,
) -> Result<(), GpuError> {
    let norm = match pass.qk_l2_norm {
        QkL2Norm::MaxNormEps => launch::HeadNorm::Max(pass.eps()),
        _ => launch::HeadNorm::Inside(f64::from(pass.eps())),
    };
    let to = launch::StepStates {
        states: states.s.all_mut(),
        slots: tokens.slots(),
        conv: states.conv.all_mut(),
        from: tokens.conv_from(),
        to: tokens.conv_to(),
    };
    let inputs = launch::StepInputs {
        qkv: qkv.all(),
        kernel: weights.conv1d.all(),
        alpha: alpha.all(),
        beta: beta.all(),
        dt: weights.dt.all(),
        a: weights.a.all(),
    };
    launch::delta_net_step(pass.device, o.all_mut(), to, &inputs, norm, shape)
}

/// Several tokens of each sequence.
fn many_steps(
    pass: &Pass<'_, '_, '_>,
    weights: &DeltaNetWeights,
    [qkv, alpha, beta]: [&Tensor; 3],
    o: &mut Tensor,
    states: &mut DeltaNetStates,
    tokens: &Tokens,
    shape: &launch::DeltaShape,
) -> Result<(), EngineError> {
    let device = pass.device;
    let h = pass.hparams();
    let &launch::DeltaShape { n_seqs, n_tokens, n_k, n_v, d, .. } = shape;
    let (rows, channels, key) = (n_seqs * n_tokens, h.conv_channels(), n_k * d);
    let mut convolved = pass.tensor(&[rows, channels])?;
    let conv = launch::ConvShape { n_seqs, n_tokens, channels, d_conv: h.ssm_d_conv };
    let (from, to, kernel) = (tokens.conv_from(), tokens.conv_to(), weights.conv1d.all());
    launch::ssm_conv_silu(
        device,
        convolved.all_mut(),
        states.conv.all_mut(),
        from,
        to,
        qkv.all(),
        kernel,
        &conv,
    )?;
    let (mut q, mut k) = (pass.tensor(&[rows, key])?, pass.tensor(&[rows, key])?);
    for (y, at) in [(&mut q, 0), (&mut k, key)] {
        let heads = launch::Heads { tokens: rows, per_token: n_k, n: d, stride: channels };
        let x = convolved.part(at..convolved.len());
        match pass.qk_l2_norm {
            QkL2Norm::MaxNormEps => launch::l2_norm(device, y.all_mut(), x, heads, pass.eps())?,
            _ => launch::l2_norm_inside(device, y.all_mut(), x, heads, f64::from(pass.eps()))?,
        }
    }
    let (mut gate, mut activated) = (pass.tensor(&[rows, n_v])?, pass.tensor(&[rows, n_v])?);
    let from =
        launch::GateInputs { alpha: alpha.all(), beta: beta.all(), dt: weights.dt.all(), a: weights.a.all() };
    launch::gates(device, gate.all_mut(), activated.all_mut(), from)?;
    let heads = [
        launch::DeltaHeads { values: q.all(), stride: key },
        launch::DeltaHeads { values: k.all(), stride: key },
        launch::DeltaHeads { values: convolved.part(2 * key..convolved.len()), stride: channels },
    ];
    let (gate, beta) = (gate.all(), activated.all());
    launch::gated_delta_net(
        device,
        o.all_mut(),
        states.s.all_mut(),
        heads,
        gate,
        beta,
        tokens.slots(),
        shape,
    )?;
    Ok(())
}

/// `attn_residual` of a layer with full attention.
pub(super) fn attention(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    (layer_weights, weights): (&LayerWeights, &AttentionWeights),
    residual: &Tensor,
    caches: &mut BTreeMap<i32, KvCache>,
    tokens: &Tokens,
) -> Result<Option<Tensor>, EngineError> {
    let names = [
        "norm",
        "attn_norm",
        "Qcur_full",
        "Qcur_reshaped",
        "Vcur",
        "Vcur",
        "Kcur",
        "norm",
        "Qcur_normed",
        "Qcur",
        "norm",
        "Kcur_normed",
        "Kcur",
        "kq",
        "kq_soft_max",
        "kqv",
        "attn_pregate",
        "gate_reshaped",
        "gate_sigmoid",
        "attn_gated",
        "attn_output",
    ];
    let inputs = [&weights.q, &weights.k, &weights.v];
    let (Some(needs), Some(out_needs)) = (Needs::of(&inputs), Needs::of(&[&weights.output])) else {
        return Ok(None);
    };
    let h = pass.hparams();
    let (n_head, n_head_kv, head_dim) = (h.n_head, h.n_head_kv, h.n_embd_head);
    if !attends_in_one_pass(h, &pass.numerics) || !pass.can_skip(&names, Some(il)) {
        return Ok(None);
    }
    pass.emitter.skip(&names, Some(il));
    let device = pass.device;
    let n_tokens = tokens.n_tokens;
    let x = pass.normed(residual, &layer_weights.attn_norm, &needs)?;
    let [q_full, k, v] = pass.products(inputs, &x)?;
    let mut q = pass.tensor(&[n_tokens, n_head * head_dim])?;
    let scale = h.f_attention_scale.unwrap_or((1.0 / (head_dim as f64).sqrt()) as f32);
    // The fold that splits of single tokens are combined in front of; what they add up then stays in them, and `attended` unused.
    let combined = out_needs.fold.filter(|fold| {
        let params = pass.weights.fold_params(fold, n_head * head_dim);
        tokens.of_sequence() <= SINGLE_TOKENS && launch::combine_fits(&params)
    });
    let mut splits = Vec::new();
    let mut attended = pass.tensor(&q.shape)?;
    for (placed, stream) in tokens.placement.streams.iter().zip(&tokens.streams) {
        let cache = caches.get_mut(&placed.stream).expect("made when the tokens were placed");
        let rows = |width: usize| stream.tokens.start * width..stream.tokens.end * width;
        let kv_width = n_head_kv * head_dim;
        let inputs = launch::QkvInputs {
            q: q_full.part(stream.tokens.start * 2 * n_head * head_dim..q_full.len()),
            k: k.part(rows(kv_width)),
            v: v.part(rows(kv_width)),
            q_weight: weights.q_norm.all(),
            k_weight: weights.k_norm.all(),
            cells: tokens.cells(stream),
            positions: tokens.positions().part(stream.tokens.clone()),
            table: pass.rope.all(),
        };
        let shape = launch::QkvShape {
            n_tokens: stream.tokens.len(),
            n_head,
            n_head_kv,
            head_dim,
            n_rot: h.n_rot,
            q_stride: 2 * n_head * head_dim,
            q_head_stride: 2 * head_dim,
            kv_stride: kv_width,
        };
        let to = q.part_mut(rows(n_head * head_dim));
        launch::qkv_rope_append(
            device,
            to,
            cache.k.all_mut(),
            cache.v.all_mut(),
            &inputs,
            &shape,
            pass.eps(),
        )?;
        let (n_seqs, n_tokens) = (stream.sequences.len(), tokens.of_sequence());
        let shape = launch::FlashShape { n_seqs, n_tokens, n_head, n_head_kv, head_dim, scale };
        let (y, q) = (attended.part_mut(rows(n_head * head_dim)), q.part(rows(n_head * head_dim)));
        let all = 0..cache.k.len();
        let of = |first| launch::FlashCache {
            k: cache.k.part(all.clone()),
            v: cache.v.part(all.clone()),
            first,
            cells: tokens.list(stream),
        };
        if n_tokens <= SINGLE_TOKENS {
            // As many as the cache has: what is recorded once runs at every position.
            let n_splits = shape.n_splits(device, cache.k.len() / (n_head_kv * head_dim))?;
            let mut scratch = pass.tensor(&[shape.n_scratch(n_splits)])?;
            let (of, n_seen) = (of(tokens.first_of_token(stream)), tokens.n_seen(stream));
            if combined.is_some() {
                let to = &mut scratch.all_mut();
                launch::flash_attn_decode_splits(device, to, q, &of, n_seen, n_splits, &shape)?;
                splits.push((scratch, n_splits, shape));
            } else {
                launch::flash_attn_decode(device, y, scratch.all_mut(), q, &of, n_seen, n_splits, &shape)?;
            }
        } else {
            let (of, n_past) = (of(tokens.first_of_sequence(stream)), tokens.n_past(stream));
            launch::flash_attn_prefill(device, y, q, &of, n_past, &shape)?;
        }
    }
    let width = n_head * head_dim;
    let gated = match combined {
        Some(fold) => pass.with_fold(&q.shape, fold, &out_needs, |mut to, fold| {
            for (stream, (scratch, n_splits, shape)) in tokens.streams.iter().zip(&splits) {
                let rows = |width: usize| stream.tokens.start * width..stream.tokens.end * width;
                let to = launch::Folded {
                    plain: to.plain.as_mut().map(|plain| plain.part_mut(rows(width))),
                    folded: to.folded.part_mut(rows(width)),
                };
                let (splits, gates) = ((scratch.all(), *n_splits), q_full.part(rows(2 * width)));
                launch::attn_combine_fold(device, to, splits, gates, tokens.n_seen(stream), shape, fold)?;
            }
            Ok(())
        })?,
        None => {
            let (x, gates) = (attended.all(), q_full.all());
            pass.input(
                &q.shape,
                &out_needs,
                |fold| launch::sigmoid_gate_fold_fits(head_dim, fold),
                |to, fold| launch::sigmoid_gate_fold(device, to, x, gates, [n_tokens, width, head_dim], fold),
                |to| launch::sigmoid_mul(device, to, x, gates, head_dim),
            )?
        }
    };
    pass.product_on(&weights.output, &gated, residual).map(Some)
}

/// `l_out` of a layer.
pub(super) fn feed_forward(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    weights: &LayerWeights,
    residual: &Tensor,
) -> Result<Option<Tensor>, EngineError> {
    let names = ["norm", "attn_post_norm", "ffn_gate", "ffn_up", "ffn_swiglu", "ffn_out"];
    let inputs = [&weights.ffn_gate, &weights.ffn_up];
    let (Some(needs), Some(out_needs)) = (Needs::of(&inputs), Needs::of(&[&weights.ffn_down])) else {
        return Ok(None);
    };
    if !pass.can_skip(&names, Some(il)) {
        return Ok(None);
    }
    pass.emitter.skip(&names, Some(il));
    let x = pass.normed(residual, &weights.post_attention_norm, &needs)?;
    let [gate, up] = pass.products(inputs, &x)?;
    let [rows, n] = gate.shape[..] else { unreachable!("a product is [n_tokens, n_out]") };
    let product = pass.input(
        &gate.shape,
        &out_needs,
        launch::swiglu_fold_fits,
        |to, fold| launch::swiglu_fold(pass.device, to, gate.all(), up.all(), [rows, n], fold),
        |to| launch::swiglu(pass.device, to, gate.all(), up.all()),
    )?;
    pass.product_on(&weights.ffn_down, &product, residual).map(Some)
}

/// Logits `[wanted, n_vocab]`, not emitted yet.
pub(super) fn head(
    pass: &mut Pass<'_, '_, '_>,
    residual: &Tensor,
    wanted: &[usize],
    tokens: &Tokens,
) -> Result<Option<Tensor>, EngineError> {
    let mut names = vec!["norm"];
    if pass.numerics.dialect.output_rows == OutputRows::BehindLastNorm {
        names.push("h_nextn");
    }
    names.push("result_norm");
    let weights = pass.weights;
    let Some(needs) = Needs::of(&[weights.output()]) else { return Ok(None) };
    // A step without outputs ends in front of the logits, and of their names.
    let is_last = pass.numerics.dialect.output_rows == OutputRows::BehindLastNorm;
    if wanted.is_empty() || !is_last || !pass.can_skip(&names, None) {
        return Ok(None);
    }
    pass.emitter.skip(&names, None);
    let picked;
    let rows = if wanted.len() == tokens.n_tokens {
        residual
    } else {
        picked = pass.pick(residual, tokens)?;
        &picked
    };
    let x = pass.normed(rows, &weights.output_norm, &needs)?;
    let [logits] = pass.products([weights.output()], &x)?;
    Ok(Some(logits))
}
