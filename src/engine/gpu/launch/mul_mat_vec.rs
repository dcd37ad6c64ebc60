//! Launches of kernels/mul_mat_vec.cu.

use super::super::{Arg, Device, GpuError, Grid, Matrix, Part, PartMut};
use crate::tensor::GgmlType;

const THREADS: usize = 256;
/// Rows of a block, in formats of blocks and of single elements.
const ROWS: usize = 32;
const PLAIN_ROWS: usize = 8;
/// Bytes of x that a block keeps, for up to four tokens; twice as many for more.
const STAGE_BYTES: usize = 1024 / 8 * 9 * 16;
/// The types of single elements, by their numbers in the kernel.
const PLAIN_TYPES: [GgmlType; 3] = [GgmlType::BF16, GgmlType::F16, GgmlType::F32];
/// Matrices of a launch, at most.
const MATRICES: usize = 4;
/// Tokens of a launch, at most.
pub const MAX_VEC_TOKENS: usize = 8;

/// `y = scale * W x`, or `+ residual`, for up to eight tokens: x `[n_tokens, n_in]`, y and residual `[n_tokens, n_out]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or x is not aligned to 16 bytes.
pub fn mul_mat_vec(
    device: &Device,
    y: PartMut<'_, f32>,
    w: &Matrix,
    x: Part<'_, f32>,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
) -> Result<(), GpuError> {
    product(device, &mut [(w, y)], x, n_tokens, residual)
}

