//! Launches of kernels/mul_mat_vec_q8_1.cu.

use super::super::{Arg, Device, GpuError, Grid, Matrix, Part, PartMut};
use super::Q8_1;
use crate::tensor::GgmlType;

const THREADS: usize = 256;
/// Rows of a block.
const ROWS: usize = 32;
/// Tokens of a block.
const TOKENS: usize = 8;
/// Bytes of the activation that a block keeps: words of codes with every ninth left out, and scales.
const STAGE_BYTES: usize = 4 * (1024 / 8 * 9 + 1024 / 8) * 4;
/// Matrices of a launch, at most.
const MATRICES: usize = 4;

/// `y = scale * W x`, or `+ residual`, of activations in eight bits: x `[n_tokens, n_in]`, y and residual `[n_tokens, n_out]`. Any number
/// of tokens, eight at a time.
///
/// # Errors
/// If no kernel multiplies the type with such activations, or the launch fails.
///
/// # Panics
/// If the sizes do not belong together.
pub fn mul_mat_vec_q8_1(
    device: &Device,
    y: PartMut<'_, f32>,
    w: &Matrix,
    x: &Q8_1,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
) -> Result<(), GpuError> {
    product(device, &mut [(w, y)], x, n_tokens, residual)
}

/// Up to four products of the same x with matrices of one type and width, in one launch: the same bits as of one launch for each.
///
/// # Errors
/// If no kernel multiplies the type with such activations, or the launch fails.
///
/// # Panics
/// If the sizes or types do not belong together.
pub fn mul_mats_vec_q8_1(
    device: &Device,
    products: &mut [(&Matrix, PartMut<'_, f32>)],
    x: &Q8_1,
    n_tokens: usize,
) -> Result<(), GpuError> {
    product(device, products, x, n_tokens, None)
}

fn product(
    device: &Device,
    products: &mut [(&Matrix, PartMut<'_, f32>)],
    x: &Q8_1,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
) -> Result<(), GpuError> {
    assert!((1..=MATRICES).contains(&products.len()), "mul_mat_vec_q8_1: {} matrices", products.len());
    let (ty, n_in) = (products[0].0.ty(), products[0].0.n_in());
    for (w, y) in products.iter() {
        assert_eq!((w.ty(), w.n_in()), (ty, n_in), "mul_mat_vec_q8_1: matrices of one launch");
        assert_eq!(y.len(), n_tokens * w.n_out(), "mul_mat_vec_q8_1: y");
    }
    if let Some(residual) = residual {
        assert_eq!(residual.len(), products[0].1.len(), "mul_mat_vec_q8_1: residual");
    }
    let kernel = kernel(ty).ok_or(GpuError::MatrixType { ty })?;
    let blocks = products.iter().map(|(w, _)| w.n_out().div_ceil(ROWS)).sum();
    let grid = Grid::new_2d([blocks, n_tokens.div_ceil(TOKENS)], THREADS).shared(STAGE_BYTES);
    // Places that are not taken repeat the first matrix, with no rows.
    let n = products.len();
    let taken = |i: usize| if i < n { i } else { 0 };
    let ys: [Arg; MATRICES] = std::array::from_fn(|i| (&mut products[taken(i)].1).into());
    let of = |i: usize| products[taken(i)].0;
    let ws: [Arg; MATRICES] = std::array::from_fn(|i| of(i).bytes().all().into());
    let ns: [Arg; MATRICES] =
        std::array::from_fn(|i| if i < n { of(i).n_out().into() } else { 0usize.into() });
    let scales: [Arg; MATRICES] = std::array::from_fn(|i| of(i).scale().into());
    let elements = n_tokens * n_in;
    let mut args = [ys, ws].concat();
    args.extend::<[Arg; 2]>([x.codes(elements).into(), x.scales(elements).into()]);
    // Without a residual the place is taken by something that is not read.
    args.push(residual.map_or(x.scales(elements).into(), Arg::from));
    args.extend(ns);
    args.extend::<[Arg; 2]>([n_in.into(), n_tokens.into()]);
    args.extend(scales);
    args.push(i32::from(residual.is_some()).into());
    device.launch(kernel, grid, &args)
}

/// The kernel of a type; none for types without blocks.
fn kernel(ty: GgmlType) -> Option<&'static str> {
    Some(match ty {
        GgmlType::Q4_0 => "mul_mat_vec_q4_0_q8_1",
        GgmlType::Q8_0 => "mul_mat_vec_q8_0_q8_1",
        GgmlType::Q4_K => "mul_mat_vec_q4_k_q8_1",
        GgmlType::Q6_K => "mul_mat_vec_q6_k_q8_1",
        GgmlType::TQ1_0 => "mul_mat_vec_tq1_0_q8_1",
        GgmlType::TQ2_0 => "mul_mat_vec_tq2_0_q8_1",
        GgmlType::Q1_0 => "mul_mat_vec_q1_0_q8_1",
        GgmlType::Q2_0 => "mul_mat_vec_q2_0_q8_1",
        GgmlType::PQ2_0 => "mul_mat_vec_pq2_0_q8_1",
        GgmlType::PTQ1_0 => "mul_mat_vec_ptq1_0_q8_1",
        _ => return None,
    })
}
