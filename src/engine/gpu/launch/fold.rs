//! Launches of kernels/fold.cu.

use super::super::{Arg, Device, GpuError, Grid, Part, PartMut};
use super::norm::{CHUNK, WARP, assert_indexable, is_wide};

/// Values of a thread.
pub(super) const PER_THREAD: usize = 8;
/// Threads of a block that has no reason to have more: 1024 values.
const THREADS: usize = 128;
const MAX_BLOCK: usize = 8192;

/// Heads that are tiled (`k + n_k r`) in an activation and grouped (`k rep + r`) in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoldHeads {
    /// k heads.
    pub n_k: usize,
    /// v heads of each k head.
    pub rep: usize,
    /// Values of a head.
    pub head_dim: usize,
}

/// The transform in front of a folded weight: heads reordered, then signs, then the transform
/// ([`Transform`](crate::model::Transform)).
#[derive(Clone, Copy)]
pub struct FoldParams<'a> {
    /// Values of a Hadamard block, a power of two from 2 to 8192.
    pub block: usize,
    /// Whether the transform is scaled by `1 / sqrt(block)`.
    pub normalize: bool,
    /// A sign for each value of a row; none: all positive.
    pub signs: Option<Part<'a, i8>>,
    /// Heads that are reordered first, from tiled to grouped.
    pub heads: Option<FoldHeads>,
}

impl FoldParams<'_> {
    /// The transform alone.
    pub fn of_block(block: usize) -> FoldParams<'static> {
        FoldParams { block, normalize: true, signs: None, heads: None }
    }

    /// Panics unless rows of `n` values can be transformed.
    pub(super) fn check(&self, what: &str, n: usize) {
        let block = self.block;
        assert!(block.is_power_of_two() && (2..=MAX_BLOCK).contains(&block), "{what}: blocks of {block}");
        assert!(n > 0 && n.is_multiple_of(block), "{what}: rows of {n} values in blocks of {block}");
        assert!(self.signs.is_none_or(|signs| signs.len() == n), "{what}: signs of a row of {n} values");
        if let Some(FoldHeads { n_k, rep, head_dim }) = self.heads {
            assert_eq!(n_k * rep * head_dim, n, "{what}: {:?}", self.heads);
        }
    }

    /// Whether signs and heads allow to read four values at a time.
    pub(super) fn is_wide(&self) -> bool {
        self.signs.is_none_or(|signs| signs.is_aligned(4))
            && self.heads.is_none_or(|heads| heads.head_dim.is_multiple_of(4))
    }

    /// A kernel's argument `signs`.
    pub(super) fn signs(&self) -> Arg {
        self.signs.map_or(Arg::Read(0), Arg::from)
    }

    /// A kernel's argument `log_block`.
    pub(super) fn log_block(&self) -> Arg {
        (self.block.ilog2() as usize).into()
    }

    /// A kernel's arguments `n_k`, `rep`, `head_dim`.
    pub(super) fn heads(&self) -> [Arg; 3] {
        let FoldHeads { n_k, rep, head_dim } =
            self.heads.unwrap_or(FoldHeads { n_k: 0, rep: 1, head_dim: 1 });
        [n_k, rep, head_dim].map(Arg::from)
    }

    /// A kernel's argument `scale`.
    pub(super) fn scale(&self) -> Arg {
        (if self.normalize { (1.0 / (self.block as f64).sqrt()) as f32 } else { 1.0 }).into()
    }

    /// With shared memory for the exchange, if a block of values is spread over warps.
    pub(super) fn shared(&self, grid: Grid) -> Grid {
        let values = grid.threads[0] as usize * PER_THREAD;
        grid.shared(if self.block > CHUNK { values * size_of::<f32>() } else { 0 })
    }

    /// A grid of `(rows, parts of a row)`.
    pub(super) fn grid(&self, rows: usize, n: usize) -> Grid {
        assert_indexable(rows * n);
        let threads = (n.div_ceil(CHUNK) * WARP).min(THREADS).max(self.block / PER_THREAD);
        self.shared(Grid::new_2d([rows, n.div_ceil(threads * PER_THREAD)], threads))
    }
}

