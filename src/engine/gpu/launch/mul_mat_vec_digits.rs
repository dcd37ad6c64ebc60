//! Launches of kernels/mul_mat_vec_digits.cu.

use super::super::{Arg, Device, GpuError, Grid, Matrix, Part, PartMut};
use super::{Digits, MAX_VEC_TOKENS};
use crate::tensor::GgmlType;

const WARP: usize = 32;
/// Warps of a block, at most.
const WARPS: usize = 8;
/// Rows of a block.
const ROWS: usize = 16;
/// Columns that a warp takes at a time, and their bytes in all rows.
const CHUNK: usize = 1024;
const STAGE_BYTES: usize = ROWS * CHUNK / 128 * 34;
/// Tokens whose digits fill the columns of an operand.
const PAIR: usize = 2;
/// Matrices of a launch, at most.
const MATRICES: usize = 4;

/// Whether [`mul_mat_vec_digits`] multiplies with this matrix.
pub fn takes_digits(w: &Matrix) -> bool {
    w.ty() == GgmlType::PQ2_0 && w.n_in().is_multiple_of(CHUNK)
}

/// `y = scale * W x`, or `+ residual`, for up to eight tokens in digits: y and residual `[n_tokens, n_out]`. More exact than
/// [`mul_mat_vec`](super::mul_mat_vec), and not its bits.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or the matrix is not one that [takes digits](takes_digits).
pub fn mul_mat_vec_digits(
    device: &Device,
    y: PartMut<'_, f32>,
    w: &Matrix,
    x: &Digits,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
) -> Result<(), GpuError> {
    product(device, &mut [(w, y)], x, n_tokens, residual)
}

/// Up to four products of the same x with matrices of one width, in one launch: the same bits as of one launch for each.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or a matrix is not one that [takes digits](takes_digits).
pub fn mul_mats_vec_digits(
    device: &Device,
    products: &mut [(&Matrix, PartMut<'_, f32>)],
    x: &Digits,
    n_tokens: usize,
) -> Result<(), GpuError> {
    product(device, products, x, n_tokens, None)
}

fn product(
    device: &Device,
    products: &mut [(&Matrix, PartMut<'_, f32>)],
    x: &Digits,
    n_tokens: usize,
    residual: Option<Part<'_, f32>>,
) -> Result<(), GpuError> {
    assert!((1..=MATRICES).contains(&products.len()), "mul_mat_vec_digits: {} matrices", products.len());
    assert!((1..=MAX_VEC_TOKENS).contains(&n_tokens), "mul_mat_vec_digits: {n_tokens} tokens");
    let n_in = products[0].0.n_in();
    for (w, y) in products.iter() {
        assert!(takes_digits(w), "mul_mat_vec_digits: {} rows of {}", w.ty(), w.n_in());
        assert_eq!(w.n_in(), n_in, "mul_mat_vec_digits: matrices of one launch");
        assert_eq!(y.len(), n_tokens * w.n_out(), "mul_mat_vec_digits: y");
    }
    if let Some(residual) = residual {
        assert_eq!(residual.len(), products[0].1.len(), "mul_mat_vec_digits: residual");
    }
    // As many warps as take the same number of chunks, or one less.
    let chunks = n_in / CHUNK;
    let warps = chunks.div_ceil(chunks.div_ceil(WARPS));
    let stages = if chunks > warps { 2 } else { 1 };
    let blocks = products.iter().map(|(w, _)| w.n_out().div_ceil(ROWS)).sum();
    let grid = Grid::new(blocks, warps * WARP).shared(warps * stages * STAGE_BYTES);
    // Places that are not taken repeat the first matrix, with no rows.
    let n = products.len();
    let taken = |i: usize| if i < n { i } else { 0 };
    let ys: [Arg; MATRICES] = std::array::from_fn(|i| (&mut products[taken(i)].1).into());
    let of = |i: usize| products[taken(i)].0;
    let ws: [Arg; MATRICES] = std::array::from_fn(|i| of(i).bytes().all().into());
    let ns: [Arg; MATRICES] =
        std::array::from_fn(|i| if i < n { of(i).n_out().into() } else { 0usize.into() });
    let scales: [Arg; MATRICES] = std::array::from_fn(|i| of(i).scale().into());
    let scales_of_x = x.scales(n_in, n_tokens);
    let mut args = [ys, ws].concat();
    args.extend::<[Arg; 3]>([
        x.digits(n_in, n_tokens).into(),
        x.sums(n_in, n_tokens).into(),
        scales_of_x.into(),
    ]);
    args.push(residual.unwrap_or(scales_of_x).into());
    args.extend(ns);
    args.extend::<[Arg; 2]>([n_in.into(), n_tokens.into()]);
    args.extend(scales);
    args.push(i32::from(residual.is_some()).into());
    let kernel = if n_tokens <= PAIR { "mul_mat_vec_pq2_0_digits" } else { "mul_mat_vec_pq2_0_digits_8" };
    device.launch(kernel, grid, &args)
}
