//! Launches of kernels/solve_tri.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};
use super::norm::assert_indexable;

/// Columns of a block.
const THREADS: usize = 32;
/// Rows of the largest matrices: a block keeps what it has solved in shared memory.
const MAX_SIZE: usize = 256;

/// `x` in `A x = b` for each of `n` matrices: x and b `[n, size, columns]`, a `[n, size, size]` and lower triangular: what is above its
/// diagonal is not read.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or matrices are too large.
pub fn solve_tri(
    device: &Device,
    mut x: PartMut<'_, f32>,
    a: Part<'_, f32>,
    b: Part<'_, f32>,
    [n, size, columns]: [usize; 3],
) -> Result<(), GpuError> {
    let all = n * size * columns;
    assert_eq!([x.len(), a.len(), b.len()], [all, n * size * size, all], "solve_tri");
    assert!(size <= MAX_SIZE, "solve_tri of {size} rows, at most {MAX_SIZE}");
    assert_indexable(all.max(a.len()));
    let grid = Grid::new_2d([n, columns.div_ceil(THREADS)], THREADS);
    let grid = grid.shared(size * THREADS * size_of::<f32>());
    device.launch("solve_tri_f32", grid, &[(&mut x).into(), a.into(), b.into(), size.into(), columns.into()])
}
