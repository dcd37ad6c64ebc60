//! Launches of kernels/sigmoid_gate_fold.cu.

use super::super::{Arg, Device, GpuError, Part};
use super::fold::{FoldParams, Folded};
use super::norm::{assert_indexable, is_wide};

/// Whether [`sigmoid_gate_fold`] takes heads of this size and ends in this fold.
pub fn sigmoid_gate_fold_fits(head_dim: usize, fold: &FoldParams<'_>) -> bool {
    fold.heads.is_none() && head_dim > 0 && head_dim.is_multiple_of(4)
}

/// `x sigmoid(gate)` for each of `rows` rows of `n` values, and its fold, in one launch, with the bits of
/// [`sigmoid_mul`](super::sigmoid_mul) and [`fold`](super::fold()). The gate of each head lies behind its query in `q_full`,
/// `[rows, n_head, 2, head_dim]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If sizes do not belong together, `head_dim` is no multiple of 4, or the fold reorders heads.
pub fn sigmoid_gate_fold(
    device: &Device,
    mut to: Folded<'_>,
    x: Part<'_, f32>,
    q_full: Part<'_, f32>,
    [rows, n, head_dim]: [usize; 3],
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    let what = "sigmoid_gate_fold";
    assert_indexable(2 * rows * n);
    to.check(what, rows, n, fold);
    assert!(
        sigmoid_gate_fold_fits(head_dim, fold) && n.is_multiple_of(head_dim),
        "{what}: heads of {head_dim}, {:?}",
        fold.heads
    );
    assert_eq!([x.len(), q_full.len()], [rows * n, 2 * rows * n], "{what} of [{rows}, {n}]");
    let are_aligned = [to.is_aligned(), x.is_aligned(16), q_full.is_aligned(16), fold.is_wide()];
    let wide: Arg = i32::from(is_wide(&[], &are_aligned)).into();
    let [plain, folded] = to.args();
    let args = [
        &[plain, folded, x.into(), q_full.into(), fold.signs()][..],
        &[n.into(), fold.log_block(), head_dim.into(), wide, fold.scale()],
    ];
    device.launch("sigmoid_gate_fold_f32", fold.grid(rows, n), &args.concat())
}
