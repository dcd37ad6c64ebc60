//! Launches of kernels/rope.cu, and the table that they read.

use std::ops::Range;

use super::super::{Device, GpuError, Grid, Part, PartMut};
use crate::ops::{Rope, RopePairing};

const WARPS: usize = 4;

/// Heads to rotate: head h of token t begins at `t token_stride + h head_stride`, and comes out packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RopeShape {
    /// Tokens.
    pub n_tokens: usize,
    /// Heads of each.
    pub n_head: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of it that rotate, even.
    pub n_rot: usize,
    /// From one token to the next, in values.
    pub token_stride: usize,
    /// From one head to the next, in values.
    pub head_stride: usize,
}

impl RopeShape {
    /// Heads that lie side by side.
    pub fn packed(n_tokens: usize, n_head: usize, head_dim: usize, n_rot: usize) -> RopeShape {
        RopeShape {
            n_tokens,
            n_head,
            head_dim,
            n_rot,
            token_stride: n_head * head_dim,
            head_stride: head_dim,
        }
    }

    fn check(&self, y: usize, x: usize, positions: usize, table: Part<'_, f32>) {
        let &RopeShape { n_tokens, n_head, head_dim, n_rot, token_stride, head_stride } = self;
        assert!(n_tokens > 0 && n_head > 0, "nothing to rotate: {self:?}");
        assert!(
            n_rot.is_multiple_of(2) && n_rot > 0 && n_rot <= head_dim,
            "{n_rot} of {head_dim} elements rotate"
        );
        assert_eq!((y, positions), (n_tokens * n_head * head_dim, n_tokens), "rope: y and positions");
        assert!(x >= (n_tokens - 1) * token_stride + (n_head - 1) * head_stride + head_dim, "rope: x");
        assert!(table.len().is_multiple_of(n_rot) && !table.is_empty(), "rope: table");
        assert!(table.is_aligned(8), "rope: the table is not aligned to 8 bytes");
    }

    fn grid(&self) -> Grid {
        Grid::new((self.n_tokens * self.n_head).div_ceil(WARPS), WARPS * 32)
    }

    fn sizes(&self) -> [super::super::Arg; 6] {
        [self.n_tokens, self.n_head, self.head_dim, self.n_rot, self.token_stride, self.head_stride]
            .map(Into::into)
    }
}

/// The table `[n_positions, n_dims / 2]` of (cos, sin) for text at these positions; angles in f64, then rounded.
///
/// # Panics
/// If pairs are not half a head apart.
pub fn rope_table(rope: &Rope, positions: Range<i64>) -> Vec<f32> {
    assert_eq!(rope.pairing, RopePairing::Half, "the kernels rotate pairs half a head apart");
    let mut table = Vec::with_capacity(positions.clone().count() * rope.n_dims);
    for p in positions {
        for turn in rope.turns(&[p, p, p, 0]) {
            table.extend([turn.angle.cos() as f32, turn.angle.sin() as f32]);
        }
    }
    table
}

/// Rotates the first `n_rot` elements of each head by the row of the table that `positions` `[n_tokens]` names, into packed `y`
/// `[n_tokens, n_head, head_dim]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn rope(
    device: &Device,
    y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    positions: Part<'_, i32>,
    table: Part<'_, f32>,
    shape: &RopeShape,
) -> Result<(), GpuError> {
    shape.check(y.len(), x.len(), positions.len(), table);
    let args = [y.into(), x.into(), positions.into(), table.into()];
    device.launch("rope_f32", shape.grid(), &[&args[..], &shape.sizes()].concat())
}

/// Norm of each head with `weight` `[head_dim]`, then its rotation: what `rms_norm`, `mul_row` and [`rope`] do, bit by bit.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
#[allow(clippy::too_many_arguments)] // the operators have five tensors
pub fn qk_norm_rope(
    device: &Device,
    y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    weight: Part<'_, f32>,
    positions: Part<'_, i32>,
    table: Part<'_, f32>,
    shape: &RopeShape,
    eps: f32,
) -> Result<(), GpuError> {
    shape.check(y.len(), x.len(), positions.len(), table);
    assert_eq!(weight.len(), shape.head_dim, "the weight of a norm");
    assert!(shape.head_dim <= 256, "a norm over heads of {}", shape.head_dim);
    let args = [y.into(), x.into(), weight.into(), positions.into(), table.into()];
    let is_whole =
        [shape.head_dim, shape.token_stride, shape.head_stride].iter().all(|n| n.is_multiple_of(4));
    let wide = i32::from(is_whole && x.is_aligned(16) && weight.is_aligned(16));
    let grid = shape.grid().shared(WARPS * shape.head_dim * size_of::<f32>());
    device.launch("qk_norm_rope_f32", grid, &[&args[..], &shape.sizes(), &[wide.into(), eps.into()]].concat())
}
