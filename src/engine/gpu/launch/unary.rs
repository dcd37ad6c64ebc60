//! Launches of kernels/unary.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};

const THREADS: usize = 256;

/// A thread for each of `n` elements.
pub(super) fn one_each(n: usize) -> Grid {
    Grid::new(n.div_ceil(THREADS), THREADS)
}

/// `y = silu(x)`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn silu(device: &Device, mut y: PartMut<'_, f32>, x: Part<'_, f32>) -> Result<(), GpuError> {
    let n = x.len();
    assert_eq!(y.len(), n, "silu");
    device.launch("silu_f32", one_each(n), &[(&mut y).into(), x.into(), n.into()])
}

/// `y = sigmoid(x)`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn sigmoid(device: &Device, mut y: PartMut<'_, f32>, x: Part<'_, f32>) -> Result<(), GpuError> {
    let n = x.len();
    assert_eq!(y.len(), n, "sigmoid");
    device.launch("sigmoid_f32", one_each(n), &[(&mut y).into(), x.into(), n.into()])
}

/// `y = exp(x)`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn exp(device: &Device, mut y: PartMut<'_, f32>, x: Part<'_, f32>) -> Result<(), GpuError> {
    let n = x.len();
    assert_eq!(y.len(), n, "exp");
    device.launch("exp_f32", one_each(n), &[(&mut y).into(), x.into(), n.into()])
}

/// `y = softplus(alpha + dt)`, `[rows, n_heads]` and `dt [n_heads]`: the tensor `a_softplus`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes of `y` and `alpha` differ, or are not whole rows of `dt`'s length.
pub fn softplus_bias(
    device: &Device,
    mut y: PartMut<'_, f32>,
    alpha: Part<'_, f32>,
    dt: Part<'_, f32>,
) -> Result<(), GpuError> {
    let (n, n_heads) = (y.len(), dt.len());
    assert!(alpha.len() == n && n_heads > 0 && n.is_multiple_of(n_heads), "softplus_bias: {n} of {n_heads}");
    let args = [(&mut y).into(), alpha.into(), dt.into(), n.into(), n_heads.into()];
    device.launch("softplus_bias_f32", one_each(n), &args)
}

/// What [`gates`] reads.
#[derive(Clone, Copy)]
pub struct GateInputs<'a> {
    /// `[rows, n_heads]`
    pub alpha: Part<'a, f32>,
    /// `[rows, n_heads]`, in front of its sigmoid.
    pub beta: Part<'a, f32>,
    /// `[n_heads]`
    pub dt: Part<'a, f32>,
    /// `[n_heads]`
    pub a: Part<'a, f32>,
}

/// `gate = softplus(alpha + dt) a` and `beta = sigmoid(raw beta)`, both `[rows, n_heads]`, with the bits of [`softplus_bias`],
/// [`mul_row`](super::mul_row) and [`sigmoid`].
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If sizes differ, or are not whole rows of `dt`'s length.
pub fn gates(
    device: &Device,
    mut gate: PartMut<'_, f32>,
    mut beta: PartMut<'_, f32>,
    from: GateInputs<'_>,
) -> Result<(), GpuError> {
    let GateInputs { alpha, beta: raw_beta, dt, a } = from;
    let (n, n_heads) = (gate.len(), dt.len());
    assert_eq!([beta.len(), alpha.len(), raw_beta.len()], [n; 3], "gates");
    assert!(a.len() == n_heads && n_heads > 0 && n.is_multiple_of(n_heads), "gates: {n} of {n_heads}");
    let outputs = [(&mut gate).into(), (&mut beta).into()];
    let inputs = [alpha, raw_beta, dt, a].map(Into::into);
    let args = [&outputs[..], &inputs, &[n.into(), n_heads.into()]].concat();
    device.launch("gates_f32", one_each(n), &args)
}
