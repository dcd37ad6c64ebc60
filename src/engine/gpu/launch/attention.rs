//! Launches of kernels/attention.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};
use super::kv_append::Cells;

/// Attention over the cells of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttnShape {
    /// Tokens of the stream in this ubatch.
    pub n_tokens: usize,
    /// Heads of q.
    pub n_head: usize,
    /// Heads of k and v; each is read by `n_head / n_head_kv` neighbouring heads of q.
    pub n_head_kv: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Cells that are looked at, from 0 on.
    pub n_kv: usize,
}

impl AttnShape {
    fn check(&self) {
        assert!(self.n_tokens > 0 && self.n_kv > 0 && self.head_dim > 0, "nothing to attend to: {self:?}");
        let is_grouped = self.n_head_kv > 0 && self.n_head.is_multiple_of(self.n_head_kv);
        assert!(is_grouped, "{} heads, {} of k and v", self.n_head, self.n_head_kv);
    }

    fn check_cache(&self, cells: &Cells<'_>) {
        assert!(
            cells.len() >= self.n_kv * self.n_head_kv * self.head_dim,
            "a cache of {} values",
            cells.len()
        );
    }

    /// Values in q and in kqv.
    pub fn n_values(&self) -> usize {
        self.n_tokens * self.n_head * self.head_dim
    }

    /// Values in kq: `[n_head, n_tokens, n_kv]`.
    pub fn n_scores(&self) -> usize {
        self.n_head * self.n_tokens * self.n_kv
    }
}

/// `kq` `[n_head, n_tokens, n_kv]`: products of `q` `[n_tokens, n_head, head_dim]` with the keys of all cells, visible or not, without
/// a scale.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn kq(
    device: &Device,
    kq: PartMut<'_, f32>,
    q: Part<'_, f32>,
    k: Cells<'_>,
    shape: &AttnShape,
) -> Result<(), GpuError> {
    shape.check();
    shape.check_cache(&k);
    assert_eq!((kq.len(), q.len()), (shape.n_scores(), shape.n_values()), "kq");
    let kernel = k.kernel(["kq_f32", "kq_f16", "kq_bf16"]);
    let &AttnShape { n_tokens, n_head, n_head_kv, head_dim, n_kv } = shape;
    let args = [kq.into(), q.into(), k.arg(), n_kv.into(), head_dim.into(), n_head_kv.into()];
    device.launch(kernel, Grid::new_3d([n_kv.div_ceil(8), n_tokens, n_head], 256), &args)
}

/// The softmax of each row of `kq` `[n_head, n_tokens, n_kv]` in place, scaled, over cells of which `mask` `[n_tokens, n_kv]` is 1; the
/// others become 0. A row in which nothing is visible becomes NaN.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn soft_max(
    device: &Device,
    kq: PartMut<'_, f32>,
    mask: Part<'_, u8>,
    scale: f32,
    shape: &AttnShape,
) -> Result<(), GpuError> {
    shape.check();
    assert_eq!((kq.len(), mask.len()), (shape.n_scores(), shape.n_tokens * shape.n_kv), "soft_max");
    let args = [kq.into(), mask.into(), shape.n_tokens.into(), shape.n_kv.into(), scale.into()];
    device.launch("soft_max_f32", Grid::new(shape.n_head * shape.n_tokens, 256), &args)
}

/// `kqv` `[n_head, n_tokens, head_dim]`: the values of visible cells weighted with `kq_soft_max` `[n_head, n_tokens, n_kv]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn kqv(
    device: &Device,
    kqv: PartMut<'_, f32>,
    kq_soft_max: Part<'_, f32>,
    v: Cells<'_>,
    mask: Part<'_, u8>,
    shape: &AttnShape,
) -> Result<(), GpuError> {
    shape.check();
    shape.check_cache(&v);
    assert_eq!((kqv.len(), kq_soft_max.len()), (shape.n_values(), shape.n_scores()), "kqv");
    assert_eq!(mask.len(), shape.n_tokens * shape.n_kv, "the mask of kqv");
    let kernel = v.kernel(["kqv_f32", "kqv_f16", "kqv_bf16"]);
    let &AttnShape { n_tokens, n_head, n_head_kv, head_dim, n_kv } = shape;
    let sizes = [n_kv.into(), head_dim.into(), n_head_kv.into()];
    let args = [kqv.into(), kq_soft_max.into(), v.arg(), mask.into()];
    let grid = Grid::new_3d([head_dim.div_ceil(64), n_tokens, n_head], 64);
    device.launch(kernel, grid, &[&args[..], &sizes].concat())
}

/// Rounds values in place to what the cells of a cache hold: what a product with keys or values does to its other factor in ggml.
///
/// # Errors
/// If the launch fails.
pub fn round_like(device: &Device, x: PartMut<'_, f32>, cells: Cells<'_>) -> Result<(), GpuError> {
    let kernel = match cells {
        Cells::F32(_) => return Ok(()),
        Cells::F16(_) => "round_f16",
        Cells::Bf16(_) => "round_bf16",
    };
    let n = x.len();
    device.launch(kernel, Grid::new(n.div_ceil(256), 256), &[x.into(), n.into()])
}
