//! Matrices of every type that kernels decode, and activations for them.

use lockstep::engine::gpu::{Device, MATRIX_TYPES, Matrix};
use lockstep::ops::{Activations, Rows, Tracked, mul_mat};
use lockstep::quant;
use lockstep::tensor::GgmlType;
use ndarray::ArrayView2;

use crate::support::{given, values};

/// A matrix as a file has it.
pub(crate) struct Weights {
    pub(crate) ty: GgmlType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) n_in: usize,
    pub(crate) n_out: usize,
}

impl Weights {
    /// Random weights, each row of another size; every code that the type has occurs in it, also those that encoders do not choose.
    pub(crate) fn random(ty: GgmlType, n_in: usize, n_out: usize, seed: u64) -> Weights {
        let values: Vec<f32> = values(n_in * n_out, seed)
            .iter()
            .enumerate()
            .map(|(i, x)| x * (1 + i / n_in % 5) as f32)
            .collect();
        let mut bytes = quant::encode(ty, &values).unwrap();
        if let Some(of_codes) = code_bytes(ty) {
            let noise = crate::support::values(bytes.len(), seed + 1);
            for (i, (byte, noise)) in bytes.iter_mut().zip(noise).enumerate() {
                if of_codes.contains(&(i % ty.block_bytes())) {
                    *byte = ((noise + 1.0) * 128.0) as u8;
                }
            }
        }
        Weights { ty, bytes, n_in, n_out }
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows::new(self.ty, &self.bytes, self.n_in, self.n_out).unwrap()
    }

    pub(crate) fn upload(&self, device: &Device, scale: f32) -> Matrix {
        Matrix::upload(device, self.ty, &self.bytes, self.n_in, self.n_out, scale).unwrap()
    }

    /// The product in [`Tracked`] numbers, times `scale`, and with a residual: `[n_tokens, n_out]`.
    pub(crate) fn product(&self, x: &[f32], scale: f32, residual: Option<&[f32]>) -> Vec<Tracked> {
        let x = given(x);
        let x = ArrayView2::from_shape((x.len() / self.n_in, self.n_in), &x).unwrap();
        let y = mul_mat(&self.rows(), x, Activations::Whole).into_raw_vec_and_offset().0;
        let scaled = y.into_iter().map(|y| y * Tracked::exact(f64::from(scale)));
        match residual {
            None => scaled.collect(),
            Some(residual) => scaled.zip(given(residual)).map(|(y, residual)| y + residual).collect(),
        }
    }
}

/// Where the codes of a block lie, in types where any byte is a code; with five trits a byte some stand for nothing.
fn code_bytes(ty: GgmlType) -> Option<std::ops::Range<usize>> {
    match ty {
        GgmlType::PQ2_0 | GgmlType::Q2_0 | GgmlType::Q1_0 | GgmlType::Q8_0 | GgmlType::Q4_0 => {
            Some(2..ty.block_bytes())
        }
        GgmlType::PTQ1_0 => Some(0..26),
        GgmlType::TQ1_0 => Some(0..52),
        GgmlType::TQ2_0 => Some(0..64),
        GgmlType::Q4_K => Some(4..144),
        GgmlType::Q6_K => Some(0..208),
        _ => None,
    }
}

/// Widths for a type: one and three blocks; without blocks, odd ones too.
pub(crate) fn widths(ty: GgmlType) -> Vec<usize> {
    match ty.block_elements() {
        1 => vec![1, 31, 33, 64, 1025],
        block => vec![block, 3 * block],
    }
}

/// The types of blocks.
pub(crate) fn block_types() -> impl Iterator<Item = GgmlType> {
    MATRIX_TYPES.iter().copied().filter(|ty| ty.block_elements() > 1)
}
