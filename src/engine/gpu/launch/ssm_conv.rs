//! Launches of kernels/ssm_conv.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};

const THREADS: usize = 256;
/// Tokens that a thread of `ssm_conv_silu` walks over: TOKENS in the kernel.
const TOKENS: usize = 32;

/// What a convolution runs over: sequences side by side, each with as many tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConvShape {
    /// Sequences.
    pub n_seqs: usize,
    /// Tokens of each.
    pub n_tokens: usize,
    /// Channels of q, k and v together.
    pub channels: usize,
    /// Taps of the kernel, 2 to 8.
    pub d_conv: usize,
}

impl ConvShape {
    /// Values in `qkv` and in what comes out: `[n_seqs, n_tokens, channels]`.
    pub fn n_values(&self) -> usize {
        self.n_seqs * self.n_tokens * self.channels
    }

    /// Values of one state: `[channels, d_conv - 1]`.
    pub fn n_state(&self) -> usize {
        self.channels * (self.d_conv - 1)
    }

    /// Values in `conv_input`: `[n_seqs, channels, d_conv - 1 + n_tokens]`.
    pub fn n_input(&self) -> usize {
        self.n_seqs * self.channels * (self.d_conv - 1 + self.n_tokens)
    }

    fn check(&self) {
        assert!((2..=8).contains(&self.d_conv), "{} taps", self.d_conv);
        assert!(self.n_tokens > 0 && self.n_seqs > 0, "nothing to convolve: {self:?}");
    }

    fn check_slots(&self, states: usize, slots: usize) {
        assert!(states >= self.n_state() && states.is_multiple_of(self.n_state()), "states of {self:?}");
        assert_eq!(slots, self.n_seqs, "a slot for each sequence");
    }

    fn grid(&self, y: usize) -> Grid {
        Grid::new_3d([self.channels.div_ceil(THREADS), y, self.n_seqs], THREADS)
    }
}

/// `conv_input` `[n_seqs, channels, d_conv - 1 + n_tokens]`: the states `[n_slots, channels, d_conv - 1]` in the slots `from`, then
/// the columns of `qkv` `[n_seqs, n_tokens, channels]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn conv_input(
    device: &Device,
    conv_input: PartMut<'_, f32>,
    states: Part<'_, f32>,
    from: Part<'_, i32>,
    qkv: Part<'_, f32>,
    shape: &ConvShape,
) -> Result<(), GpuError> {
    shape.check();
    shape.check_slots(states.len(), from.len());
    assert_eq!((conv_input.len(), qkv.len()), (shape.n_input(), shape.n_values()), "conv_input");
    let &ConvShape { n_tokens, channels, d_conv, .. } = shape;
    let sizes = [n_tokens.into(), channels.into(), d_conv.into()];
    let args = [conv_input.into(), states.into(), from.into(), qkv.into()];
    device.launch("conv_input_f32", shape.grid(d_conv - 1 + n_tokens), &[&args[..], &sizes].concat())
}

/// `y` `[n_seqs, n_tokens, channels]`: each channel of `conv_input` convolved with its row of `kernel` `[channels, d_conv]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn ssm_conv(
    device: &Device,
    y: PartMut<'_, f32>,
    conv_input: Part<'_, f32>,
    kernel: Part<'_, f32>,
    shape: &ConvShape,
) -> Result<(), GpuError> {
    shape.check();
    assert_eq!((y.len(), conv_input.len()), (shape.n_values(), shape.n_input()), "ssm_conv");
    assert_eq!(kernel.len(), shape.channels * shape.d_conv, "the kernel of ssm_conv");
    let &ConvShape { n_tokens, channels, d_conv, .. } = shape;
    let args = [y.into(), conv_input.into(), kernel.into(), n_tokens.into(), channels.into(), d_conv.into()];
    device.launch("ssm_conv_f32", shape.grid(n_tokens), &args)
}

/// The states behind the first `n` tokens of `conv_input`, into the slots `to` of `states` `[n_slots, channels, d_conv - 1]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn conv_state(
    device: &Device,
    states: PartMut<'_, f32>,
    to: Part<'_, i32>,
    conv_input: Part<'_, f32>,
    n: usize,
    shape: &ConvShape,
) -> Result<(), GpuError> {
    shape.check();
    shape.check_slots(states.len(), to.len());
    assert_eq!(conv_input.len(), shape.n_input(), "conv_state");
    assert!(n <= shape.n_tokens, "the state behind {n} tokens of {}", shape.n_tokens);
    let &ConvShape { n_tokens, channels, d_conv, .. } = shape;
    let sizes = [n.into(), n_tokens.into(), channels.into(), d_conv.into()];
    let args = [states.into(), to.into(), conv_input.into()];
    device.launch("conv_state_f32", shape.grid(d_conv - 1), &[&args[..], &sizes].concat())
}

/// `y = silu(ssm_conv)` `[n_seqs, n_tokens, channels]` straight from the states in the slots `from` and from `qkv`; the new states
/// go to the slots `to`. The same list for both moves the states on in place; otherwise no slot may be in both lists.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
#[allow(clippy::too_many_arguments)] // the operator has six tensors
pub fn ssm_conv_silu(
    device: &Device,
    y: PartMut<'_, f32>,
    states: PartMut<'_, f32>,
    from: Part<'_, i32>,
    to: Part<'_, i32>,
    qkv: Part<'_, f32>,
    kernel: Part<'_, f32>,
    shape: &ConvShape,
) -> Result<(), GpuError> {
    shape.check();
    shape.check_slots(states.len(), from.len());
    shape.check_slots(states.len(), to.len());
    assert_eq!((y.len(), qkv.len()), (shape.n_values(), shape.n_values()), "ssm_conv_silu");
    assert_eq!(kernel.len(), shape.channels * shape.d_conv, "the kernel of ssm_conv_silu");
    let &ConvShape { n_tokens, channels, d_conv, .. } = shape;
    let args = [y.into(), states.into(), from.into(), to.into(), qkv.into(), kernel.into()];
    let sizes = [n_tokens.into(), channels.into(), d_conv.into()];
    device.launch("ssm_conv_silu_f32", shape.grid(n_tokens.div_ceil(TOKENS)), &[&args[..], &sizes].concat())
}