/// Up to four products of the same x with matrices of one type and width, in one launch: the same bits as of one launch for each.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes or types do not belong together, or x is not aligned to 16 bytes.
pub fn mul_mats_vec(
    device: &Device,
    products: &mut [(&Matrix, PartMut<'_, f32>)],
    x: Part<'_, f32>,
    n_tokens: usize,
) -> Result<(), GpuError> {
    product(device, products, x, n_tokens, None)
}

/// The products of [`mul_mats_vec`], and with them others of a second type and activation: the same bits as of two launches. It is one
/// launch where [`fits_beside`] says so and there are four matrices at most; else two.
///
/// # Errors
/// If a launch fails.
///
/// # Panics
/// If the sizes or types do not belong together, or an activation is not aligned to 16 bytes.
pub fn mul_mats_vec_beside<'w>(
    device: &Device,
    (products, x): (&mut [(&'w Matrix, PartMut<'_, f32>)], Part<'_, f32>),
    (others, other_x): (&mut [(&'w Matrix, PartMut<'_, f32>)], Part<'_, f32>),
    n_tokens: usize,
) -> Result<(), GpuError> {
    assert!(!products.is_empty() && !others.is_empty(), "mul_mat_vec: nothing beside the others");
    let fits = fits_beside(others[0].0.ty(), products[0].0.ty());
    if !fits || products.len() + others.len() > MATRICES {
        product(device, others, other_x, n_tokens, None)?;
        return product(device, products, x, n_tokens, None);
    }
    check(others, other_x, n_tokens);
    check(products, x, n_tokens);
    assert_eq!(products[0].0.n_in(), others[0].0.n_in(), "mul_mat_vec: matrices of one launch");
    let n_plain = others.len();
    // The plain ones first: a row of theirs takes longer than the last rows of the others.
    let all: Vec<_> = with_args(others).chain(with_args(products)).collect();
    run(device, &all, x, n_tokens, None, (n_plain, other_x))
}

/// Whether a matrix of type `other` runs in one launch with matrices of type `ty`, and reads an activation of its own: a matrix of
/// bf16, f16 or f32 beside those of blocks.
pub fn fits_beside(other: GgmlType, ty: GgmlType) -> bool {
    PLAIN_TYPES.contains(&other) && !PLAIN_TYPES.contains(&ty)
}

fn product(
    device: &Device,
    products: &mut [(&Matrix, PartMut<'_, f32>)],
    x: Part<'_, f32>,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
) -> Result<(), GpuError> {
    assert!((1..=MATRICES).contains(&products.len()), "mul_mat_vec: {} matrices", products.len());
    check(products, x, n_tokens);
    if let Some(residual) = residual {
        assert_eq!(residual.len(), products[0].1.len(), "mul_mat_vec: residual");
    }
    run(device, &with_args(products).collect::<Vec<_>>(), x, n_tokens, residual, (0, x))
}

fn with_args<'w>(products: &mut [(&'w Matrix, PartMut<'_, f32>)]) -> impl Iterator<Item = (&'w Matrix, Arg)> {
    products.iter_mut().map(|(w, y)| (*w, Arg::from(y)))
}

/// Panics unless all are of one type and width.
fn check(products: &[(&Matrix, PartMut<'_, f32>)], x: Part<'_, f32>, n_tokens: usize) {
    assert!((1..=MAX_VEC_TOKENS).contains(&n_tokens), "mul_mat_vec: {n_tokens} tokens");
    assert!(x.is_aligned(16), "mul_mat_vec: x is not aligned to 16 bytes");
    let (ty, n_in) = (products[0].0.ty(), products[0].0.n_in());
    assert_eq!(x.len(), n_tokens * n_in, "mul_mat_vec: x");
    for (w, y) in products {
        assert_eq!((w.ty(), w.n_in()), (ty, n_in), "mul_mat_vec: matrices of one launch");
        assert_eq!(y.len(), n_tokens * w.n_out(), "mul_mat_vec: y");
    }
}

/// One launch, in which the first `n_plain` matrices read `plain_x`.
fn run(
    device: &Device,
    products: &[(&Matrix, Arg)],
    x: Part<'_, f32>,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
    (n_plain, plain_x): (usize, Part<'_, f32>),
) -> Result<(), GpuError> {
    let n = products.len();
    let last = products[n - 1].0;
    let (kernel, is_plain) = kernel(last.ty());
    let is_plain_at = |i: usize| is_plain || i < n_plain;
    let blocks = products.iter().enumerate().map(|(i, (w, _))| {
        let rows = if is_plain_at(i) { PLAIN_ROWS } else { ROWS };
        w.n_out().div_ceil(rows)
    });
    let grid = Grid::new(blocks.sum(), THREADS);
    let stage = if n_tokens <= 4 { STAGE_BYTES } else { 2 * STAGE_BYTES };
    let grid = if is_plain { grid } else { grid.shared(stage) };
    // Places that are not taken repeat the first matrix, with no rows.
    let taken = |i: usize| if i < n { i } else { 0 };
    let ys: [Arg; MATRICES] = std::array::from_fn(|i| products[taken(i)].1);
    let of = |i: usize| products[taken(i)].0;
    let ws: [Arg; MATRICES] = std::array::from_fn(|i| of(i).bytes().all().into());
    let ns: [Arg; MATRICES] =
        std::array::from_fn(|i| if i < n { of(i).n_out().into() } else { 0usize.into() });
    let scales: [Arg; MATRICES] = std::array::from_fn(|i| of(i).scale().into());
    let mut args = [ys, ws].concat();
    args.push(x.into());
    if !is_plain {
        args.push(plain_x.into());
    }
    args.push(residual.unwrap_or(x).into());
    args.extend(ns);
    args.extend::<[Arg; 2]>([last.n_in().into(), n_tokens.into()]);
    if !is_plain {
        let plain_type = PLAIN_TYPES.iter().position(|&ty| ty == of(0).ty()).unwrap_or(0);
        args.extend::<[Arg; 2]>([n_plain.into(), plain_type.into()]);
    }
    args.extend(scales);
    args.push(i32::from(residual.is_some()).into());
    device.launch(kernel, grid, &args)
}

/// The kernel of a type, and whether the type is of single elements.
fn kernel(ty: GgmlType) -> (&'static str, bool) {
    match ty {
        GgmlType::F32 => ("mul_mat_vec_f32_f32", true),
        GgmlType::F16 => ("mul_mat_vec_f16_f32", true),
        GgmlType::BF16 => ("mul_mat_vec_bf16_f32", true),
        GgmlType::Q4_0 => ("mul_mat_vec_q4_0_f32", false),
        GgmlType::Q8_0 => ("mul_mat_vec_q8_0_f32", false),
        GgmlType::Q4_K => ("mul_mat_vec_q4_k_f32", false),
        GgmlType::Q6_K => ("mul_mat_vec_q6_k_f32", false),
        GgmlType::TQ1_0 => ("mul_mat_vec_tq1_0_f32", false),
        GgmlType::TQ2_0 => ("mul_mat_vec_tq2_0_f32", false),
        GgmlType::Q1_0 => ("mul_mat_vec_q1_0_f32", false),
        GgmlType::Q2_0 => ("mul_mat_vec_q2_0_f32", false),
        GgmlType::PQ2_0 => ("mul_mat_vec_pq2_0_f32", false),
        GgmlType::PTQ1_0 => ("mul_mat_vec_ptq1_0_f32", false),
        ty => unreachable!("Matrix::upload refuses {ty}"),
    }
}
