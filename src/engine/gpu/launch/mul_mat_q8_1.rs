//! Launches of kernels/mul_mat_q8_1.cu.

use super::super::{Device, GpuError, Grid, Matrix, Part, PartMut};
use super::{MAX_VEC_TOKENS, Q8_1, mul_mat_vec_q8_1};
use crate::tensor::GgmlType;

const THREADS: usize = 256;
/// Rows and tokens of a block.
const TILE: usize = 64;
/// 256 columns of both in rows of 68 words, and 40 floats beside each row.
const SHARED_BYTES: usize = TILE * (2 * 68 + 40) * 4;

/// `y = scale * W x`, or `+ residual`, of activations in eight bits, for any number of tokens: x `[n_tokens, n_in]`, y and residual
/// `[n_tokens, n_out]`. Up to eight tokens are multiplied by [`mul_mat_vec_q8_1`], and have its bits.
///
/// # Errors
/// If no kernel multiplies the type with such activations, or the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn mul_mat_q8_1(
    device: &Device,
    mut y: PartMut<'_, f32>,
    w: &Matrix,
    x: &Q8_1,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
) -> Result<(), GpuError> {
    if n_tokens <= MAX_VEC_TOKENS {
        return mul_mat_vec_q8_1(device, y, w, x, n_tokens, residual);
    }
    assert_eq!(y.len(), n_tokens * w.n_out(), "mul_mat_q8_1: y");
    if let Some(residual) = residual {
        assert_eq!(residual.len(), y.len(), "mul_mat_q8_1: residual");
    }
    let kernel = kernel(w.ty()).ok_or(GpuError::MatrixType { ty: w.ty() })?;
    let grid =
        Grid::new_2d([w.n_out().div_ceil(TILE), n_tokens.div_ceil(TILE)], THREADS).shared(SHARED_BYTES);
    let scales = x.scales(n_tokens * w.n_in());
    let args = [
        (&mut y).into(),
        w.bytes().all().into(),
        x.codes(n_tokens * w.n_in()).into(),
        scales.into(),
        // Without a residual the place is taken by something that is not read.
        residual.map_or(scales.into(), Into::into),
        w.n_in().into(),
        w.n_out().into(),
        n_tokens.into(),
        w.scale().into(),
        i32::from(residual.is_some()).into(),
    ];
    device.launch(kernel, grid, &args)
}

/// The kernel of a type; none for types without blocks.
/// Whether there are integer products with a matrix of this type.
pub fn takes_q8_1(w: &Matrix) -> bool {
    kernel(w.ty()).is_some()
}

fn kernel(ty: GgmlType) -> Option<&'static str> {
    Some(match ty {
        GgmlType::Q4_0 => "mul_mat_q4_0_q8_1",
        GgmlType::Q8_0 => "mul_mat_q8_0_q8_1",
        GgmlType::Q4_K => "mul_mat_q4_k_q8_1",
        GgmlType::Q6_K => "mul_mat_q6_k_q8_1",
        GgmlType::TQ1_0 => "mul_mat_tq1_0_q8_1",
        GgmlType::TQ2_0 => "mul_mat_tq2_0_q8_1",
        GgmlType::Q1_0 => "mul_mat_q1_0_q8_1",
        GgmlType::Q2_0 => "mul_mat_q2_0_q8_1",
        GgmlType::PQ2_0 => "mul_mat_pq2_0_q8_1",
        GgmlType::PTQ1_0 => "mul_mat_ptq1_0_q8_1",
        _ => return None,
    })
}
