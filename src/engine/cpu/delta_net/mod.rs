//! The gated delta net: projections, causal convolution, recurrence, gated norm, output projection.
//!
//! ```text
//! qkv = Wqkv x;  z = Wz x;  beta = sigmoid(Wb x);  gate = a softplus(Wa x + dt)       (gate is the log decay)
//! q, k, v = split(silu(conv(qkv)));  q, k <- l2 norm per head
//! o, S = gated_delta_net(q, k, v, gate, beta, S)
//! out = Wo (rms_norm(o) w * silu(z))
//! ```
//! Each sequence of a ubatch has its own columns and states; the tensors hold all of them side by side, as llama.cpp's do. The
//! recurrence is one operator, or a graph of plain ones with names of its own ([`unfused`]).
//! Mirrors `build_layer_attn_linear` (models/qwen35.cpp), `build_conv_state` and `build_recurrent_attn`
//! (models/delta-net-base.cpp).

mod packed;
mod unfused;

use std::collections::BTreeMap;

use ndarray::{Array2, Array3, Array4, ArrayView2, ArrayView3, Axis, concatenate, s};

use super::attention::head_scale;
use super::state::{DeltaNetState, History, apart, side_by_side};
use super::{Context, scale_rows};
use crate::engine::route::Route;
use crate::engine::{
    Activation, ConvWindow, DecayForm, DeltaNetRoute, EngineError, Gates, HeadMap, NormScope, QkL2Norm,
    QkvOrder, SsmNormEps, SsmNormGate, StateFault, StateLayout,
};
use crate::ops::{
    DecayOrder, DeltaGates, DeltaRule, Real, gated_delta_net, l2_norm, rms_norm, sigmoid, silu_rows,
    softplus, ssm_conv,
};

/// Runs layer `il` on its normalised input `[n_tokens, n_embd]`; moves the states of the ubatch's sequences on.
pub(super) fn run<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    input: Array2<T>,
    states: &mut BTreeMap<i32, DeltaNetState<T>>,
    sequences: &[i32],
) -> Result<Array2<T>, EngineError> {
    let layer = Some(il);
    // If the tap fails on the way, the engine refuses until it is reset: what is taken out here need not come back.
    let zero = || DeltaNetState::zero(context.hparams());
    let taken = sequences.iter().map(|sequence| states.remove(sequence).unwrap_or_else(zero));
    let (mut conv, mut s): (Vec<_>, Vec<_>) = taken.map(|state| (state.conv, state.s)).unzip();
    if context.fault == Some(StateFault::OtherSequence) {
        s.rotate_left(1);
    }
    let names =
        ["attn_qkv", "attn_gate", "ssm_alpha", "ssm_beta"].map(|name| format!("blk.{il}.{name}.weight"));
    let like = context.rounds_like()?;
    let [qkv, z, alpha, beta] =
        context.projector.mul_mats(names.each_ref().map(String::as_str), &input, like.as_deref())?;
    let n_seqs = sequences.len();
    let qkv = context.emitter.emit("linear_attn_qkv_mixed", layer, by_sequence(qkv, n_seqs))?;
    let z = context.emitter.emit("z", layer, z)?;
    let route = Route::of(context.numerics, context.memory, input.nrows() / n_seqs);
    let (gate, beta) = gates(context, il, route, by_sequence(alpha, n_seqs), by_sequence(beta, n_seqs))?;
    let convolved = convolve(context, il, &qkv, &mut conv)?;
    let [q, k, v] = split(context, il, route, &convolved)?;
    let o = recur(context, il, route, [&q, &k, &v], (&gate, &beta), &mut s)?;
    let gated = gated_norm(context, il, o, z)?;
    let gated = context.emitter.emit("final_output", layer, gated)?;
    let like = context.rounds_like()?;
    let gated = flat(gated);
    let name = format!("blk.{il}.ssm_out.weight");
    let out = context.projector.mul_mat_by_sequence(&name, &gated, like.as_deref(), n_seqs)?;
    let out = context.emitter.emit("linear_attn_out", layer, by_sequence(out, n_seqs))?;
    let moved = conv.into_iter().zip(s).map(|(conv, s)| DeltaNetState { conv, s });
    states.extend(sequences.iter().copied().zip(moved));
    Ok(flat(out))
}

/// `[n_seqs * n_tokens, n]` to `[n_seqs, n_tokens, n]`.
fn by_sequence<T: Real>(x: Array2<T>, n_seqs: usize) -> Array3<T> {
    let (n_tokens, n) = x.dim();
    x.into_shape_with_order((n_seqs, n_tokens / n_seqs, n)).expect("packed, and sequences are equally long")
}

