//! Launches of kernels/gated_norm_fold.cu.

use super::super::{Arg, Device, GpuError, Part};
use super::fold::{FoldParams, Folded};
use super::norm::{CHUNK, is_wide};

/// Whether [`gated_norm_fold`] takes heads of this size and ends in this fold.
pub fn gated_norm_fold_fits(head_dim: usize, fold: &FoldParams<'_>) -> bool {
    let is_same = fold.heads.is_none_or(|heads| heads.head_dim == head_dim);
    is_same && head_dim.is_power_of_two() && (4..=CHUNK).contains(&head_dim)
}

/// `(rms_norm(o) weight) silu(z)` for each head of `rows` rows of `n` values, and the fold of the rows, in one launch, with the bits of
/// [`gated_norm`](super::gated_norm) and [`fold`](super::fold()). Heads have as many values as `weight`; what comes out plain has
/// them in the order of `o`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If sizes do not belong together, or heads are not of a power of two from 4 to 256 values.
pub fn gated_norm_fold(
    device: &Device,
    mut to: Folded<'_>,
    [o, z]: [Part<'_, f32>; 2],
    weight: Part<'_, f32>,
    [rows, n]: [usize; 2],
    eps: f32,
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    let (what, head_dim) = ("gated_norm_fold", weight.len());
    to.check(what, rows, n, fold);
    assert!(
        gated_norm_fold_fits(head_dim, fold) && n.is_multiple_of(head_dim),
        "{what}: heads of {head_dim} values, {:?}",
        fold.heads
    );
    assert_eq!([o.len(), z.len()], [rows * n; 2], "{what} of [{rows}, {n}]");
    let are_aligned =
        [to.is_aligned(), o.is_aligned(16), z.is_aligned(16), weight.is_aligned(16), fold.is_wide()];
    let wide: Arg = i32::from(is_wide(&[], &are_aligned)).into();
    let [plain, folded] = to.args();
    let [n_k, rep, _] = fold.heads();
    let args = [
        &[plain, folded, o.into(), z.into(), weight.into(), fold.signs()][..],
        &[n.into(), fold.log_block(), n_k, rep, head_dim.into(), wide, fold.scale(), eps.into()],
    ];
    device.launch("gated_norm_fold_f32", fold.grid(rows, n), &args.concat())
}
