//! Launches of kernels/quantize_q8_1.cu.

use super::super::{Buffer, Device, GpuError, Grid, Part};

const THREADS: usize = 256;
/// Elements that share a scale.
const BLOCK: usize = 32;

/// Room for activations in eight bits: `n_tokens` rows of `n_in`, as many as fit.
pub struct Q8_1 {
    codes: Buffer<i8>,
    scales: Buffer<u32>,
}

impl Q8_1 {
    /// Room for this many elements.
    ///
    /// # Errors
    /// If memory is short.
    pub fn alloc(device: &Device, elements: usize) -> Result<Q8_1, GpuError> {
        let elements = elements.next_multiple_of(BLOCK);
        Ok(Q8_1 { codes: device.alloc(elements)?, scales: device.alloc(elements / BLOCK)? })
    }

    /// The codes of the first `elements`.
    ///
    /// # Panics
    /// If there is room for fewer.
    pub fn codes(&self, elements: usize) -> Part<'_, i8> {
        self.codes.part(0..elements)
    }

    /// Scale and sum of each 32 of the first `elements`: two f16, the scale in the lower half.
    ///
    /// # Panics
    /// If there is room for fewer.
    pub fn scales(&self, elements: usize) -> Part<'_, u32> {
        self.scales.part(0..elements / BLOCK)
    }
}

/// Rounds x as ggml-cuda does in front of its products; the rows of x are whole blocks of 32.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If x is no whole number of blocks, or `y` has less room.
pub fn quantize_q8_1(device: &Device, y: &mut Q8_1, x: Part<'_, f32>) -> Result<(), GpuError> {
    let n = x.len();
    assert!(n.is_multiple_of(BLOCK), "quantize_q8_1: {n} elements");
    let mut codes = y.codes.part_mut(0..n);
    let mut scales = y.scales.part_mut(0..n / BLOCK);
    let grid = Grid::new(n.div_ceil(THREADS), THREADS);
    device.launch("quantize_q8_1_f32", grid, &[(&mut codes).into(), (&mut scales).into(), x.into(), n.into()])
}