/// What a kernel that ends in a fold writes, `[rows, n]` each.
pub struct Folded<'a> {
    /// What is folded, if it is wanted as well.
    pub plain: Option<PartMut<'a, f32>>,
    /// Its fold.
    pub folded: PartMut<'a, f32>,
}

impl Folded<'_> {
    /// Panics unless both are `[rows, n]` and the fold fits them.
    pub(super) fn check(&self, what: &str, rows: usize, n: usize, fold: &FoldParams<'_>) {
        fold.check(what, n);
        assert_eq!(self.folded.len(), rows * n, "{what}: fold of [{rows}, {n}]");
        assert!(self.plain.as_ref().is_none_or(|plain| plain.len() == rows * n), "{what} of [{rows}, {n}]");
    }

    /// Whether both allow to write four values at a time.
    pub(super) fn is_aligned(&self) -> bool {
        self.folded.is_aligned(16) && self.plain.as_ref().is_none_or(|plain| plain.is_aligned(16))
    }

    /// A kernel's first two arguments.
    pub(super) fn args(&mut self) -> [Arg; 2] {
        [self.plain.as_mut().map_or(Arg::Write(0), Arg::from), (&mut self.folded).into()]
    }
}

/// `y` = the transform of each of `rows` rows of `n` values of `x`: what a folded matrix is multiplied with. Bit for bit what
/// [`Transform::apply`](crate::model::Transform::apply) gives with `FoldOrder::SignsThenWht`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y` or `x` is not `[rows, n]`, or rows do not fit the transform.
pub fn fold(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    rows: usize,
    n: usize,
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    assert_eq!([y.len(), x.len()], [rows * n; 2], "fold of [{rows}, {n}]");
    fold.check("fold", n);
    let wide = is_wide(&[n], &[y.is_aligned(16), x.is_aligned(16), fold.is_wide()]);
    let [n_k, rep, head_dim] = fold.heads();
    let (y, wide) = ((&mut y).into(), i32::from(wide).into());
    let args =
        [y, x.into(), fold.signs(), n.into(), fold.log_block(), n_k, rep, head_dim, wide, fold.scale()];
    device.launch("fold_f32", fold.grid(rows, n), &args)
}

/// The inverse behind a row of a folded table: the transform, then the signs (`FoldOrder::WhtThenSigns`), bit for bit.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y` or `x` is not `[rows, n]`, rows do not fit the transform, or it reorders heads.
pub fn unfold(
    device: &Device,
    y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    rows: usize,
    n: usize,
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    assert_eq!([y.len(), x.len()], [rows * n; 2], "unfold of [{rows}, {n}]");
    launch_unfold(device, y, x.is_aligned(16), x.into(), [rows, n], fold)
}

/// [`unfold`] of rows in place.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `x` is not `[rows, n]`, rows do not fit the transform, or it reorders heads.
pub fn unfold_in_place(
    device: &Device,
    x: PartMut<'_, f32>,
    rows: usize,
    n: usize,
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    assert_eq!(x.len(), rows * n, "unfold of [{rows}, {n}]");
    let from = x.as_part().into();
    launch_unfold(device, x, true, from, [rows, n], fold)
}

fn launch_unfold(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x_is_aligned: bool,
    x: Arg,
    [rows, n]: [usize; 2],
    fold: &FoldParams<'_>,
) -> Result<(), GpuError> {
    fold.check("unfold", n);
    assert!(fold.heads.is_none(), "unfold: a table's rows have no heads");
    let wide = is_wide(&[n], &[y.is_aligned(16), x_is_aligned, fold.is_wide()]);
    let (y, wide) = ((&mut y).into(), i32::from(wide).into());
    let args = [y, x, fold.signs(), n.into(), fold.log_block(), wide, fold.scale()];
    device.launch("unfold_f32", fold.grid(rows, n), &args)
}
