//! Launches of kernels/get_rows.cu.

use super::super::{Device, GpuError, Grid, Matrix, Part, PartMut};
use crate::tensor::GgmlType;

const THREADS: usize = 128;
/// Elements that a thread decodes, of formats of blocks.
const PIECE: usize = 32;

/// `y[t] = W[tokens[t]]`, decoded: tokens `[n_tokens]`, y `[n_tokens, n_in]`. The scale of the matrix is one of products and not applied.
/// Each token must be below `n_out`: that is checked where tokens come from, they are not seen here.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or y is not aligned to 16 bytes.
pub fn get_rows(
    device: &Device,
    mut y: PartMut<'_, f32>,
    w: &Matrix,
    tokens: Part<'_, i32>,
    n_tokens: usize,
) -> Result<(), GpuError> {
    assert_eq!(tokens.len(), n_tokens, "get_rows: tokens");
    assert_eq!(y.len(), n_tokens * w.n_in(), "get_rows: y");
    assert!(y.is_aligned(16), "get_rows: y is not aligned to 16 bytes");
    let (kernel, of_thread) = kernel(w.ty());
    let grid = Grid::new_2d([n_tokens, (w.n_in() / of_thread).div_ceil(THREADS)], THREADS);
    device.launch(kernel, grid, &[(&mut y).into(), w.bytes().all().into(), tokens.into(), w.n_in().into()])
}

/// The kernel of a type, and the elements of a thread.
fn kernel(ty: GgmlType) -> (&'static str, usize) {
    match ty {
        GgmlType::F32 => ("get_rows_f32_f32", 1),
        GgmlType::F16 => ("get_rows_f16_f32", 1),
        GgmlType::BF16 => ("get_rows_bf16_f32", 1),
        GgmlType::Q4_0 => ("get_rows_q4_0_f32", PIECE),
        GgmlType::Q8_0 => ("get_rows_q8_0_f32", PIECE),
        GgmlType::Q4_K => ("get_rows_q4_k_f32", PIECE),
        GgmlType::Q6_K => ("get_rows_q6_k_f32", PIECE),
        GgmlType::TQ1_0 => ("get_rows_tq1_0_f32", PIECE),
        GgmlType::TQ2_0 => ("get_rows_tq2_0_f32", PIECE),
        GgmlType::Q1_0 => ("get_rows_q1_0_f32", PIECE),
        GgmlType::Q2_0 => ("get_rows_q2_0_f32", PIECE),
        GgmlType::PQ2_0 => ("get_rows_pq2_0_f32", PIECE),
        GgmlType::PTQ1_0 => ("get_rows_ptq1_0_f32", PIECE),
        ty => unreachable!("Matrix::upload refuses {ty}"),
    }
}
