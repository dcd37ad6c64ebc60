//! Launches of kernels/argmax.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};
use super::norm::{WARP, is_wide};

const THREADS: usize = 256;
/// Values of a row that a thread block looks at.
const PART: usize = 8192;

/// What a grid has room for in its second dimension.
pub(super) const MAX_ROWS: usize = 65535;

/// Values of scratch memory that [`argmax`] needs.
pub fn argmax_scratch(rows: usize, n: usize) -> usize {
    rows * n.div_ceil(PART)
}

/// `ids [rows]` = the index of the largest value of each of `rows` rows of `n`, of equal ones the lowest; -1 for a row that holds a
/// NaN. `scratch` is [`argmax_scratch`] long and holds nothing that matters before or behind.
///
/// # Errors
/// If a launch fails.
///
/// # Panics
/// If sizes do not belong together.
pub fn argmax(
    device: &Device,
    mut ids: PartMut<'_, i32>,
    x: Part<'_, f32>,
    mut scratch: PartMut<'_, u64>,
    rows: usize,
    n: usize,
) -> Result<(), GpuError> {
    assert!(n > 0 && x.len() == rows * n && ids.len() == rows, "argmax of [{rows}, {n}]");
    assert_eq!(scratch.len(), argmax_scratch(rows, n), "argmax of [{rows}, {n}]: scratch");
    assert!(rows <= MAX_ROWS, "argmax of {rows} rows");
    let parts = n.div_ceil(PART);
    let wide = i32::from(is_wide(&[n], &[x.is_aligned(16)]));
    let args = [(&mut scratch).into(), x.into(), n.into(), PART.into(), wide.into()];
    device.launch("argmax_parts_f32", Grid::new_2d([parts, rows], THREADS), &args)?;
    let args = [(&mut ids).into(), (&mut scratch).into(), parts.into()];
    device.launch("argmax_f32", Grid::new(rows, WARP), &args)
}
