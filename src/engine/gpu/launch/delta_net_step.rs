//! Launches of kernels/delta_net_step.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};
use super::gated_delta_net::DeltaShape;

const MAX_THREADS: usize = 256;

/// The norm of a head of q or k.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum HeadNorm {
    /// `l2_norm_inside` with this epsilon.
    Inside(f64),
    /// `l2_norm` with this epsilon.
    Max(f32),
}

/// What one step moves on. `from` and `to` name a slot of `conv` for each sequence, and no slot is in both.
pub struct StepStates<'a> {
    /// `[n_slots, n_v, d, d]`, moved on in place.
    pub states: PartMut<'a, f32>,
    /// Slots of `states`.
    pub slots: Part<'a, i32>,
    /// `[n_slots, channels, d_conv - 1]`
    pub conv: PartMut<'a, f32>,
    /// Slots of `conv` that are read.
    pub from: Part<'a, i32>,
    /// Slots of `conv` that are written.
    pub to: Part<'a, i32>,
}

/// What one step reads.
#[derive(Clone, Copy)]
pub struct StepInputs<'a> {
    /// `[n_seqs, channels]`: the heads of q, of k and of v.
    pub qkv: Part<'a, f32>,
    /// `[channels, d_conv]`
    pub kernel: Part<'a, f32>,
    /// `[n_seqs, n_v]`
    pub alpha: Part<'a, f32>,
    /// In front of its sigmoid, `[n_seqs, n_v]`.
    pub beta: Part<'a, f32>,
    /// `[n_v]`
    pub dt: Part<'a, f32>,
    /// `[n_v]`
    pub a: Part<'a, f32>,
}

/// `o` `[n_seqs, n_v, d]` of one token of each sequence, with the bits of `ssm_conv_silu`, the norm of q and k, `gates` and
/// `gated_delta_net` one after the other.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, there are several tokens, or there is no kernel for `d`.
pub fn delta_net_step(
    device: &Device,
    o: PartMut<'_, f32>,
    to: StepStates<'_>,
    inputs: &StepInputs<'_>,
    norm: HeadNorm,
    shape: &DeltaShape,
) -> Result<(), GpuError> {
    let &DeltaShape { n_seqs, n_tokens, n_k, n_v, d, scale, .. } = shape;
    let StepInputs { qkv, kernel, alpha, beta, dt, a } = *inputs;
    assert_eq!(n_tokens, 1, "tokens of each sequence in one step");
    shape.check(o.len(), &to.states, [alpha.len(), beta.len()], to.slots.len());
    assert_eq!((dt.len(), a.len()), (n_v, n_v), "dt and a");
    let channels = (2 * n_k + n_v) * d;
    assert_eq!(qkv.len(), n_seqs * channels, "qkv");
    let d_conv = kernel.len() / channels;
    assert!(
        (2..=8).contains(&d_conv) && kernel.len() == d_conv * channels,
        "a kernel of {} values",
        kernel.len()
    );
    let n_conv = channels * (d_conv - 1);
    assert!(to.conv.len() >= n_conv && to.conv.len().is_multiple_of(n_conv), "states of the convolution");
    assert_eq!((to.from.len(), to.to.len()), (n_seqs, n_seqs), "a slot for each sequence");
    let (name, lanes) = match d {
        8 => ("delta_net_step_d8_f32", 4),
        16 => ("delta_net_step_d16_f32", 4),
        32 => ("delta_net_step_d32_f32", 8),
        64 => ("delta_net_step_d64_f32", 8),
        128 => ("delta_net_step_d128_f32", 8),
        _ => panic!("no kernel for heads of {d}"),
    };
    let (is_inside, eps, norm_scale) = match norm {
        HeadNorm::Inside(eps) => (1i32, (eps / d as f64) as f32, (1.0 / (d as f64).sqrt()) as f32),
        HeadNorm::Max(eps) => (0, eps, 1.0),
    };
    let threads = MAX_THREADS.min(d * lanes);
    let outputs = [o.into(), to.states.into(), to.conv.into(), to.slots.into(), to.from.into(), to.to.into()];
    let inputs = [qkv, kernel, alpha, beta, dt, a].map(Into::into);
    let sizes = [n_k.into(), n_v.into(), d_conv.into(), shape.is_blocked().into(), is_inside.into()];
    let scalars = [eps.into(), norm_scale.into(), scale.into()];
    let args = [&outputs[..], &inputs, &sizes, &scalars].concat();
    device.launch(name, Grid::new_3d([d * lanes / threads, n_v, n_seqs], threads), &args)
}
