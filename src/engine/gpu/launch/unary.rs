//! Launches of kernels/unary.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};

const THREADS: usize = 256;

/// `y = silu(x)`, element by element.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes differ.
pub fn silu(device: &Device, mut y: PartMut<'_, f32>, x: Part<'_, f32>) -> Result<(), GpuError> {
    let n = x.len();
    assert_eq!(y.len(), n, "silu");
    let grid = Grid::new(n.div_ceil(THREADS), THREADS);
    device.launch("silu_f32", grid, &[(&mut y).into(), x.into(), n.into()])
}
