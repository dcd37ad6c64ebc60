//! MUL_MAT: `y[t][n] = sum_k W[n][k] x[t][k]`, weights decoded row by row.
//!
//! ```text
//! W  [n_out, n_in] in any format of `quant`, exact in f32;  x  [n_tokens, n_in];  y  [n_tokens, n_out]
//! ```
//! Accumulates in the arithmetic's own type, in [`LANES`] interleaved partial sums that are added pairwise.
//! Mirrors `ggml_compute_forward_mul_mat` (ggml-cpu.c) without its rounding of activations.

use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;

use super::Real;
use crate::quant::{Format, QuantError, format};
use crate::tensor::GgmlType;

/// A weight matrix as it lies in a file: `n_out` rows of `n_in` elements.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    format: &'static dyn Format,
    data: &'a [u8],
    row_bytes: usize,
    /// Elements of a row (ggml's ne, dimension 0), the width of the activation.
    pub n_in: usize,
    /// Number of rows (dimension 1), the width of the result.
    pub n_out: usize,
}

impl<'a> Rows<'a> {
    /// Wraps the bytes of a matrix.
    ///
    /// # Errors
    /// If the type has no decoder or `data` is not `n_out` rows of `n_in` elements.
    pub fn new(ty: GgmlType, data: &'a [u8], n_in: usize, n_out: usize) -> Result<Rows<'a>, QuantError> {
        let size = || QuantError::Size { ty, bytes: data.len(), elements: n_in.saturating_mul(n_out) };
        let row_bytes = ty.row_bytes(n_in as u64).ok_or_else(size)? as usize;
        if row_bytes.checked_mul(n_out) != Some(data.len()) {
            return Err(size());
        }
        Ok(Rows { format: format(ty)?, data, row_bytes, n_in, n_out })
    }

    /// The type that the rows are stored in.
    pub fn ty(&self) -> GgmlType {
        self.format.ty()
    }

    /// Decodes row `n` into `row`, which holds `n_in` values.
    ///
    /// # Panics
    /// If `n` is not below `n_out` or `row` has another length: both are the caller's to check.
    pub fn decode_row(&self, n: usize, row: &mut [f32]) {
        assert!(n < self.n_out && row.len() == self.n_in, "row {n} of {}, {} values", self.n_out, row.len());
        self.format.decode(&self.data[n * self.row_bytes..][..self.row_bytes], row);
    }
}

impl std::fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows of {} {}", self.n_out, self.n_in, self.ty())
    }
}

impl Rows<'_> {
    /// The minimum of each element of row `n`, if the format adds one ([`Format::minima`]).
    ///
    /// # Panics
    /// As [`Rows::decode_row`].
    pub fn minima_of_row(&self, n: usize, minima: &mut [f32]) -> bool {
        assert!(
            n < self.n_out && minima.len() == self.n_in,
            "row {n} of {}, {} values",
            self.n_out,
            minima.len()
        );
        self.format.minima(&self.data[n * self.row_bytes..][..self.row_bytes], minima)
    }
}

/// Partial sums of a dot product; enough for the compiler to keep two vector registers busy.
const LANES: usize = 16;

/// The dot product of two rows of equal length.
pub fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    let (x_lanes, x_rest) = x.as_chunks::<LANES>();
    let (y_lanes, y_rest) = y.as_chunks::<LANES>();
    let mut sums = [T::ZERO; LANES];
    for (a, b) in x_lanes.iter().zip(y_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            let upper = sums[lane + width];
            sums[lane] += upper;
        }
    }
    x_rest.iter().zip(y_rest).fold(sums[0], |sum, (&a, &b)| sum + a * b)
}

/// Rows that one task decodes; large enough to hide the cost of a task.
const ROWS_PER_TASK: usize = 16;

/// Multiplies every token's activation with the matrix: `[n_tokens, n_in]` to `[n_tokens, n_out]`.
///
/// # Panics
/// If `x` has another width than the matrix.
pub fn mul_mat<T: Real>(weight: &Rows<'_>, x: ArrayView2<'_, T>) -> Array2<T> {
    let (n_tokens, n_in) = x.dim();
    assert_eq!(n_in, weight.n_in, "activation width");
    let x = x.as_standard_layout();
    let tokens: Vec<&[T]> =
        x.rows().into_iter().map(|row| row.to_slice().expect("standard layout")).collect();
    let mut transposed = vec![T::ZERO; weight.n_out * n_tokens]; // [n_out, n_tokens]
    transposed.par_chunks_mut(ROWS_PER_TASK * n_tokens.max(1)).enumerate().for_each(|(task, rows)| {
        let mut decoded = vec![0.0; n_in];
        let mut scratch = Vec::new();
        for (i, out) in rows.chunks_mut(n_tokens.max(1)).enumerate() {
            weight.decode_row(task * ROWS_PER_TASK + i, &mut decoded);
            let row = T::cast_row(&decoded, &mut scratch);
            for (y, x) in out.iter_mut().zip(&tokens) {
                *y = dot(row, x);
            }
        }
    });
    let mut y = Array2::from_elem((n_tokens, weight.n_out), T::ZERO);
    for (t, mut row) in y.axis_iter_mut(Axis(0)).enumerate() {
        for (n, value) in row.iter_mut().enumerate() {
            *value = transposed[n * n_tokens + t];
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn multiplies_rows_with_tokens() {
        let weight: Vec<u8> =
            [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|w| w.to_le_bytes()).collect();
        let rows = Rows::new(GgmlType::F32, &weight, 3, 2).unwrap();
        let y = mul_mat(&rows, array![[1.0f64, 0.0, -1.0], [2.0, 1.0, 0.0]].view());
        // 1 - 3, 4 - 6;  2 + 2, 8 + 5
        assert_eq!(y, array![[-2.0, -2.0], [4.0, 13.0]]);
    }

    #[test]
    fn the_dot_product_counts_every_element_once() {
        for n in [0, 1, 15, 16, 17, 33] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let sum: usize = (0..n).map(|i| i * i).sum();
            assert_eq!(dot(&x, &x), sum as f32, "{n}");
        }
    }

    #[test]
    fn refuses_data_of_another_size() {
        assert!(matches!(Rows::new(GgmlType::F32, &[0; 20], 3, 2), Err(QuantError::Size { .. })));
        assert!(matches!(Rows::new(GgmlType::PQ2_0, &[0; 34], 64, 2), Err(QuantError::Size { .. })));
    }
}
