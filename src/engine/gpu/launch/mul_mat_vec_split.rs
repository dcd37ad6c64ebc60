//! Launches of kernels/mul_mat_vec_split.cu: an experiment with another layout of weights, which `lockstep bench` times and no engine
//! runs.

use super::super::{Buffer, Device, GpuError, Grid, Part, PartMut};
use crate::tensor::GgmlType;

const THREADS: usize = 256;
/// Rows of a block.
const ROWS: usize = 32;
/// Bytes of x that a block keeps.
const STAGE_BYTES: usize = 1024 / 8 * 9 * 16;
/// Elements of a block of PQ2_0, and bytes of its scale, which stands in front of its codes.
const BLOCK: usize = 128;
const SCALE: usize = 2;

/// A PQ2_0 matrix whose codes and scales lie apart.
pub struct SplitMatrix {
    codes: Buffer<u8>,
    scales: Buffer<u16>,
    n_in: usize,
    n_out: usize,
}

impl SplitMatrix {
    /// Takes rows of PQ2_0 blocks apart and copies them to the device.
    ///
    /// # Errors
    /// If memory is short.
    ///
    /// # Panics
    /// If the bytes are not `n_out` rows of `n_in` weights.
    pub fn upload(device: &Device, bytes: &[u8], n_in: usize, n_out: usize) -> Result<SplitMatrix, GpuError> {
        let block = GgmlType::PQ2_0.block_bytes();
        assert!(n_in > 0 && n_in.is_multiple_of(BLOCK), "rows of {n_in}");
        assert_eq!(bytes.len(), n_in / BLOCK * block * n_out, "{n_out} rows of {n_in}");
        let scales: Vec<u16> =
            bytes.chunks_exact(block).map(|block| u16::from_le_bytes([block[0], block[1]])).collect();
        let codes: Vec<u8> = bytes.chunks_exact(block).flat_map(|block| &block[SCALE..]).copied().collect();
        Ok(SplitMatrix { codes: device.upload(&codes)?, scales: device.upload(&scales)?, n_in, n_out })
    }

    /// Bytes of both.
    pub fn n_bytes(&self) -> usize {
        self.codes.len() + self.scales.len() * size_of::<u16>()
    }
}

/// `y [n_out] = W x` for one token: the bits of [`mul_mat_vec`](super::mul_mat_vec()) with the same weights.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or x is not aligned to 16 bytes.
pub fn mul_mat_vec_split(
    device: &Device,
    y: PartMut<'_, f32>,
    w: &SplitMatrix,
    x: Part<'_, f32>,
) -> Result<(), GpuError> {
    assert_eq!((y.len(), x.len()), (w.n_out, w.n_in), "mul_mat_vec_split: y and x");
    assert!(x.is_aligned(16), "mul_mat_vec_split: x is not aligned to 16 bytes");
    let args =
        [y.into(), w.codes.all().into(), w.scales.all().into(), x.into(), w.n_out.into(), w.n_in.into()];
    device.launch(
        "mul_mat_vec_split_f32",
        Grid::new(w.n_out.div_ceil(ROWS), THREADS).shared(STAGE_BYTES),
        &args,
    )
}
