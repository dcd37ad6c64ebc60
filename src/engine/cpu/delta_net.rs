//! The gated delta net: projections, causal convolution, recurrence, gated norm, output projection.
//!
//! ```text
//! qkv = Wqkv x;  z = Wz x;  beta = sigmoid(Wb x);  gate = a softplus(Wa x + dt)       (gate is the log decay)
//! q, k, v = split(silu(conv(qkv)));  q, k <- l2 norm per head
//! o, S = gated_delta_net(q, k, v, gate, beta, S)
//! out = Wo (rms_norm(o) w * silu(z))
//! ```
//! Mirrors `build_layer_attn_linear` (models/qwen35.cpp), `build_conv_state` and `build_recurrent_attn`
//! (models/delta-net-base.cpp).

use ndarray::{Array2, Array3, ArrayView2, Axis, concatenate, s};

use super::attention::head_scale;
use super::state::DeltaNetState;
use super::{Context, scale_rows};
use crate::engine::{
    Activation, ConvWindow, Conventions, DecayForm, EngineError, Gates, HeadMap, NormScope, QkL2Norm,
    QkvOrder, SsmNormEps, SsmNormGate, StateLayout,
};
use crate::ops::{DeltaGates, Real, gated_delta_net, l2_norm, rms_norm, sigmoid, silu, softplus, ssm_conv};

/// Runs layer `il` on its normalised input `[n_tokens, n_embd]`; moves its state on.
pub(super) fn run<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    input: Array2<T>,
    state: &mut DeltaNetState<T>,
) -> Result<Array2<T>, EngineError> {
    let layer = Some(il);
    let names =
        ["attn_qkv", "attn_gate", "ssm_alpha", "ssm_beta"].map(|name| format!("blk.{il}.{name}.weight"));
    let like = context.rounds_like()?;
    let [qkv, z, alpha, beta] =
        context.projector.mul_mats(names.each_ref().map(String::as_str), &input, like.as_deref())?;
    let qkv = context.emitter.emit("linear_attn_qkv_mixed", layer, qkv)?;
    let z = context.emitter.emit("z", layer, z)?;
    let (gate, beta) = gates(context, il, alpha, beta)?;
    let convolved = convolve(context, il, qkv, &mut state.conv)?;
    let [q, k, v] = split(context, il, &convolved)?;
    let o = recur(context, il, [&q, &k, &v], (&gate, &beta), &mut state.s)?;
    let gated = gated_norm(context, il, o, z)?;
    let gated = context.emitter.emit("final_output", layer, gated)?;
    let like = context.rounds_like()?;
    let out = context.projector.mul_mat(&format!("blk.{il}.ssm_out.weight"), &gated, like.as_deref())?;
    context.emitter.emit("linear_attn_out", layer, out)
}

/// Log decay and beta, `[n_tokens, n_v]` each.
fn gates<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    alpha: Array2<T>,
    beta: Array2<T>,
) -> Result<(Array2<T>, Array2<T>), EngineError> {
    let layer = Some(il);
    let conventions = context.conventions;
    // llama.cpp names beta with a leading extent of 1.
    let beta = context.emitter.emit("beta", layer, beta.insert_axis(Axis(2)))?;
    let beta = if conventions.gates == Gates::RawBeta { beta } else { beta.mapv_into(sigmoid) };
    let beta = context.emitter.emit("beta_sigmoid", layer, beta)?.remove_axis(Axis(2));
    let mut alpha = context.emitter.emit("alpha", layer, alpha)?;
    let bias = context.vector::<T>(&format!("blk.{il}.ssm_dt.bias"))?;
    let a = context.vector::<T>(&format!("blk.{il}.ssm_a"))?;
    let raw = alpha.clone();
    for mut row in alpha.rows_mut() {
        row.iter_mut().zip(&bias).for_each(|(alpha, &bias)| *alpha = softplus(*alpha + bias));
    }
    let mut gate = context.emitter.emit("a_softplus", layer, alpha)?;
    scale_rows(&mut gate, &a);
    if conventions.gates == Gates::RawAlpha {
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

/// Causal convolution with the state's columns in front, and its activation: `[n_tokens, channels]`.
fn convolve<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    qkv: Array2<T>,
    conv_state: &mut Array2<T>, // [channels, d_conv - 1]
) -> Result<Array2<T>, EngineError> {
    let layer = Some(il);
    let (channels, n_past) = conv_state.dim();
    let flat = conv_state.view().into_shape_with_order(channels * n_past).expect("a state is packed");
    let flat = context.emitter.emit("conv_states", layer, flat.to_owned())?;
    *conv_state = flat.into_shape_with_order((channels, n_past)).expect("packed");
    context.emitter.observe("conv_states_reshaped", layer, conv_state.view())?;
    context.emitter.observe("qkv_mixed_transposed", layer, qkv.t())?;
    let window: [ArrayView2<'_, T>; 2] = match context.conventions.conv_window {
        ConvWindow::CurrentLast => [conv_state.view(), qkv.t()],
        ConvWindow::CurrentFirst => [qkv.t(), conv_state.view()],
    };
    let window = concatenate(Axis(1), &window).expect("equal channels").as_standard_layout().into_owned();
    let window = context.emitter.emit("conv_input", layer, window)?; // [channels, d_conv - 1 + n_tokens]
    let last = match context.conventions.conv_window {
        ConvWindow::CurrentLast => window.slice(s![.., window.ncols() - n_past..]),
        ConvWindow::CurrentFirst => window.slice(s![.., ..n_past]),
    };
    context.emitter.observe("conv_state_last", layer, last)?;
    conv_state.assign(&last);
    let kernel = context.vector::<T>(&format!("blk.{il}.ssm_conv1d.weight"))?;
    let kernel =
        ArrayView2::from_shape((channels, n_past + 1), &kernel).expect("the shape was checked on loading");
    let raw = ssm_conv(window.t(), kernel, context.conventions.conv_kernel_order);
    let raw = context.emitter.emit("conv_output_raw", layer, raw)?;
    let activated = raw.mapv_into(match context.conventions.conv_activation {
        Activation::Silu => silu,
        Activation::Sigmoid => sigmoid,
        Activation::Absent => |x| x,
    });
    context.emitter.emit("conv_output_silu", layer, activated)
}

type Heads<T> = Array3<T>; // [n_tokens, n_head, d]

/// q, k and v by head, q and k normalised.
fn split<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    convolved: &Array2<T>,
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
        let channels = convolved.slice(s![.., at..at + n_head * d]).as_standard_layout().into_owned();
        channels.into_shape_with_order((convolved.nrows(), n_head, d)).expect("packed")
    };
    let (mut q, mut k, v) = (heads(q_at, n_k), heads(k_at, n_k), heads(v_at, n_v));
    let eps = context.eps();
    for (name, x) in [("q_conv", &mut q), ("k_conv", &mut k)] {
        context.emitter.observe(name, layer, x.view())?;
        match context.conventions.qk_l2_norm {
            // ggml computes it as rms_norm(x, eps / d) / sqrt(d), which is x / sqrt(sum x^2 + eps).
            QkL2Norm::EpsInside => {
                rms_norm(x, eps / d as f64);
                let scale = T::from_f64(1.0 / (d as f64).sqrt());
                x.mapv_inplace(|value| value * scale);
            }
            QkL2Norm::MaxNormEps => l2_norm(x, eps),
            QkL2Norm::Absent => {}
        }
    }
    let q = context.emitter.emit("q_conv_predelta", layer, q)?;
    let k = context.emitter.emit("k_conv_predelta", layer, k)?;
    context.emitter.observe("v_conv_predelta", layer, v.view())?;
    Ok([q, k, v])
}

