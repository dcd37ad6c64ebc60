//! Launches of kernels/flash_attn_prefill.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};
use super::flash_attn_decode::{FlashCache, FlashShape};

const THREADS: usize = 256;
/// Tiles: ROWS, CELLS and PAD in the kernel.
const ROWS: usize = 32;
const CELLS: usize = 32;
const PAD: usize = 4;

/// `y` `[n_seqs, n_tokens, n_head, head_dim]`: what the tokens of each sequence read from its cells. Token t of sequence s sees the first
/// `n_past[s] + t + 1` of them; keys and values of the tokens themselves are in the cache already. `n_past` and `cache.first` are
/// `[n_seqs]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or there is no kernel for them.
pub fn flash_attn_prefill(
    device: &Device,
    y: PartMut<'_, f32>,
    q: Part<'_, f32>,
    cache: &FlashCache<'_>,
    n_past: Part<'_, i32>,
    shape: &FlashShape,
) -> Result<(), GpuError> {
    shape.check(&y, q, cache);
    let &FlashShape { n_seqs, n_tokens, n_head, n_head_kv, head_dim, .. } = shape;
    assert_eq!((n_past.len(), cache.first.len()), (n_seqs, n_seqs), "n_past and first of each sequence");
    let kernel =
        cache.k.kernel(["flash_attn_prefill_f32", "flash_attn_prefill_f16", "flash_attn_prefill_bf16"]);
    let shared = ROWS * head_dim + CELLS * (head_dim + PAD) + ROWS * (CELLS + 1) + ROWS;
    let blocks = [(n_tokens * (n_head / n_head_kv)).div_ceil(ROWS), n_head_kv, n_seqs];
    let cells = cache.cells.unwrap_or(n_past);
    let args = [y.into(), q.into(), cache.k.arg(), cache.v.arg(), n_past.into()];
    let more = [cache.first.into(), cells.into(), n_tokens.into()];
    let args = [&args[..], &more, &shape.args(cache)].concat();
    device.launch(kernel, Grid::new_3d(blocks, THREADS).shared(shared * size_of::<f32>()), &args)
}
