//! A weight matrix in device memory, as it lies in the file.

use super::{Buffer, Device, GpuError, PartMut};
use crate::quant;
use crate::tensor::GgmlType;

/// `n_out` rows of `n_in` weights, decoded where they are used.
pub struct Matrix {
    ty: GgmlType,
    bytes: Buffer<u8>,
    n_in: usize,
    n_out: usize,
    scale: f32,
}

/// The types that kernels decode.
pub const MATRIX_TYPES: &[GgmlType] = &[
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::Q4_0,
    GgmlType::Q8_0,
    GgmlType::Q4_K,
    GgmlType::Q6_K,
    GgmlType::TQ1_0,
    GgmlType::TQ2_0,
    GgmlType::Q1_0,
    GgmlType::Q2_0,
    GgmlType::PQ2_0,
    GgmlType::PTQ1_0,
];

impl Matrix {
    /// Copies the bytes of a matrix to the device. `scale` is a factor of every product with it: 1 without a `.scale` tensor.
    ///
    /// # Errors
    /// If no kernel decodes the type, the bytes are not `n_out` rows of `n_in` weights, or memory is short.
    pub fn upload(
        device: &Device,
        ty: GgmlType,
        bytes: &[u8],
        n_in: usize,
        n_out: usize,
        scale: f32,
    ) -> Result<Matrix, GpuError> {
        let mut matrix = Matrix::alloc(device, ty, bytes.len(), n_in, n_out, scale)?;
        device.write(&mut matrix.bytes_mut(), bytes)?;
        Ok(matrix)
    }

    /// The same without its bytes, which are to be written.
    ///
    /// # Errors
    /// As [`Matrix::upload`].
    pub(super) fn alloc(
        device: &Device,
        ty: GgmlType,
        n_bytes: usize,
        n_in: usize,
        n_out: usize,
        scale: f32,
    ) -> Result<Matrix, GpuError> {
        if !MATRIX_TYPES.contains(&ty) {
            return Err(GpuError::MatrixType { ty });
        }
        let row_bytes = ty.row_bytes(n_in as u64).and_then(|bytes| usize::try_from(bytes).ok());
        if row_bytes.and_then(|row| row.checked_mul(n_out)) != Some(n_bytes) {
            let elements = n_in.saturating_mul(n_out);
            return Err(quant::QuantError::Size { ty, bytes: n_bytes, elements }.into());
        }
        Ok(Matrix { ty, bytes: device.alloc(n_bytes)?, n_in, n_out, scale })
    }

    /// The rows, to be written.
    pub(super) fn bytes_mut(&mut self) -> PartMut<'_, u8> {
        self.bytes.all_mut()
    }

    /// The type that the weights are stored in.
    pub fn ty(&self) -> GgmlType {
        self.ty
    }

    /// The rows, one upon the other.
    pub fn bytes(&self) -> &Buffer<u8> {
        &self.bytes
    }

    /// Weights of a row: the width of the activation.
    pub fn n_in(&self) -> usize {
        self.n_in
    }

    /// Number of rows: the width of the product.
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// The factor of every product.
    pub fn scale(&self) -> f32 {
        self.scale
    }
}