/// The recurrence over all tokens, emitted with the state before and after.
fn recur<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    [q, k, v]: [&Heads<T>; 3],
    (gate, beta): (&Array2<T>, &Array2<T>),
    state: &mut Array3<T>, // [n_v, d_v, d_k]
) -> Result<Heads<T>, EngineError> {
    let layer = Some(il);
    let conventions: &Conventions = context.conventions;
    // The states are the largest tensors of a layer: they are handed on, not copied. If the tap fails on the way, the
    // engine refuses until it is reset.
    let take = |state: &mut Array3<T>| std::mem::replace(state, Array3::from_elem((0, 0, 0), T::ZERO));
    let stored = |state: Array3<T>| match conventions.state_layout {
        StateLayout::VMajor => state,
        StateLayout::KMajor => state.permuted_axes([0, 2, 1]).as_standard_layout().into_owned(),
    };
    *state = stored(context.emitter.emit("state_predelta", layer, stored(take(state)))?);
    let (n_k, n_v, d) = (q.dim().1, v.dim().1, v.dim().2);
    let k_head = |head: usize| match conventions.gdn_head_map {
        HeadMap::Interleaved => head % n_k,
        HeadMap::Blocked => head / (n_v / n_k),
    };
    let o = gated_delta_net(
        q.view(),
        k.view(),
        v.view(),
        DeltaGates { log_decay: gate.view(), beta: beta.view() },
        state.view_mut(),
        k_head,
        T::from_f64(head_scale(conventions.gdn_scale, d)),
        (conventions.update_rule, conventions.update_order),
    );
    *state = stored(context.emitter.emit("new_state", layer, stored(take(state)))?);
    context.emitter.emit("attn_output", layer, o)
}

/// `rms_norm(o) w * silu(z)`: `[n_tokens, d_inner]`.
fn gated_norm<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    mut o: Heads<T>,
    z: Array2<T>,
) -> Result<Array2<T>, EngineError> {
    let conventions = context.conventions;
    let (n_tokens, n_v, d) = o.dim();
    let by_head = |x: Array2<T>| x.into_shape_with_order((n_tokens, n_v, d)).expect("packed");
    let z = by_head(z).mapv_into(match conventions.ssm_norm_gate {
        SsmNormGate::NormThenSigmoid => sigmoid,
        SsmNormGate::NormThenSilu | SsmNormGate::GateFirst => silu,
    });
    if conventions.ssm_norm_gate == SsmNormGate::GateFirst {
        o = o * &z;
    }
    let eps = match conventions.ssm_norm_eps {
        SsmNormEps::Plain => context.eps(),
        SsmNormEps::TimesHeadDim => context.eps() * d as f64,
    };
    match conventions.ssm_norm_scope {
        NormScope::PerHead => rms_norm(&mut o, eps),
        NormScope::Global => {
            let mut rows = o.into_shape_with_order((n_tokens, n_v * d)).expect("packed");
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
    Ok(o.into_shape_with_order((n_tokens, n_v * d)).expect("packed"))
}
