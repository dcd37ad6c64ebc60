//! Launches of kernels/glu.cu.

use super::super::{Device, GpuError, Part, PartMut};
use super::binary::four_each;
use super::norm::{CHUNK, assert_indexable, is_wide, row_grid};

/// `y = silu(gate) up`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn swiglu(
    device: &Device,
    mut y: PartMut<'_, f32>,
    gate: Part<'_, f32>,
    up: Part<'_, f32>,
) -> Result<(), GpuError> {
    let n = y.len();
    assert_eq!([gate.len(), up.len()], [n; 2], "swiglu");
    let wide = is_wide(&[], &[y.is_aligned(16), gate.is_aligned(16), up.is_aligned(16)]);
    let args = [(&mut y).into(), gate.into(), up.into(), n.into(), i32::from(wide).into()];
    device.launch("swiglu_f32", four_each(n), &args)
}

/// `y = x sigmoid(gate)`, `y` and `x` `[n_tokens, n_head, head_dim]`; the gate of each head lies behind its query in
/// `q_full`, `[n_tokens, n_head, 2, head_dim]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn sigmoid_mul(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    q_full: Part<'_, f32>,
    head_dim: usize,
) -> Result<(), GpuError> {
    let n = y.len();
    assert_eq!([x.len(), q_full.len()], [n, 2 * n], "sigmoid_mul");
    assert_indexable(2 * n);
    assert!(head_dim > 0 && n.is_multiple_of(head_dim), "sigmoid_mul: {n} values in heads of {head_dim}");
    let wide = is_wide(&[head_dim], &[y.is_aligned(16), x.is_aligned(16), q_full.is_aligned(16)]);
    let wide = i32::from(wide).into();
    let args = [(&mut y).into(), x.into(), q_full.into(), n.into(), head_dim.into(), wide];
    device.launch("sigmoid_mul_f32", four_each(n), &args)
}

/// `y = (rms_norm(o) weight) silu(z)` for each of `rows` heads of `n <= 256` values, with the bits of
/// [`rms_norm_weighted`](super::rms_norm_weighted), [`silu`](super::silu) and [`mul`](super::mul).
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y`, `o` or `z` is not `[rows, n]`, `weight` not `[n]`, or heads are too long.
pub fn gated_norm(
    device: &Device,
    mut y: PartMut<'_, f32>,
    [o, z]: [Part<'_, f32>; 2],
    weight: Part<'_, f32>,
    [rows, n]: [usize; 2],
    eps: f32,
) -> Result<(), GpuError> {
    assert_eq!([y.len(), o.len(), z.len()], [rows * n; 3], "gated_norm of [{rows}, {n}]");
    assert!(weight.len() == n && n <= CHUNK, "gated_norm: heads of {n} values, a weight of {}", weight.len());
    let (grid, _) = row_grid(rows, n);
    let are_aligned = [y.is_aligned(16), o.is_aligned(16), z.is_aligned(16), weight.is_aligned(16)];
    let wide = i32::from(is_wide(&[n], &are_aligned)).into();
    let args = [(&mut y).into(), o.into(), z.into(), weight.into(), rows.into(), n.into(), wide, eps.into()];
    device.launch("gated_norm_f32", grid, &args)
}
