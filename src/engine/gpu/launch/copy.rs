//! Launches of kernels/copy.cu.

use super::super::{Device, GpuError, Part, PartMut};
use super::binary::four_each;
use super::norm::{assert_indexable, is_wide};

/// `y [rows, n]` = rows of `n` values, of which the first begins where `x` does and each next one `stride` values further on.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y` is not whole rows, rows overlap, or `x` ends before the last one does.
pub fn copy_rows(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    n: usize,
    stride: usize,
) -> Result<(), GpuError> {
    let total = y.len();
    assert!(n > 0 && total.is_multiple_of(n) && stride >= n, "copy_rows: {total} in {n}, stride {stride}");
    let needed = if total == 0 { 0 } else { (total / n - 1) * stride + n };
    assert_indexable(needed);
    assert!(x.len() >= needed, "copy_rows: {} values of {needed}", x.len());
    let wide = is_wide(&[n, stride], &[y.is_aligned(16), x.is_aligned(16)]);
    let sizes = [total, n, stride, usize::from(wide)].map(Into::into);
    let args = [&[(&mut y).into(), x.into()], &sizes[..]].concat();
    device.launch("copy_rows_f32", four_each(total), &args)
}

/// `y [ids, n]` = the rows of `x [.., n]` that `ids` name, in their order. A row that `x` lacks is NaN.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `x` is not whole rows, or `y` has another size than the named rows.
pub fn gather_rows(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    ids: Part<'_, i32>,
    n: usize,
) -> Result<(), GpuError> {
    let total = y.len();
    assert!(n > 0 && x.len().is_multiple_of(n), "gather_rows: {} values in rows of {n}", x.len());
    assert_indexable(x.len());
    assert_eq!(total, ids.len() * n, "gather_rows: {} rows of {n}", ids.len());
    let wide = is_wide(&[n], &[y.is_aligned(16), x.is_aligned(16)]);
    let sizes = [total, n, x.len() / n, usize::from(wide)].map(Into::into);
    let args = [&[(&mut y).into(), x.into(), ids.into()], &sizes[..]].concat();
    device.launch("gather_rows_f32", four_each(total), &args)
}
