//! Launches of kernels/rms_norm_fold.cu.

use super::super::{Arg, Device, GpuError, Grid, Part, PartMut};
use super::fold::{FoldParams, Folded};
use super::norm::{CHUNK, WARP, assert_indexable, is_wide};

/// The longest row that one thread block holds in registers.
const MAX_ROW: usize = 32 * CHUNK;

/// Whether rows of `n` values have kernels that norm them and end in this fold.
pub fn rms_norm_fold_fits(n: usize, fold: &FoldParams<'_>) -> bool {
    fold.heads.is_none() && n <= MAX_ROW
}

/// `rms_norm(x) weight` for each of `rows` rows of `n <= 8192` values, and its fold, in one launch, with the bits of
/// [`rms_norm_weighted`](super::rms_norm_weighted) and [`fold`](super::fold()).
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If sizes do not belong together, rows are too long, or the fold reorders heads.
pub fn rms_norm_fold(
    device: &Device,
    mut to: Folded<'_>,
    x: Part<'_, f32>,
    weight: Part<'_, f32>,
    [rows, n]: [usize; 2],
    eps: f32,
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    let what = "rms_norm_fold";
    check(what, &to, weight, [rows, n], fold);
    assert_eq!(x.len(), rows * n, "{what} of [{rows}, {n}]");
    let wide = wide(&to, weight, n, fold, x.is_aligned(16));
    let [plain, folded] = to.args();
    let args = [
        &[plain, folded, x.into(), weight.into(), fold.signs()][..],
        &[n.into(), fold.log_block(), wide, fold.scale(), eps.into()],
    ];
    device.launch("rms_norm_fold_f32", grid(rows, n, fold), &args.concat())
}

/// `sum = a + b` for `[a, b, weight]`, and [`rms_norm_fold`] of it, in one launch: a residual and the norm behind it.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If sizes do not belong together, rows are too long, or the fold reorders heads.
pub fn add_rms_norm_fold(
    device: &Device,
    mut sum: PartMut<'_, f32>,
    mut to: Folded<'_>,
    [a, b, weight]: [Part<'_, f32>; 3],
    [rows, n]: [usize; 2],
    eps: f32,
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    let what = "add_rms_norm_fold";
    check(what, &to, weight, [rows, n], fold);
    assert_eq!([sum.len(), a.len(), b.len()], [rows * n; 3], "{what} of [{rows}, {n}]");
    let is_aligned = sum.is_aligned(16) && a.is_aligned(16) && b.is_aligned(16);
    let wide = wide(&to, weight, n, fold, is_aligned);
    let [plain, folded] = to.args();
    let args = [
        &[(&mut sum).into(), plain, folded, a.into(), b.into(), weight.into(), fold.signs()][..],
        &[n.into(), fold.log_block(), wide, fold.scale(), eps.into()],
    ];
    device.launch("add_rms_norm_fold_f32", grid(rows, n, fold), &args.concat())
}

fn check(what: &str, to: &Folded<'_>, weight: Part<'_, f32>, [rows, n]: [usize; 2], fold: &FoldParams<'_>) {
    assert_indexable(rows * n);
    to.check(what, rows, n, fold);
    assert!(rms_norm_fold_fits(n, fold), "{what}: rows of {n} values, heads {:?}", fold.heads);
    assert_eq!(weight.len(), n, "{what}: weight");
}

fn wide(to: &Folded<'_>, weight: Part<'_, f32>, n: usize, fold: &FoldParams<'_>, is_aligned: bool) -> Arg {
    let are_aligned = [to.is_aligned(), weight.is_aligned(16), fold.is_wide(), is_aligned];
    i32::from(is_wide(&[n], &are_aligned)).into()
}

fn grid(rows: usize, n: usize, fold: &FoldParams<'_>) -> Grid {
    fold.shared(Grid::new(rows, n.div_ceil(CHUNK) * WARP))
}
