//! The gated delta net: projections, causal convolution, recurrence, gated norm, output projection.
//!
//! The recurrence is one operator, or a graph of plain ones with names of its own ([`unfused`]). Names, shapes and their order are those
//! of the cpu engine (engine/cpu/delta_net), which mirrors llama.cpp's graph.

use super::recurrence::{gathered, read_slots, recur};
use super::{Pass, Tensor, Tokens, launch, unfused};
use crate::engine::gpu::Buffer;
use crate::engine::gpu::slots::SequenceSlots;
use crate::engine::gpu::state::{DeltaNetStates, Sizes};
use crate::engine::gpu::weights::DeltaNetWeights;
use crate::engine::route::Route;
use crate::engine::{DeltaNetRoute, EngineError, QkL2Norm};

/// Sizes of one step of one layer.
#[derive(Clone, Copy)]
pub(super) struct Dims {
    pub(super) n_seqs: usize,
    /// Tokens of each sequence.
    pub(super) n_tokens: usize,
    pub(super) channels: usize,
    /// Columns that the convolution keeps.
    pub(super) n_past: usize,
    pub(super) n_k: usize,
    pub(super) n_v: usize,
    /// Size of a head.
    pub(super) d: usize,
}

/// Runs layer `il` on its normalised input `[n_seqs n_tokens, n_embd]`; moves the states of the ubatch's sequences on.
pub(super) fn run(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    weights: &DeltaNetWeights,
    input: Tensor,
    states: &mut DeltaNetStates,
    sizes: Sizes,
    tokens: &Tokens,
) -> Result<Tensor, EngineError> {
    let layer = Some(il);
    let h = pass.hparams();
    let n_seqs = tokens.slots.len();
    let dims = Dims {
        n_seqs,
        n_tokens: input.shape[0] / n_seqs,
        channels: h.conv_channels(),
        n_past: h.ssm_d_conv - 1,
        n_k: h.ssm_n_group,
        n_v: h.ssm_dt_rank,
        d: h.ssm_d_state,
    };
    let Dims { n_tokens, channels, n_v, .. } = dims;
    let route = Route::of(pass.numerics, pass.memory, dims.n_tokens);
    let like = pass.rounds_like()?;
    let [qkv, z, alpha, beta] =
        pass.mul_mats([&weights.qkv, &weights.gate, &weights.alpha, &weights.beta], &input, like.as_deref())?;
    let qkv = pass.emit("linear_attn_qkv_mixed", layer, qkv.shaped(&[n_seqs, n_tokens, channels]))?;
    let z = pass.emit("z", layer, z)?;
    let alpha = alpha.shaped(&[n_seqs, n_tokens, n_v]);
    // llama.cpp names beta with a leading extent of 1.
    let beta = beta.shaped(&[n_seqs, n_tokens, n_v, 1]);
    let (gate, beta) = gates(pass, il, route, weights, alpha, beta)?;
    let convolved = convolve(pass, il, weights, &qkv, &mut states.conv, sizes.conv, &tokens.slots, dims)?;
    let [q, k, v] = split(pass, il, route, &convolved, dims)?;
    let inputs = unfused::Inputs { q: &q, k: &k, v: &v, gate: &gate, beta: &beta };
    let o = recur(pass, il, route, inputs, &mut states.s, sizes.s, &tokens.slots, dims)?;
    let normed = pass.rms_norm(&o, dims.d)?;
    let normed = pass.emit("norm", layer, normed)?;
    let weighted = pass.weighted(&weights.norm, normed)?;
    let mut gated = pass.tensor(&[n_seqs, n_tokens, n_v * dims.d])?;
    launch::swiglu(pass.device, gated.all_mut(), z.all(), weighted.all())?;
    let gated = pass.emit("final_output", layer, gated)?;
    let like = pass.rounds_like()?;
    let gated = gated.shaped(&[n_seqs * n_tokens, n_v * dims.d]);
    let out = pass.mul_mat(&weights.out, &gated, like.as_deref())?;
    let n_embd = out.shape[1];
    let out = pass.emit("linear_attn_out", layer, out.shaped(&[n_seqs, n_tokens, n_embd]))?;
    Ok(out.shaped(&[n_seqs * n_tokens, n_embd]))
}

/// Log decay and beta, `[n_seqs, n_tokens, n_v]` each.
fn gates(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    route: Route,
    weights: &DeltaNetWeights,
    alpha: Tensor,
    beta: Tensor,
) -> Result<(Tensor, Tensor), EngineError> {
    let layer = Some(il);
    let beta = pass.emit("beta", layer, beta)?;
    let mut activated = pass.tensor(&beta.shape)?;
    launch::sigmoid(pass.device, activated.all_mut(), beta.all())?;
    if let Some(name) = route.beta(pass.numerics.dialect) {
        activated = pass.emit(name, layer, activated)?;
    }
    let alpha = pass.emit("alpha", layer, alpha)?;
    let mut softplus = pass.tensor(&alpha.shape)?;
    launch::softplus_bias(pass.device, softplus.all_mut(), alpha.all(), weights.dt.all())?;
    let softplus = pass.emit("a_softplus", layer, softplus)?;
    let gate = pass.weighted(&weights.a, softplus)?;
    let gate = pass.emit("gate", layer, gate)?;
    Ok((gate, activated))
}

