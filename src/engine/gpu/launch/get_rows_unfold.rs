//! Launches of kernels/get_rows_unfold.cu.

use super::super::{Device, GpuError, Matrix, Part, PartMut};
use super::fold::{FoldParams, PER_THREAD};
use crate::tensor::GgmlType;

/// Whether [`get_rows_unfold`] takes rows of this type: `PQ2_0` and `PTQ1_0`, which folded tables have.
pub fn get_rows_unfold_fits(ty: GgmlType, fold: &FoldParams<'_>) -> bool {
    kernel(ty).is_some() && fold.heads.is_none() && fold.is_wide()
}

/// [`get_rows`](super::get_rows) and [`unfold_in_place`](super::unfold_in_place) in one launch, with their bits.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, y is not aligned to 16 bytes, or [`get_rows_unfold_fits`] says no.
pub fn get_rows_unfold(
    device: &Device,
    y: PartMut<'_, f32>,
    w: &Matrix,
    tokens: Part<'_, i32>,
    n_tokens: usize,
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    let (what, n) = ("get_rows_unfold", w.n_in());
    fold.check(what, n);
    assert_eq!((tokens.len(), y.len()), (n_tokens, n_tokens * n), "{what}: tokens and y");
    assert!(y.is_aligned(16), "{what}: y is not aligned to 16 bytes");
    let kernel = kernel(w.ty()).filter(|_| get_rows_unfold_fits(w.ty(), fold));
    let kernel = kernel.unwrap_or_else(|| panic!("{what}: rows of {}, heads {:?}", w.ty(), fold.heads));
    let grid = fold.grid(n_tokens, n);
    let grid = grid.shared(grid.threads[0] as usize * PER_THREAD * size_of::<f32>());
    let args = [y.into(), w.bytes().all().into(), fold.signs(), tokens.into()];
    let args = [&args[..], &[n.into(), fold.log_block(), fold.scale()]].concat();
    device.launch(kernel, grid, &args)
}

fn kernel(ty: GgmlType) -> Option<&'static str> {
    match ty {
        GgmlType::PQ2_0 => Some("get_rows_unfold_pq2_0_f32"),
        GgmlType::PTQ1_0 => Some("get_rows_unfold_ptq1_0_f32"),
        _ => None,
    }
}