/// The other way round.
fn flat<T: Real>(x: Array3<T>) -> Array2<T> {
    let (n_seqs, n_tokens, n) = x.dim();
    x.into_shape_with_order((n_seqs * n_tokens, n)).expect("packed")
}

/// Log decay and beta, `[n_seqs, n_tokens, n_v]` each.
fn gates<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    route: Route,
    alpha: Array3<T>,
    beta: Array3<T>,
) -> Result<(Array3<T>, Array3<T>), EngineError> {
    let layer = Some(il);
    let conventions = context.conventions;
    // llama.cpp names beta with a leading extent of 1.
    let beta = context.emitter.emit("beta", layer, beta.insert_axis(Axis(3)))?;
    let (is_raw_alpha, is_raw_beta) = match conventions.gates {
        Gates::Activated => (false, false),
        Gates::RawAlpha => (true, false),
        Gates::RawBeta => (false, true),
        Gates::Raw => (true, true),
    };
    let beta = if is_raw_beta { beta } else { beta.mapv_into(sigmoid) };
    let beta = match route.beta(context.numerics.dialect) {
        Some(name) => context.emitter.emit(name, layer, beta)?,
        None => beta,
    };
    let beta = beta.remove_axis(Axis(3));
    let mut alpha = context.emitter.emit("alpha", layer, alpha)?;
    let bias = context.vector::<T>(&format!("blk.{il}.ssm_dt.bias"))?;
    let a = context.vector::<T>(&format!("blk.{il}.ssm_a"))?;
    let raw = alpha.clone();
    for mut row in alpha.rows_mut() {
        row.iter_mut().zip(&bias).for_each(|(alpha, &bias)| *alpha = softplus(*alpha + bias));
    }
    let mut gate = context.emitter.emit("a_softplus", layer, alpha)?;
    scale_rows(&mut gate, &a);
    if is_raw_alpha {
        gate = raw;
    }
    if conventions.decay_form == DecayForm::OnePlusGate {
        // The recurrence takes the exponential: hand it the logarithm of the first-order decay, at least a tiny one.
        let least = T::from_f64(f64::from(f32::MIN_POSITIVE));
        gate.mapv_inplace(|g| {
            let decay = T::ONE + g;
            if decay > least { decay.ln() } else { least.ln() }
        });
    }
    let gate = context.emitter.emit("gate", layer, gate)?;
    Ok((gate, beta))
}

/// Causal convolution with each state's columns in front, and its activation: `[n_seqs, n_tokens, channels]`.
fn convolve<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    qkv: &Array3<T>,
    states: &mut [History<Array2<T>>], // [channels, d_conv - 1] each
) -> Result<Array3<T>, EngineError> {
    let layer = Some(il);
    let n_rs_seq = context.memory.n_rs_seq;
    let past = side_by_side(states.iter().map(|state| state.now.clone()).collect());
    let (n_seqs, channels, n_past) = past.dim();
    let n_tokens = qkv.dim().1;
    let rows = past.into_shape_with_order((n_seqs, channels * n_past)).expect("a state is packed");
    let rows = context.emitter.emit("conv_states", layer, rows)?;
    let past = rows.into_shape_with_order((n_seqs, channels, n_past)).expect("packed");
    context.emitter.observe("conv_states_reshaped", layer, past.view())?;
    let new = qkv.view().permuted_axes([0, 2, 1]); // [n_seqs, channels, n_tokens]
    context.emitter.observe("qkv_mixed_transposed", layer, new)?;
    let window: [ArrayView3<'_, T>; 2] = match context.conventions.conv_window {
        ConvWindow::CurrentLast => [past.view(), new],
        ConvWindow::CurrentFirst => [new, past.view()],
    };
    let window = concatenate(Axis(2), &window).expect("equal channels").as_standard_layout().into_owned();
    let window = context.emitter.emit("conv_input", layer, window)?; // [n_seqs, channels, d_conv - 1 + n_tokens]
    // The columns that are left behind once `n` of the tokens have been run.
    let left = |n: usize| match context.conventions.conv_window {
        ConvWindow::CurrentLast => s![.., .., n..n + n_past],
        ConvWindow::CurrentFirst => s![.., .., n_tokens - n..n_tokens - n + n_past],
    };
    // llama.cpp gives this view a name only where it keeps no earlier ones.
    if n_rs_seq == 0 {
        let name = context.numerics.dialect.conv_state_last;
        context.emitter.observe(name, layer, window.slice(left(n_tokens)))?;
    }
    let first_kept = n_tokens.saturating_sub(n_rs_seq);
    for (i, state) in states.iter_mut().enumerate() {
        let columns =
            |n: usize| window.slice(left(n)).index_axis(Axis(0), i).as_standard_layout().into_owned();
        for n in first_kept..n_tokens {
            state.earlier.push_front(columns(n));
        }
        state.earlier.truncate(n_rs_seq);
        let is_late = context.fault == Some(StateFault::ConvColumn);
        state.now = columns(n_tokens - usize::from(is_late));
    }
    let kernel = context.vector::<T>(&format!("blk.{il}.ssm_conv1d.weight"))?;
    let kernel =
        ArrayView2::from_shape((channels, n_past + 1), &kernel).expect("the shape was checked on loading");
    let raw =
        window.outer_iter().map(|window| ssm_conv(window.t(), kernel, context.conventions.conv_kernel_order));
    let raw = context.emitter.emit("conv_output_raw", layer, side_by_side(raw.collect()))?;
    let mut activated = raw;
    match context.conventions.conv_activation {
        Activation::Silu => silu_rows(&mut activated),
        Activation::Sigmoid => activated.mapv_inplace(sigmoid),
        Activation::Absent => {}
    }
    context.emitter.emit("conv_output_silu", layer, activated)
}