/// Causal convolution with each state's columns in front, and its activation: `[n_seqs, n_tokens, channels]`.
#[allow(clippy::too_many_arguments)] // what a convolution reads, and where its states are
fn convolve(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    weights: &DeltaNetWeights,
    qkv: &Tensor,
    states: &mut Buffer<f32>, // [slots, channels, n_past]
    size: usize,
    slots: &[SequenceSlots],
    dims: Dims,
) -> Result<Tensor, EngineError> {
    let layer = Some(il);
    let Dims { n_seqs, n_tokens, channels, n_past, .. } = dims;
    let device = pass.device;
    let past = gathered(pass, states, size, slots.iter().map(|slots| slots.before.conv))?;
    let past = pass.emit("conv_states", layer, past.shaped(&[n_seqs, channels * n_past]))?;
    let shape = [n_seqs, channels, n_past];
    pass.observe("conv_states_reshaped", layer, &shape, |device| Ok(device.read(past.all())?))?;
    pass.observe("qkv_mixed_transposed", layer, &[n_seqs, channels, n_tokens], |device| {
        Ok(transposed(&device.read(qkv.all())?, [n_seqs, n_tokens, channels]))
    })?;
    let mut window = pass.tensor(&[n_seqs, channels, n_past + n_tokens])?;
    let in_order: Vec<i32> = (0..n_seqs as i32).collect();
    let from = device.upload(&in_order)?;
    let sizes = &launch::ConvShape { n_seqs, n_tokens, channels, d_conv: n_past + 1 };
    launch::conv_input(device, window.all_mut(), past.all(), from.all(), qkv.all(), sizes)?;
    let window = pass.emit("conv_input", layer, window)?;
    let n_kept = slots[0].kept.len();
    for kept in 0..n_kept.max(1) {
        // Behind the last token without older states, else behind each of the last ones.
        let n = if n_kept == 0 { n_tokens } else { n_tokens - n_kept + 1 + kept };
        let to: Vec<i32> = slots
            .iter()
            .map(|slots| slots.kept.get(kept).map_or(slots.conv_after, |at| at.conv) as i32)
            .collect();
        let to = device.upload(&to)?;
        launch::conv_state(device, states.all_mut(), to.all(), window.all(), n, sizes)?;
    }
    // llama.cpp gives this view a name only where it keeps no earlier ones.
    if pass.memory.n_rs_seq == 0 {
        let name = pass.numerics.dialect.conv_state_last;
        pass.observe(name, layer, &shape, |device| {
            read_slots(device, states, size, slots.iter().map(|slots| slots.conv_after))
        })?;
    }
    let mut raw = pass.tensor(&[n_seqs, n_tokens, channels])?;
    launch::ssm_conv(device, raw.all_mut(), window.all(), weights.conv1d.all(), sizes)?;
    let raw = pass.emit("conv_output_raw", layer, raw)?;
    let mut activated = pass.tensor(&raw.shape)?;
    launch::silu(device, activated.all_mut(), raw.all())?;
    pass.emit("conv_output_silu", layer, activated)
}

/// q, k and v by head, `[n_seqs, n_tokens, heads, d]`, q and k normalised.
fn split(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    route: Route,
    convolved: &Tensor,
    dims: Dims,
) -> Result<[Tensor; 3], EngineError> {
    let layer = Some(il);
    let Dims { n_seqs, n_tokens, channels, n_k, n_v, d, .. } = dims;
    let part = |pass: &Pass<'_, '_, '_>, at: usize, heads: usize| {
        let mut part = pass.tensor(&[n_seqs, n_tokens, heads, d])?;
        let from = convolved.part(at..convolved.len());
        launch::copy_rows(pass.device, part.all_mut(), from, heads * d, channels)?;
        Ok::<_, EngineError>(part)
    };
    let mut normed = Vec::new();
    for (name, at) in [("q_conv", 0), ("k_conv", n_k * d)] {
        let x = part(pass, at, n_k)?;
        pass.observe(name, layer, &x.shape, |device| Ok(device.read(x.all())?))?;
        let mut y = pass.tensor(&x.shape)?;
        let heads = launch::Heads { tokens: n_seqs * n_tokens, per_token: n_k, n: d, stride: n_k * d };
        let eps = pass.eps();
        match pass.qk_l2_norm {
            QkL2Norm::EpsInside => {
                launch::l2_norm_inside(pass.device, y.all_mut(), x.all(), heads, f64::from(eps))?;
            }
            QkL2Norm::MaxNormEps => launch::l2_norm(pass.device, y.all_mut(), x.all(), heads, eps)?,
            QkL2Norm::Absent => unreachable!("refused when the engine was made"),
        }
        normed.push(y);
    }
    let k = normed.pop().expect("two were pushed");
    let q = normed.pop().expect("two were pushed");
    let (q, k) = match pass.numerics.delta_net {
        DeltaNetRoute::Fused => (q, k),
        DeltaNetRoute::Unfused => (unfused::repeated(pass, &q, n_v)?, unfused::repeated(pass, &k, n_v)?),
    };
    let q = pass.emit("q_conv_predelta", layer, q)?;
    let k = pass.emit(route.k(), layer, k)?;
    let v = part(pass, 2 * n_k * d, n_v)?;
    pass.observe(route.v(), layer, &v.shape, |device| Ok(device.read(v.all())?))?;
    Ok([q, k, v])
}

/// `[n, rows, columns]` to `[n, columns, rows]`.
fn transposed(values: &[f32], [n, rows, columns]: [usize; 3]) -> Vec<f32> {
    let at = |i: usize, row: usize, column: usize| values[(i * rows + row) * columns + column];
    (0..n * columns * rows).map(|j| at(j / (columns * rows), j % rows, j / rows % columns)).collect()
}
