//! Launches of kernels/rms_norm_fold.cu.

use super::super::{Arg, Device, GpuError, Grid, Part};
use super::fold::{FoldParams, Folded};
use super::norm::{CHUNK, WARP, assert_indexable, is_wide};

/// The longest row that one thread block holds in registers.
const MAX_ROW: usize = 32 * CHUNK;

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
    assert_indexable(rows * n);
    to.check(what, rows, n, fold);
    assert!(fold.heads.is_none() && n <= MAX_ROW, "{what}: rows of {n} values, heads {:?}", fold.heads);
    assert_eq!([x.len(), weight.len()], [rows * n, n], "{what} of [{rows}, {n}]");
    let are_aligned = [to.is_aligned(), x.is_aligned(16), weight.is_aligned(16), fold.is_wide()];
    let wide: Arg = i32::from(is_wide(&[n], &are_aligned)).into();
    let grid = fold.shared(Grid::new(rows, n.div_ceil(CHUNK) * WARP));
    let [plain, folded] = to.args();
    let args = [
        &[plain, folded, x.into(), weight.into(), fold.signs()][..],
        &[n.into(), fold.log_block(), wide, fold.scale(), eps.into()],
    ];
    device.launch("rms_norm_fold_f32", grid, &args.concat())
}
