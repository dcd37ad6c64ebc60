//! Launches of kernels/attn_combine_fold.cu.

use super::super::{Arg, Device, GpuError, Grid, Part};
use super::flash_attn_decode::FlashShape;
use super::fold::{FoldParams, Folded, PER_THREAD};
use super::norm::{assert_indexable, is_wide};

const MAX_THREADS: usize = 512;

/// Whether [`attn_combine_fold`] can end in this fold.
pub fn combine_fits(fold: &FoldParams<'_>) -> bool {
    fold.heads.is_none() && fold.block <= MAX_THREADS * PER_THREAD
}

/// What [`flash_attn_decode_splits`](super::flash_attn_decode_splits) left in `scratch`, combined, times the sigmoid of the gates, and the
/// fold of that, `[n_seqs n_tokens, n_head head_dim]`, in one launch: the bits of [`flash_attn_decode`](super::flash_attn_decode),
/// [`sigmoid_mul`](super::sigmoid_mul) and [`fold`](super::fold()). The gate of each head lies behind its query in `q_full`,
/// `[n_seqs n_tokens, n_head, 2, head_dim]`; `n_kv` and `n_splits` are those of the splits.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If sizes do not belong together, the fold reorders heads, or its blocks are of more than 4096 values
/// ([`combine_fits`] tells).
pub fn attn_combine_fold(
    device: &Device,
    mut to: Folded<'_>,
    (scratch, n_splits): (Part<'_, f32>, usize),
    q_full: Part<'_, f32>,
    n_kv: Part<'_, i32>,
    shape: &FlashShape,
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    let (what, head_dim) = ("attn_combine_fold", shape.head_dim);
    let (rows, n) = (shape.n_seqs * shape.n_tokens, shape.n_head * head_dim);
    assert!([32, 64, 128, 256].contains(&head_dim), "{what}: heads of {head_dim}");
    assert_indexable(2 * rows * n);
    to.check(what, rows, n, fold);
    assert!(combine_fits(fold), "{what}: blocks of {}, heads {:?}", fold.block, fold.heads);
    assert_eq!((q_full.len(), n_kv.len()), (2 * rows * n, rows), "{what} of [{rows}, {n}]");
    assert!(n_splits > 0 && scratch.len() >= shape.n_scratch(n_splits), "scratch for {n_splits} splits");
    assert!(scratch.is_aligned(16), "{what}: scratch is not aligned to 16 bytes");
    let are_aligned = [to.is_aligned(), q_full.is_aligned(16), fold.is_wide()];
    let wide: Arg = i32::from(is_wide(&[], &are_aligned)).into();
    let Grid { blocks, threads, .. } = fold.grid(rows, n);
    let part = threads[0] as usize * PER_THREAD;
    let threads = (part / 4).min(MAX_THREADS);
    let grid =
        Grid::new_2d([rows, blocks[1] as usize], threads).shared(threads * PER_THREAD * size_of::<f32>());
    let [plain, folded] = to.args();
    let args = [
        &[plain, folded, scratch.into(), q_full.into(), fold.signs(), n_kv.into()][..],
        &[n.into(), part.into(), fold.log_block(), head_dim.into(), n_splits.into(), wide, fold.scale()],
    ];
    device.launch("attn_combine_fold_f32", grid, &args.concat())
}