type Heads<T> = Array4<T>; // [n_seqs, n_tokens, n_head, d]

/// q, k and v by head, q and k normalised.
fn split<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    route: Route,
    convolved: &Array3<T>,
) -> Result<[Heads<T>; 3], EngineError> {
    let layer = Some(il);
    let h = context.hparams();
    let (n_k, n_v, d) = (h.ssm_n_group, h.ssm_dt_rank, h.ssm_d_state);
    let (key, inner) = (h.ssm_d_key(), h.ssm_d_inner);
    let [q_at, k_at, v_at] = match context.conventions.qkv_split_order {
        QkvOrder::Qkv => [0, key, 2 * key],
        QkvOrder::Kqv => [key, 0, 2 * key],
        QkvOrder::Vkq => [inner + key, inner, 0],
    };
    let heads = |at: usize, n_head: usize| {
        let (n_seqs, n_tokens, _) = convolved.dim();
        let channels = convolved.slice(s![.., .., at..at + n_head * d]).as_standard_layout().into_owned();
        channels.into_shape_with_order((n_seqs, n_tokens, n_head, d)).expect("packed")
    };
    let (mut q, mut k, v) = (heads(q_at, n_k), heads(k_at, n_k), heads(v_at, n_v));
    let eps = context.eps();
    for (name, x) in [("q_conv", &mut q), ("k_conv", &mut k)] {
        context.emitter.observe(name, layer, x.view())?;
        match context.conventions.qk_l2_norm {
            // ggml computes it as rms_norm(x, eps / d) / sqrt(d), which is x / sqrt(sum x^2 + eps).
            QkL2Norm::EpsInside => {
                rms_norm(x, eps / d as f64);
                let scale = T::inverse_sqrt(d);
                x.mapv_inplace(|value| value * scale);
            }
            QkL2Norm::MaxNormEps => l2_norm(x, eps),
            QkL2Norm::Absent => {}
        }
    }
    if context.numerics.delta_net == DeltaNetRoute::Unfused {
        let k_heads: Vec<usize> =
            (0..n_v).map(|head| k_head(context.conventions.gdn_head_map, head, (n_k, n_v))).collect();
        (q, k) = (q.select(Axis(2), &k_heads), k.select(Axis(2), &k_heads));
    }
    let q = context.emitter.emit("q_conv_predelta", layer, q)?;
    let k = context.emitter.emit(route.k(), layer, k)?;
    context.emitter.observe(route.v(), layer, v.view())?;
    Ok([q, k, v])
}

/// The k head that v head `head` of `n_v` reads, of `n_k`.
fn k_head(map: HeadMap, head: usize, (n_k, n_v): (usize, usize)) -> usize {
    match map {
        HeadMap::Interleaved => head % n_k,
        HeadMap::Blocked => head / (n_v / n_k),
    }
}

