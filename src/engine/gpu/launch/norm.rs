//! Launches of kernels/norm.cu, and how rows lie over warps (kernels/row.cuh).

use super::super::{Device, GpuError, Grid, Part, PartMut};

pub(super) const WARP: usize = 32;
/// Values of a row that a warp holds at a time.
pub(super) const CHUNK: usize = 256;
/// Values of the longest row: 32 warps with three chunks each.
const MAX_ROW: usize = 32 * 3 * CHUNK;
/// Warps of a block in which each has a row of its own.
const ROWS_PER_BLOCK: usize = 4;

/// Blocks, and warps for each row.
pub(super) fn row_grid(rows: usize, n: usize) -> (Grid, usize) {
    assert!((1..=MAX_ROW).contains(&n), "rows of {n} values, at most {MAX_ROW}");
    assert_indexable(rows * n);
    match n.div_ceil(CHUNK).min(32) {
        1 => (Grid::new(rows.div_ceil(ROWS_PER_BLOCK), ROWS_PER_BLOCK * WARP), 1),
        warps => (Grid::new(rows, warps * WARP), warps),
    }
}

/// Kernels count the values of a buffer in `int`.
pub(super) fn assert_indexable(n: usize) {
    assert!(i32::try_from(n).is_ok(), "{n} values in one buffer");
}

/// Whether sizes and addresses allow to read four values at a time: `wide` of kernels.
pub(super) fn is_wide(sizes: &[usize], are_aligned: &[bool]) -> bool {
    sizes.iter().all(|size| size.is_multiple_of(4)) && are_aligned.iter().all(|&is| is)
}

/// `y = x / sqrt(mean(x^2) + eps)` for each of `rows` rows of `n`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y` or `x` is not `[rows, n]`, or rows are too long.
pub fn rms_norm(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    rows: usize,
    n: usize,
    eps: f32,
) -> Result<(), GpuError> {
    assert_eq!([y.len(), x.len()], [rows * n; 2], "rms_norm of [{rows}, {n}]");
    let (grid, warps) = row_grid(rows, n);
    let wide = is_wide(&[n], &[y.is_aligned(16), x.is_aligned(16)]);
    let args =
        [(&mut y).into(), x.into(), rows.into(), n.into(), warps.into(), i32::from(wide).into(), eps.into()];
    device.launch("rms_norm_f32", grid, &args)
}

/// `y = rms_norm(x) weight`, with the bits of [`rms_norm`] and [`mul_row`](super::mul_row) behind it.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y` or `x` is not `[rows, n]`, `weight` not `[n]`, or rows are too long.
pub fn rms_norm_weighted(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    weight: Part<'_, f32>,
    [rows, n]: [usize; 2],
    eps: f32,
) -> Result<(), GpuError> {
    assert_eq!([y.len(), x.len()], [rows * n; 2], "rms_norm_weighted of [{rows}, {n}]");
    assert_eq!(weight.len(), n, "rms_norm_weighted: weight");
    let (grid, warps) = row_grid(rows, n);
    let wide = is_wide(&[n], &[y.is_aligned(16), x.is_aligned(16), weight.is_aligned(16)]);
    let wide = i32::from(wide).into();
    let args =
        [(&mut y).into(), x.into(), weight.into(), rows.into(), n.into(), warps.into(), wide, eps.into()];
    device.launch("rms_norm_weighted_f32", grid, &args)
}

/// Heads that lie one behind the other in a part of each token's row: `x` begins with the first head of the first token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heads {
    /// Tokens.
    pub tokens: usize,
    /// Heads of a token.
    pub per_token: usize,
    /// Values of a head.
    pub n: usize,
    /// Values from a token's first head to the next token's.
    pub stride: usize,
}

impl Heads {
    fn rows(&self) -> usize {
        self.tokens * self.per_token
    }

    fn check(&self, what: &str, y: usize, x: usize) {
        let &Heads { tokens, per_token, n, stride } = self;
        assert!(per_token > 0 && stride >= per_token * n, "{what}: {self:?}");
        assert_eq!(y, self.rows() * n, "{what}: output of {self:?}");
        let needed = if tokens == 0 { 0 } else { (tokens - 1) * stride + per_token * n };
        assert_indexable(needed);
        assert!(x >= needed, "{what}: {x} values for {self:?}");
    }
}

/// `y = x / max(sqrt(sum(x^2)), eps)` for each head; `y` is packed, `[tokens, per_token, n]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `x` is too short for the heads, or `y` has another size.
pub fn l2_norm(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    heads: Heads,
    eps: f32,
) -> Result<(), GpuError> {
    heads.check("l2_norm", y.len(), x.len());
    let Heads { per_token, n, stride, .. } = heads;
    let (grid, warps) = row_grid(heads.rows(), n);
    let wide = is_wide(&[n, stride], &[y.is_aligned(16), x.is_aligned(16)]);
    let sizes = [heads.rows(), per_token, stride, n, warps, usize::from(wide)].map(Into::into);
    let args = [&[(&mut y).into(), x.into()], &sizes[..], &[eps.into()]].concat();
    device.launch("l2_norm_f32", grid, &args)
}

/// `y = x / sqrt(sum(x^2) + eps)` for each head, as ggml computes it: `rms_norm(x, eps / n) / sqrt(n)`, rounded twice. `y` is
/// packed, `[tokens, per_token, n]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `x` is too short for the heads, or `y` has another size.
pub fn l2_norm_inside(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    heads: Heads,
    eps: f64,
) -> Result<(), GpuError> {
    heads.check("l2_norm_inside", y.len(), x.len());
    let Heads { per_token, n, stride, .. } = heads;
    let (grid, warps) = row_grid(heads.rows(), n);
    let wide = is_wide(&[n, stride], &[y.is_aligned(16), x.is_aligned(16)]);
    let sizes = [heads.rows(), per_token, stride, n, warps, usize::from(wide)].map(Into::into);
    let scalars = [eps / n as f64, 1.0 / (n as f64).sqrt()].map(|scalar| (scalar as f32).into());
    let args = [&[(&mut y).into(), x.into()], &sizes[..], &scalars].concat();
    device.launch("l2_norm_inside_f32", grid, &args)
}
