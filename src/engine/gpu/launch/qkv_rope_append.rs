//! Launches of kernels/qkv_rope_append.cu.

use super::super::{Arg, Device, GpuError, Grid, Part, PartMut};
use super::kv_append::CellsMut;

const WARPS: usize = 4;

/// Heads of q, k and v as their projections leave them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QkvShape {
    /// Tokens.
    pub n_tokens: usize,
    /// Heads of q.
    pub n_head: usize,
    /// Heads of k and v.
    pub n_head_kv: usize,
    /// Elements of a head, at most 256.
    pub head_dim: usize,
    /// Elements of it that rotate, even.
    pub n_rot: usize,
    /// From the queries of one token to those of the next, in values.
    pub q_stride: usize,
    /// From one head of q to the next, in values: twice `head_dim` where gates lie between them.
    pub q_head_stride: usize,
    /// From the keys, or values, of one token to those of the next, in values.
    pub kv_stride: usize,
}

/// What goes into attention.
#[derive(Clone, Copy)]
pub struct QkvInputs<'a> {
    /// From the first query on.
    pub q: Part<'a, f32>,
    /// From the first key on.
    pub k: Part<'a, f32>,
    /// From the first value on.
    pub v: Part<'a, f32>,
    /// `[head_dim]`
    pub q_weight: Part<'a, f32>,
    /// `[head_dim]`
    pub k_weight: Part<'a, f32>,
    /// The cell of each token.
    pub cells: Part<'a, i32>,
    /// The row of the table of each token.
    pub positions: Part<'a, i32>,
    /// As `rope_table` makes it.
    pub table: Part<'a, f32>,
}

/// Queries, normed and rotated, into packed `y` `[n_tokens, n_head, head_dim]`; keys, normed and rotated, and values into their cells:
/// what `qk_norm_rope` for q and k and `kv_append` do, bit by bit, in one launch.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or the caches are of two types.
pub fn qkv_rope_append(
    device: &Device,
    y: PartMut<'_, f32>,
    k_cache: CellsMut<'_>,
    v_cache: CellsMut<'_>,
    inputs: &QkvInputs<'_>,
    shape: &QkvShape,
    eps: f32,
) -> Result<(), GpuError> {
    let &QkvShape { n_tokens, n_head, n_head_kv, head_dim, n_rot, q_stride, q_head_stride, kv_stride } =
        shape;
    let &QkvInputs { q, k, v, q_weight, k_weight, cells, positions, table } = inputs;
    assert!(n_tokens > 0 && n_head > 0 && n_head_kv > 0, "no heads: {shape:?}");
    assert!(head_dim <= 256, "a norm over heads of {head_dim}");
    assert!(
        n_rot.is_multiple_of(2) && n_rot > 0 && n_rot <= head_dim,
        "{n_rot} of {head_dim} elements rotate"
    );
    assert_eq!(y.len(), n_tokens * n_head * head_dim, "qkv_rope_append: y");
    let (last, n_embd_kv) = (n_tokens - 1, n_head_kv * head_dim);
    assert!(q.len() >= last * q_stride + (n_head - 1) * q_head_stride + head_dim, "qkv_rope_append: q");
    assert!(
        [k.len(), v.len()].iter().all(|&len| len >= last * kv_stride + n_embd_kv),
        "qkv_rope_append: k and v"
    );
    assert_eq!([q_weight.len(), k_weight.len()], [head_dim; 2], "the weights of norms");
    assert_eq!([cells.len(), positions.len()], [n_tokens; 2], "a cell and a position for each token");
    assert!(table.len().is_multiple_of(n_rot) && !table.is_empty() && table.is_aligned(8), "the table");
    let is_whole = [head_dim, q_stride, q_head_stride, kv_stride].iter().all(|n| n.is_multiple_of(4));
    let wide = i32::from(is_whole && [q, k, q_weight, k_weight].iter().all(|part| part.is_aligned(16)));
    let names = ["qkv_rope_append_f32", "qkv_rope_append_f16", "qkv_rope_append_bf16"];
    let (kernel, caches) = CellsMut::pair(k_cache, v_cache, n_embd_kv, names);
    let outputs = [y.into(), caches[0], caches[1]];
    let buffers = [q, k, v, q_weight, k_weight].map(Arg::from);
    let more = [cells.into(), positions.into(), table.into()];
    let sizes =
        [n_tokens, n_head, n_head_kv, head_dim, n_rot, q_stride, q_head_stride, kv_stride].map(Arg::from);
    let args = [&outputs[..], &buffers, &more, &sizes, &[wide.into(), eps.into()]].concat();
    let warps = n_tokens * (n_head + 2 * n_head_kv);
    let grid = Grid::new(warps.div_ceil(WARPS), WARPS * 32).shared(WARPS * head_dim * size_of::<f32>());
    device.launch(kernel, grid, &args)
}
