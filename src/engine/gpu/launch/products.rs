//! Launches of kernels/products.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};
use super::matrices::Matrices;
use super::norm::{WARP, assert_indexable};

/// Rows and columns of y that a block computes.
const TILE: usize = 32;
const THREADS: usize = 256;

/// MUL_MAT of each pair of matrices: `y [n, rows, columns]`, packed, is the product of row `columns` of `a [n, columns, size]` and row
/// `rows` of `b [n, rows, size]`. One matrix of `a` or `b` may serve all.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the shapes do not belong together.
pub fn products(
    device: &Device,
    mut y: PartMut<'_, f32>,
    a: Matrices<'_>,
    b: Matrices<'_>,
) -> Result<(), GpuError> {
    let ([a_n, columns, size], [b_n, rows, b_size]) = (a.shape, b.shape);
    let n = a_n.max(b_n);
    let fit = size == b_size && [a_n, b_n].iter().all(|&of| of == n || of == 1);
    assert!(fit && y.len() == n * rows * columns, "products: {:?} and {:?}", a.shape, b.shape);
    assert_indexable(y.len());
    let grid = Grid::new_3d([n, rows.div_ceil(TILE), columns.div_ceil(TILE)], THREADS);
    let buffers = [(&mut y).into(), a.values.into(), b.values.into()];
    let sizes = [rows, columns, size].map(Into::into);
    let strides = [a.strides_in([n, columns, size]), b.strides_in([n, rows, size])].concat();
    device.launch("products_f32", grid, &[&buffers[..], &sizes, &strides].concat())
}

/// SUM_ROWS of MUL: `y [n, rows]` is each row of `a [n, rows, size]` times `b [n, size]`, the sum in f64.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn sum_products(
    device: &Device,
    mut y: PartMut<'_, f32>,
    a: Part<'_, f32>,
    b: Part<'_, f32>,
    [n, rows, size]: [usize; 3],
) -> Result<(), GpuError> {
    assert_eq!([y.len(), a.len(), b.len()], [n * rows, n * rows * size, n * size], "sum_products");
    assert_indexable(a.len());
    let grid = Grid::new((n * rows).div_ceil(THREADS / WARP), THREADS);
    let sizes = [n * rows, rows, size].map(Into::into);
    device.launch("sum_products_f32", grid, &[&[(&mut y).into(), a.into(), b.into()], &sizes[..]].concat())
}
