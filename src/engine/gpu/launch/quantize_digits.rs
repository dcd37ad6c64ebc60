//! Launches of kernels/quantize_digits.cu.

use super::super::{Buffer, Device, GpuError, Grid, Part};

const THREADS: usize = 64;
/// Elements that share a scale.
const GROUP: usize = 128;
/// Tokens whose digits fill the columns of an operand.
const PAIR: usize = 2;

/// Room for activations in digits: `n_tokens` rows of `n_in`, as many as fit.
pub struct Digits {
    digits: Buffer<u32>,
    sums: Buffer<i32>,
    scales: Buffer<f32>,
}

impl Digits {
    /// Room for `n_tokens` rows of this many elements, or fewer.
    ///
    /// # Errors
    /// If memory is short.
    pub fn alloc(device: &Device, n_in: usize, n_tokens: usize) -> Result<Digits, GpuError> {
        let groups = n_in.div_ceil(GROUP) * n_tokens.div_ceil(PAIR);
        Ok(Digits {
            digits: device.alloc(groups * GROUP * PAIR)?,
            sums: device.alloc(groups * PAIR * 4)?,
            scales: device.alloc(groups * PAIR)?,
        })
    }

    /// The digits of the first rows, four in a word.
    ///
    /// # Panics
    /// If there is room for fewer.
    pub fn digits(&self, n_in: usize, n_tokens: usize) -> Part<'_, u32> {
        self.digits.part(0..groups(n_in, n_tokens) * GROUP * PAIR)
    }

    /// Minus the sum of each digit over each group of the first rows.
    ///
    /// # Panics
    /// If there is room for fewer.
    pub fn sums(&self, n_in: usize, n_tokens: usize) -> Part<'_, i32> {
        self.sums.part(0..groups(n_in, n_tokens) * PAIR * 4)
    }

    /// The scale of each group of the first rows.
    ///
    /// # Panics
    /// If there is room for fewer.
    pub fn scales(&self, n_in: usize, n_tokens: usize) -> Part<'_, f32> {
        self.scales.part(0..groups(n_in, n_tokens) * PAIR)
    }
}

fn groups(n_in: usize, n_tokens: usize) -> usize {
    n_in / GROUP * n_tokens.div_ceil(PAIR)
}

/// Takes x `[n_tokens, n_in]` apart into digits.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the rows are no whole number of groups of 128, or `y` has less room.
pub fn quantize_digits(
    device: &Device,
    y: &mut Digits,
    x: Part<'_, f32>,
    n_in: usize,
    n_tokens: usize,
) -> Result<(), GpuError> {
    assert!(n_in.is_multiple_of(GROUP), "quantize_digits: rows of {n_in}");
    assert_eq!(x.len(), n_in * n_tokens, "quantize_digits: x");
    let groups = groups(n_in, n_tokens);
    let mut digits = y.digits.part_mut(0..groups * GROUP * PAIR);
    let mut sums = y.sums.part_mut(0..groups * PAIR * 4);
    let mut scales = y.scales.part_mut(0..groups * PAIR);
    let grid = Grid::new_2d([n_in / GROUP, n_tokens.div_ceil(PAIR)], THREADS);
    let args = [
        (&mut digits).into(),
        (&mut sums).into(),
        (&mut scales).into(),
        x.into(),
        n_in.into(),
        n_tokens.into(),
    ];
    device.launch("quantize_digits_f32", grid, &args)
}
