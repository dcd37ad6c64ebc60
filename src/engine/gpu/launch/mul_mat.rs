//! Launches of kernels/mul_mat.cu.

use super::super::{Device, GpuError, Grid, Matrix, Part, PartMut};
use super::mul_mat_vec::{MAX_VEC_TOKENS, mul_mat_vec};
use crate::tensor::GgmlType;

const THREADS: usize = 256;
/// Rows and tokens of a block.
const TILE: usize = 64;
/// 256 columns of weights, and 32 of x with 4 floats between one and the next.
const SHARED_BYTES: usize = (256 * TILE + 32 * (TILE + 4)) * 4;

/// `y = scale * W x`, or `+ residual`, for any number of tokens: x `[n_tokens, n_in]`, y and residual `[n_tokens, n_out]`. Up to eight
/// tokens are multiplied by [`mul_mat_vec`], and have its bits.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or x is not aligned to 16 bytes.
pub fn mul_mat(
    device: &Device,
    mut y: PartMut<'_, f32>,
    w: &Matrix,
    x: Part<'_, f32>,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
) -> Result<(), GpuError> {
    if n_tokens <= MAX_VEC_TOKENS {
        return mul_mat_vec(device, y, w, x, n_tokens, residual);
    }
    assert_eq!(x.len(), n_tokens * w.n_in(), "mul_mat: x");
    assert_eq!(y.len(), n_tokens * w.n_out(), "mul_mat: y");
    if let Some(residual) = residual {
        assert_eq!(residual.len(), y.len(), "mul_mat: residual");
    }
    let grid =
        Grid::new_2d([w.n_out().div_ceil(TILE), n_tokens.div_ceil(TILE)], THREADS).shared(SHARED_BYTES);
    let args = [
        (&mut y).into(),
        w.bytes().all().into(),
        x.into(),
        residual.unwrap_or(x).into(),
        w.n_in().into(),
        w.n_out().into(),
        n_tokens.into(),
        w.scale().into(),
        i32::from(residual.is_some()).into(),
    ];
    device.launch(kernel(w.ty()), grid, &args)
}

fn kernel(ty: GgmlType) -> &'static str {
    match ty {
        GgmlType::F32 => "mul_mat_f32_f32",
        GgmlType::F16 => "mul_mat_f16_f32",
        GgmlType::BF16 => "mul_mat_bf16_f32",
        GgmlType::Q4_0 => "mul_mat_q4_0_f32",
        GgmlType::Q8_0 => "mul_mat_q8_0_f32",
        GgmlType::Q4_K => "mul_mat_q4_k_f32",
        GgmlType::Q6_K => "mul_mat_q6_k_f32",
        GgmlType::TQ1_0 => "mul_mat_tq1_0_f32",
        GgmlType::TQ2_0 => "mul_mat_tq2_0_f32",
        GgmlType::Q1_0 => "mul_mat_q1_0_f32",
        GgmlType::Q2_0 => "mul_mat_q2_0_f32",
        GgmlType::PQ2_0 => "mul_mat_pq2_0_f32",
        GgmlType::PTQ1_0 => "mul_mat_ptq1_0_f32",
        ty => unreachable!("Matrix::upload refuses {ty}"),
    }
}
