//! Launches of kernels/flash_attn_decode.cu, and what attention in one pass runs over.

use super::super::{Arg, Device, GpuError, Grid, Part, PartMut};
use super::kv_append::Cells;

const THREADS: usize = 256;
/// Cells between two barriers, heads of q for a kv head, elements that a thread adds up: TILE, MAX_GROUP and VALUES in the kernel.
const TILE: usize = 64;
const MAX_GROUP: usize = 8;
const VALUES: usize = 4;
/// Blocks that a multiprocessor runs at once.
const BLOCKS_PER_SM: usize = 2;

/// Heads of attention in one pass over the cells; sequences side by side, each with as many tokens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlashShape {
    /// Sequences.
    pub n_seqs: usize,
    /// Tokens of each.
    pub n_tokens: usize,
    /// Heads of q.
    pub n_head: usize,
    /// Heads of k and v; each is read by `n_head / n_head_kv` neighbouring heads of q.
    pub n_head_kv: usize,
    /// Elements of a head: 32, 64, 128 or 256.
    pub head_dim: usize,
    /// Scores are multiplied by this.
    pub scale: f32,
}

/// A cache, and which of its cells are whose. Cell j of an owner is `first + j`, or `cells[first + j]` where there is a list.
///
/// Owners are tokens for a kernel that takes single tokens, sequences for one that takes many. What these name must lie in the cache:
/// it is in device memory, and no launcher sees it.
#[derive(Clone, Copy)]
pub struct FlashCache<'a> {
    /// Keys `[n_cells, n_head_kv, head_dim]`.
    pub k: Cells<'a>,
    /// Values, of the same type.
    pub v: Cells<'a>,
    /// One for each owner.
    pub first: Part<'a, i32>,
    /// Cells in the order of their positions.
    pub cells: Option<Part<'a, i32>>,
}

impl FlashShape {
    /// Whether there are kernels for heads of these numbers and this size.
    pub fn fits(n_head: usize, n_head_kv: usize, head_dim: usize) -> bool {
        [32, 64, 128, 256].contains(&head_dim) && n_head / n_head_kv <= MAX_GROUP
    }

    /// Values in q and in what comes out.
    pub fn n_values(&self) -> usize {
        self.n_seqs * self.n_tokens * self.n_head * self.head_dim
    }

    pub(super) fn check(&self, y: &PartMut<'_, f32>, q: Part<'_, f32>, cache: &FlashCache<'_>) {
        self.check_inputs(q, cache);
        assert_eq!(y.len(), self.n_values(), "attention: y");
        assert!(y.is_aligned(16), "attention: y is not aligned to 16 bytes");
    }

    fn check_inputs(&self, q: Part<'_, f32>, cache: &FlashCache<'_>) {
        assert!(self.n_seqs > 0 && self.n_tokens > 0, "nothing to attend to: {self:?}");
        let is_grouped = self.n_head_kv > 0 && self.n_head.is_multiple_of(self.n_head_kv);
        assert!(is_grouped, "{} heads, {} of k and v", self.n_head, self.n_head_kv);
        assert!([32, 64, 128, 256].contains(&self.head_dim), "no kernel for heads of {}", self.head_dim);
        assert_eq!(q.len(), self.n_values(), "attention: q");
        let (k, v) = (cache.k.len(), cache.v.len());
        assert!(k == v && k.is_multiple_of(self.n_head_kv * self.head_dim), "caches of {k} and {v} values");
        let names = ["f32", "f16", "bf16"];
        assert_eq!(cache.k.kernel(names), cache.v.kernel(names), "caches of two types");
        let is_aligned = cache.k.is_aligned(16) && cache.v.is_aligned(16);
        assert!(is_aligned && q.is_aligned(16), "attention: not aligned to 16 bytes");
    }

