//! Launches of kernels/swiglu_fold.cu.

use super::super::{Arg, Device, GpuError, Part};
use super::fold::{FoldParams, Folded};
use super::norm::is_wide;

/// Whether [`swiglu_fold`] ends in this fold.
pub fn swiglu_fold_fits(fold: &FoldParams<'_>) -> bool {
    fold.heads.is_none()
}

/// `silu(gate) up` for each of `rows` rows of `n` values, and its fold, in one launch, with the bits of
/// [`swiglu`](super::swiglu) and [`fold`](super::fold()).
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If sizes do not belong together, or the fold reorders heads.
pub fn swiglu_fold(
    device: &Device,
    mut to: Folded<'_>,
    gate: Part<'_, f32>,
    up: Part<'_, f32>,
    [rows, n]: [usize; 2],
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    let what = "swiglu_fold";
    to.check(what, rows, n, fold);
    assert!(swiglu_fold_fits(fold), "{what}: heads {:?}", fold.heads);
    assert_eq!([gate.len(), up.len()], [rows * n; 2], "{what} of [{rows}, {n}]");
    let are_aligned = [to.is_aligned(), gate.is_aligned(16), up.is_aligned(16), fold.is_wide()];
    let wide: Arg = i32::from(is_wide(&[n], &are_aligned)).into();
    let [plain, folded] = to.args();
    let args = [
        &[plain, folded, gate.into(), up.into(), fold.signs()][..],
        &[n.into(), fold.log_block(), wide, fold.scale()],
    ];
    device.launch("swiglu_fold_f32", fold.grid(rows, n), &args.concat())
}