/// The recurrence over all tokens of each sequence, emitted with the states before and after.
fn recur<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    route: Route,
    [q, k, v]: [&Heads<T>; 3],
    (gate, beta): (&Array3<T>, &Array3<T>),
    states: &mut [History<Array3<T>>], // [n_v, d_v, d_k] each
) -> Result<Heads<T>, EngineError> {
    let layer = Some(il);
    let n_rs_seq = context.memory.n_rs_seq;
    let is_v_major = context.conventions.state_layout == StateLayout::VMajor;
    let stored = |states: Array4<T>| match is_v_major {
        true => states,
        false => states.permuted_axes([0, 1, 3, 2]).as_standard_layout().into_owned(),
    };
    let empty = || Array3::from_elem((0, 0, 0), T::ZERO);
    let taken = states.iter_mut().map(|state| std::mem::replace(&mut state.now, empty())).collect();
    let before = stored(context.emitter.emit("state_predelta", layer, stored(side_by_side(taken)))?);
    if route != Route::Fused {
        let (o, after) = unfused::recur(context, il, route, [q, k, v], (gate, beta), before)?;
        states.iter_mut().zip(apart(after)).for_each(|(state, after)| state.now = after);
        return context.emitter.emit("attn_output", layer, o);
    }
    let mut o = Array4::from_elem(v.raw_dim(), T::ZERO);
    let mut after = Vec::with_capacity(states.len());
    for (i, (mut now, history)) in apart(before).into_iter().zip(states.iter_mut()).enumerate() {
        let mut run = |tokens: std::ops::Range<usize>, state: &mut Array3<T>| {
            let heads = s![i, tokens.clone(), .., ..];
            let gates = s![i, tokens.clone(), ..];
            let gates = DeltaGates { log_decay: gate.slice(gates), beta: beta.slice(gates) };
            let out = recurrence(context, [q.slice(heads), k.slice(heads), v.slice(heads)], gates, state);
            o.slice_mut(heads).assign(&out);
        };
        // The last tokens one by one, where the states between them are kept.
        let n_tokens = v.dim().1;
        let first_kept = n_tokens.saturating_sub(n_rs_seq);
        if first_kept > 0 {
            run(0..first_kept, &mut now);
        }
        for t in first_kept..n_tokens {
            history.earlier.push_front(now.clone());
            run(t..t + 1, &mut now);
        }
        history.earlier.truncate(n_rs_seq);
        after.push(now);
    }
    let mut after = stored(side_by_side(after));
    if n_rs_seq == 0 {
        (o, after) = packed::emit(context, il, o, after)?;
        after = context.emitter.emit("new_state", layer, after)?;
    }
    let after = apart(stored(after));
    states.iter_mut().zip(after).for_each(|(state, after)| state.now = after);
    context.emitter.emit("attn_output", layer, o)
}

/// The recurrence of one sequence: `[n_tokens, n_v, d_v]`.
fn recurrence<T: Real>(
    context: &Context<'_, '_, '_>,
    [q, k, v]: [ArrayView3<'_, T>; 3],
    gates: DeltaGates<'_, T>,
    state: &mut Array3<T>,
) -> Array3<T> {
    let conventions = context.conventions;
    let (n_k, n_v, d) = (q.dim().1, v.dim().1, v.dim().2);
    let k_head = |head| k_head(conventions.gdn_head_map, head, (n_k, n_v));
    let scale = head_scale(conventions.gdn_scale, d);
    gated_delta_net(q, k, v, gates, state.view_mut(), k_head, scale, rules(context))
}

/// What is written into a state, and when it decays.
fn rules(context: &Context<'_, '_, '_>) -> (DeltaRule, DecayOrder) {
    let order = match context.fault {
        Some(StateFault::DecayAfterUpdate) => DecayOrder::AfterUpdate,
        _ => context.conventions.update_order,
    };
    (context.conventions.update_rule, order)
}

/// `rms_norm(o) w * silu(z)`: `[n_seqs, n_tokens, d_inner]`.
fn gated_norm<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    mut o: Heads<T>,
    z: Array2<T>,
) -> Result<Array3<T>, EngineError> {
    let conventions = context.conventions;
    let (n_seqs, n_tokens, n_v, d) = o.dim();
    let by_head = |x: Array2<T>| x.into_shape_with_order((n_seqs, n_tokens, n_v, d)).expect("packed");
    let mut z = by_head(z);
    match conventions.ssm_norm_gate {
        SsmNormGate::NormThenSigmoid => z.mapv_inplace(sigmoid),
        SsmNormGate::NormThenSilu | SsmNormGate::GateFirst => silu_rows(&mut z),
    }
    if conventions.ssm_norm_gate == SsmNormGate::GateFirst {
        o = o * &z;
    }
    let eps = match conventions.ssm_norm_eps {
        SsmNormEps::Plain => context.eps(),
        SsmNormEps::TimesHeadDim => context.eps() * d as f64,
        SsmNormEps::OverHeadDim => context.eps() / d as f64,
    };
    match conventions.ssm_norm_scope {
        NormScope::PerHead => rms_norm(&mut o, eps),
        NormScope::Global => {
            let mut rows = o.into_shape_with_order((n_seqs * n_tokens, n_v * d)).expect("packed");
            rms_norm(&mut rows, eps);
            o = by_head(rows);
        }
    }
    let mut o = context.emitter.emit("norm", Some(il), o)?;
    // This weight is stored without the offset that the other norms' weights may have.
    scale_rows(&mut o, &context.vector::<T>(&format!("blk.{il}.ssm_norm.weight"))?);
    if conventions.ssm_norm_gate != SsmNormGate::GateFirst {
        o = o * &z;
    }
    Ok(o.into_shape_with_order((n_seqs, n_tokens, n_v * d)).expect("packed"))
}