    /// Arguments from `n_head` to `scale`.
    pub(super) fn args(&self, cache: &FlashCache<'_>) -> [Arg; 5] {
        let is_listed = i32::from(cache.cells.is_some());
        [self.n_head.into(), self.n_head_kv.into(), self.head_dim.into(), is_listed.into(), self.scale.into()]
    }

    /// Over how many blocks the cells of a token are spread, where up to `max_kv` cells are visible. The same for the same numbers on the
    /// same kind of device.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn n_splits(&self, device: &Device, max_kv: usize) -> Result<usize, GpuError> {
        let wanted = (device.n_sm()? * BLOCKS_PER_SM).div_ceil(self.n_head_kv * self.n_seqs * self.n_tokens);
        Ok(wanted.clamp(1, max_kv.div_ceil(TILE).max(1)))
    }

    /// Values of the scratch memory for so many splits.
    pub fn n_scratch(&self, n_splits: usize) -> usize {
        self.n_seqs * self.n_tokens * self.n_head * n_splits * (self.head_dim + 2)
    }
}

/// `y` `[n_seqs, n_tokens, n_head, head_dim]`: what single tokens read from the first `n_kv[t]` cells of each of them
/// (`[n_seqs n_tokens]`, in device memory). The cells are spread over `n_splits` blocks.
///
/// # Errors
/// If a launch fails.
///
/// # Panics
/// If the sizes do not belong together, or there is no kernel for them.
#[allow(clippy::too_many_arguments)] // the operator has seven tensors
pub fn flash_attn_decode(
    device: &Device,
    y: PartMut<'_, f32>,
    mut scratch: PartMut<'_, f32>,
    q: Part<'_, f32>,
    cache: &FlashCache<'_>,
    n_kv: Part<'_, i32>,
    n_splits: usize,
    shape: &FlashShape,
) -> Result<(), GpuError> {
    shape.check(&y, q, cache);
    flash_attn_decode_splits(device, &mut scratch, q, cache, n_kv, n_splits, shape)?;
    let grid = Grid::new_2d([shape.n_head, shape.n_seqs * shape.n_tokens], shape.head_dim);
    let args = [y.into(), scratch.as_part().into(), n_kv.into(), n_splits.into()];
    device.launch("flash_attn_combine_f32", grid, &args)
}

/// The first half of [`flash_attn_decode`]: what each split adds up, in `scratch`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or there is no kernel for them.
pub fn flash_attn_decode_splits(
    device: &Device,
    scratch: &mut PartMut<'_, f32>,
    q: Part<'_, f32>,
    cache: &FlashCache<'_>,
    n_kv: Part<'_, i32>,
    n_splits: usize,
    shape: &FlashShape,
) -> Result<(), GpuError> {
    shape.check_inputs(q, cache);
    let &FlashShape { n_head, n_head_kv, head_dim, .. } = shape;
    let rows = shape.n_seqs * shape.n_tokens;
    assert!(n_head / n_head_kv <= MAX_GROUP, "{} heads of q for one of k", n_head / n_head_kv);
    assert_eq!((n_kv.len(), cache.first.len()), (rows, rows), "n_kv and first of each token");
    assert!(n_splits > 0 && scratch.len() >= shape.n_scratch(n_splits), "scratch for {n_splits} splits");
    let kernel = cache.k.kernel(["flash_attn_decode_f32", "flash_attn_decode_f16", "flash_attn_decode_bf16"]);
    let shared = MAX_GROUP * head_dim + 2 * TILE * MAX_GROUP + 2 * MAX_GROUP + THREADS * VALUES;
    let grid = Grid::new_3d([n_splits, n_head_kv, rows], THREADS).shared(shared * size_of::<f32>());
    let cells = cache.cells.unwrap_or(n_kv);
    let args = [scratch.into(), q.into(), cache.k.arg(), cache.v.arg(), n_kv.into()];
    let args = [&args[..], &[cache.first.into(), cells.into()], &shape.args(cache)].concat();
    device.launch(kernel, grid, &args)
}
