//! Launches of kernels/binary.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};
use super::norm::is_wide;

const THREADS: usize = 256;

/// A thread for each four of `n` elements.
pub(super) fn four_each(n: usize) -> Grid {
    Grid::new(n.div_ceil(4 * THREADS), THREADS)
}

/// `y = a + b`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn add(device: &Device, y: PartMut<'_, f32>, a: Part<'_, f32>, b: Part<'_, f32>) -> Result<(), GpuError> {
    binary(device, "add_f32", y, a, b)
}

/// `y = a b`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn mul(device: &Device, y: PartMut<'_, f32>, a: Part<'_, f32>, b: Part<'_, f32>) -> Result<(), GpuError> {
    binary(device, "mul_f32", y, a, b)
}

fn binary(
    device: &Device,
    kernel: &'static str,
    mut y: PartMut<'_, f32>,
    a: Part<'_, f32>,
    b: Part<'_, f32>,
) -> Result<(), GpuError> {
    let n = y.len();
    assert_eq!([a.len(), b.len()], [n; 2], "{kernel}");
    let wide = is_wide(&[], &[y.is_aligned(16), a.is_aligned(16), b.is_aligned(16)]);
    let args = [(&mut y).into(), a.into(), b.into(), n.into(), i32::from(wide).into()];
    device.launch(kernel, four_each(n), &args)
}

/// `x += b`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn add_to(device: &Device, mut x: PartMut<'_, f32>, b: Part<'_, f32>) -> Result<(), GpuError> {
    let n = x.len();
    assert_eq!(b.len(), n, "add_to");
    let wide = is_wide(&[], &[x.is_aligned(16), b.is_aligned(16)]);
    let args = [(&mut x).into(), x.as_part().into(), b.into(), n.into(), i32::from(wide).into()];
    device.launch("add_f32", four_each(n), &args)
}

/// `y = x s`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn scale(device: &Device, mut y: PartMut<'_, f32>, x: Part<'_, f32>, s: f32) -> Result<(), GpuError> {
    let n = y.len();
    assert_eq!(x.len(), n, "scale");
    let wide = is_wide(&[], &[y.is_aligned(16), x.is_aligned(16)]);
    let args = [(&mut y).into(), x.into(), n.into(), i32::from(wide).into(), s.into()];
    device.launch("scale_f32", four_each(n), &args)
}

/// Each row of `x` times the vector `w`, as long as a row.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes of `y` and `x` differ, or are not whole rows.
pub fn mul_row(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    w: Part<'_, f32>,
) -> Result<(), GpuError> {
    let (total, n) = (y.len(), w.len());
    assert!(x.len() == total && n > 0 && total.is_multiple_of(n), "mul_row: {} by {n} to {total}", x.len());
    let wide = is_wide(&[n], &[y.is_aligned(16), x.is_aligned(16)]);
    let args = [(&mut y).into(), x.into(), w.into(), total.into(), n.into(), i32::from(wide).into()];
    device.launch("mul_row_f32", four_each(total), &args)
}
