//! MUL_MAT: `y[t][n] = sum_k W[n][k] x[t][k]`, weights decoded row by row.
//!
//! ```text
//! W  [n_out, n_in] in any format of `quant`, exact in f32;  x  [n_tokens, n_in];  y  [n_tokens, n_out]
//! ```
//! Accumulates in the arithmetic's own type, in [`LANES`] interleaved partial sums that are added pairwise.
//! Mirrors `ggml_compute_forward_mul_mat` (ggml-cpu.c), with or without its rounding of activations.

use std::borrow::Cow;

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, CowArray, Ix2};
use rayon::prelude::*;

use super::Number;
use super::exact::{ActivationRounding, CpuKernel, Rounded, activation_on_cpu, round_activation};
use crate::arithmetic::{Activation, Factor, Ggml, Kernel, Shape};
use crate::quant::{Codes, Format, QuantError, format};
use crate::tensor::GgmlType;

/// Changes a decoded row; the number is that of the row.
pub type Change<'a> = dyn Fn(usize, &mut [f32]) + Sync + 'a;

/// A weight matrix as it lies in a file: `n_out` rows of `n_in` elements.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    format: &'static dyn Format,
    change: Option<&'a Change<'a>>,
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
        Ok(Rows { format: format(ty)?, change: None, data, row_bytes, n_in, n_out })
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
        self.format.decode(self.row(n, row), row);
        if let Some(change) = self.change {
            change(n, row);
        }
    }

    /// The same matrix with each row changed once it is decoded; what is stored beside the codes ([`Rows::minima_of_row`]) stays.
    pub fn changed(self, change: &'a Change<'a>) -> Rows<'a> {
        Rows { change: Some(change), ..self }
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
        self.format.minima(self.row(n, minima), minima)
    }

    /// What code 0 stands for in each element of row `n`, for formats of which a product may take it off apart
    /// ([`Format::code_zero`]).
    ///
    /// # Panics
    /// As [`Rows::decode_row`].
    pub fn code_zero_of_row(&self, n: usize, values: &mut [f32]) -> bool {
        self.format.code_zero(self.row(n, values), values)
    }

    /// Row `n` as ggml-cpu multiplies it; none of a type that is not multiplied there.
    ///
    /// # Panics
    /// If `n` is not below `n_out`.
    pub fn factor(&self, n: usize) -> Option<Factor> {
        let ty = self.ty();
        if ty.block_elements() > 1 {
            return Factor::of_blocks(ty, self.bytes_of_row(n));
        }
        let mut row = vec![0.0; self.n_in];
        self.decode_row(n, &mut row);
        Some(Factor::Floats(ty, row))
    }

    /// Whether a build of ggml-cpu multiplies such rows in an order that is known.
    pub fn is_multiplied_by(&self, ggml: Ggml) -> bool {
        let is_known = Activation::of(ggml.isa, self.ty(), &vec![0.0; self.n_in]).is_some();
        is_known && self.change.is_none() && self.kernel(ggml, 1).is_known(ggml.isa, self.ty())
    }

    /// The code of a build of ggml-cpu that multiplies these rows with so many columns.
    fn kernel(&self, ggml: Ggml, columns: usize) -> Kernel {
        Kernel::of_weight(ggml, Shape { ty: self.ty(), rows: self.n_out, columns, contiguous: true })
    }

    /// The blocks of row `n` as they lie in the file; a change of the decoded row is not in them.
    ///
    /// # Panics
    /// If `n` is not below `n_out`.
    pub fn bytes_of_row(&self, n: usize) -> &[u8] {
        &self.data[n * self.row_bytes..][..self.row_bytes]
    }

    /// How the codes lie, if values are a code times one scale for each block ([`Format::codes`]).
    pub fn codes(&self) -> Option<Codes> {
        self.format.codes()
    }

    /// The scale of each block of row `n`; none if there are no such scales.
    ///
    /// # Panics
    /// If `n` is not below `n_out`.
    pub fn scales_of_row(&self, n: usize) -> Vec<f32> {
        let scale = |codes: Codes| {
            let blocks = self.bytes_of_row(n).chunks_exact(self.ty().block_bytes());
            blocks.map(|block| codes.scale_of(block)).collect()
        };
        self.codes().map_or(Vec::new(), scale)
    }

    /// The blocks of row `n`, which `values` has room for.
    fn row(&self, n: usize, values: &[f32]) -> &[u8] {
        let fits = n < self.n_out && values.len() == self.n_in;
        assert!(fits, "row {n} of {}, {} values", self.n_out, values.len());
        self.bytes_of_row(n)
    }
}

/// Partial sums of a dot product; enough for the compiler to keep two vector registers busy.
const LANES: usize = 16;

/// The dot product of two rows of equal length.
pub fn dot<T: Number>(x: &[T], y: &[T]) -> T {
    T::dot(x, y)
}

/// The same in partial sums side by side.
pub(super) fn dot_in_lanes<T: Number>(x: &[T], y: &[T]) -> T {
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

/// To what an activation is rounded in front of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoundingRule {
    /// To what this kernel of ggml-cpu takes for the type of the weights.
    ForWeights(CpuKernel),
    /// To what ggml-cuda's matrix-vector kernels take in front of quantised weights.
    Mmvq,
    /// To the same whatever the weights are.
    Always(ActivationRounding),
}

impl RoundingRule {
    /// What is done in front of weights of type `ty`; none if the activation is taken as it is.
    fn of(self, ty: GgmlType) -> Option<ActivationRounding> {
        match self {
            RoundingRule::ForWeights(kernel) => activation_on_cpu(ty, kernel),
            RoundingRule::Mmvq => (ty.block_elements() > 1).then_some(ActivationRounding::Mmvq),
            RoundingRule::Always(rounding) => Some(rounding),
        }
    }
}

/// What becomes of an activation in front of a product.
#[derive(Clone, Copy, Debug, Default)]
pub enum Activations<'a> {
    /// It is taken as it is.
    #[default]
    Whole,
    /// It is rounded, after it was rounded to f32.
    Rounded(RoundingRule),
    /// It is taken as this build of ggml-cpu takes it, and the product is formed in its order of operations, whatever the arithmetic:
    /// as one of matrices with so many columns each.
    Ggml(Ggml, usize),
    /// What rounding did to the reference's activation is added to it: `x + (rounded(x_ref) - x_ref)`, with `x_ref` packed and
    /// of the size of all tokens. Where both are equal this is what `Rounded` does; where they differ by their own rounding,
    /// no code falls to the other side of a tie, and the difference is carried on as it is.
    RoundedLike(RoundingRule, &'a [f32]),
}

/// By how much the sums of runs of elements that are stored beside a rounded activation differ from the sums of its values.
struct SumErrors {
    width: usize,
    errors: Vec<f64>,
}

impl Activations<'_> {
    /// Applies it to the activation of token `token`, in front of weights of type `ty`.
    fn apply<T: Number>(self, ty: GgmlType, token: usize, row: &mut [T]) -> Option<SumErrors> {
        let (rule, reference) = match self {
            Activations::Whole | Activations::Ggml(..) => return None,
            Activations::Rounded(rule) => (rule, None),
            Activations::RoundedLike(rule, reference) => (rule, Some(reference)),
        };
        let to = rule.of(ty)?;
        let reference: Cow<'_, [f32]> = match reference {
            Some(reference) => Cow::Borrowed(&reference[token * row.len()..][..row.len()]),
            None => {
                let narrow: Vec<f32> = row.iter().map(|x| x.to_f64() as f32).collect();
                row.iter_mut().zip(&narrow).for_each(|(x, &narrow)| *x = T::from_f32(narrow));
                Cow::Owned(narrow)
            }
        };
        let Rounded { values, sums, .. } = round_activation(to, &reference);
        for ((x, &rounded), &reference) in row.iter_mut().zip(&values).zip(&*reference) {
            *x = carry(*x, rounded, reference);
        }
        let sums = sums?;
        let runs = values.chunks(sums.width).zip(&sums.values);
        let errors = runs.map(|(run, stored)| stored - run.iter().map(|&x| f64::from(x)).sum::<f64>());
        Some(SumErrors { width: sums.width, errors: errors.collect() })
    }
}

/// `x` with what rounding did to the reference's value.
pub fn carry<T: Number>(x: T, rounded: f32, reference: f32) -> T {
    // Of three f32 each difference and sum is exact in f64, if they are within 2^29 of each other.
    T::from_f64(x.to_f64() - f64::from(reference) + f64::from(rounded))
}

/// Rows that one task decodes; large enough to hide the cost of a task.
const ROWS_PER_TASK: usize = 16;

/// An activation as a product takes it: rounded where that was asked for.
pub struct Taken<'x, T: Number> {
    /// `[n_tokens, n_in]`, packed.
    pub x: CowArray<'x, T, Ix2>,
    /// Per token, if its rounding stores sums.
    sum_errors: Vec<SumErrors>,
}

impl<'x, T: Number> Taken<'x, T> {
    /// Rounds the activations of all tokens as weights of type `ty` ask for.
    ///
    /// # Panics
    /// If a reference to round like has fewer values than `x`.
    pub fn new(x: ArrayView2<'x, T>, ty: GgmlType, activations: Activations<'_>) -> Taken<'x, T> {
        let mut x = match x.is_standard_layout() {
            true => CowArray::from(x),
            false => CowArray::from(x.as_standard_layout().into_owned()),
        };
        let mut sum_errors = Vec::new();
        if !matches!(activations, Activations::Whole) {
            for (token, mut row) in x.rows_mut().into_iter().enumerate() {
                let row = row.as_slice_mut().expect("standard layout");
                sum_errors.extend(activations.apply(ty, token, row));
            }
        }
        Taken { x, sum_errors }
    }

    /// Adds to a product `[n_tokens, n_out]` what the sums that are stored beside the rounded activation make of the weights' minima.
    pub fn correct(&self, weight: &Rows<'_>, y: &mut Array2<T>) {
        if self.sum_errors.is_empty() {
            return;
        }
        let mut minima = vec![0.0; weight.n_in];
        for (n, mut column) in y.columns_mut().into_iter().enumerate() {
            if !weight.minima_of_row(n, &mut minima) {
                return;
            }
            for (y, SumErrors { width, errors }) in column.iter_mut().zip(&self.sum_errors) {
                for (&minimum, &error) in minima.iter().step_by(*width).zip(errors) {
                    *y += T::from_f32(minimum) * T::from_f64(error);
                }
            }
        }
    }
}

/// Multiplies every token's activation with the matrix: `[n_tokens, n_in]` to `[n_tokens, n_out]`.
///
/// # Panics
/// If `x` has another width than the matrix, or a reference to round like fewer values than `x`; or if ggml-cpu has no product
/// with weights of this type: an engine checks its weights first ([`Rows::is_multiplied_by`]).
pub fn mul_mat<T: Number>(
    weight: &Rows<'_>,
    x: ArrayView2<'_, T>,
    activations: Activations<'_>,
) -> Array2<T> {
    let (n_tokens, n_in) = x.dim();
    assert_eq!(n_in, weight.n_in, "activation width");
    if let Activations::Ggml(ggml, columns) = activations {
        return mul_mat_in_ggml(weight, x, ggml, columns);
    }
    let taken = Taken::new(x, weight.ty(), activations);
    let tokens: Vec<&[T]> =
        taken.x.rows().into_iter().map(|row| row.to_slice().expect("standard layout")).collect();
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
    taken.correct(weight, &mut y);
    y
}

/// The same in the order of operations of a build of ggml-cpu.
fn mul_mat_in_ggml<T: Number>(
    weight: &Rows<'_>,
    x: ArrayView2<'_, T>,
    ggml: Ggml,
    columns: usize,
) -> Array2<T> {
    let (n_tokens, ty) = (x.nrows(), weight.ty());
    let kernel = |token: usize| weight.kernel(ggml, columns).at(columns, token % columns);
    let row = |row: ArrayView1<'_, T>| -> Vec<f32> { row.iter().map(|x| x.to_f64() as f32).collect() };
    let taken = x.rows().into_iter().enumerate();
    let taken = taken.map(|(token, x)| kernel(token).take(ggml.isa, ty, &row(x)));
    let taken: Vec<Activation> = taken.collect::<Option<_>>().expect("the engine checks its weights");
    let mut y = Array2::from_elem((n_tokens, weight.n_out), T::ZERO);
    y.axis_iter_mut(Axis(1)).into_par_iter().enumerate().for_each(|(n, mut column)| {
        let factor = weight.factor(n).expect("the engine checks its weights");
        for (token, (y, x)) in column.iter_mut().zip(&taken).enumerate() {
            *y = T::from_f32(kernel(token).dot(ggml.isa, &factor, x).expect("the types go together"));
        }
    });
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
        let y = mul_mat(&rows, array![[1.0f64, 0.0, -1.0], [2.0, 1.0, 0.0]].view(), Activations::Whole);
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
    fn rounds_the_activation_as_the_weights_ask_for() {
        let one = half::f16::from_f32(1.0).to_le_bytes();
        // One block of Q8_0, d = 1, codes 1, 1, 0, ..; the activation's d = 1: 126.6 -> 127, 0.4 -> 0
        let mut block = [0u8; 34];
        block[..2].copy_from_slice(&one);
        (block[2], block[3]) = (1, 1);
        let rows = Rows::new(GgmlType::Q8_0, &block, 32, 1).unwrap();
        let mut x = Array2::from_elem((1, 32), 0.0f64);
        (x[[0, 0]], x[[0, 1]], x[[0, 2]]) = (126.6, 0.4, 127.0);
        let product =
            |x: &Array2<f64>, activations: Activations<'_>| mul_mat(&rows, x.view(), activations)[[0, 0]];
        let rule = RoundingRule::ForWeights(CpuKernel::X86);
        assert_eq!(product(&x, Activations::Rounded(rule)), 127.0);
        let reference: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        x[[0, 0]] = 126.4; // -> 126
        assert_eq!(product(&x, Activations::Rounded(rule)), 126.0);
        assert!((product(&x, Activations::Whole) - 126.8).abs() < 1e-12);
        // The reference's 126.6 went up by 0.4, its 0.4 down by 0.4.
        assert!((product(&x, Activations::RoundedLike(rule, &reference)) - 126.8).abs() < 1e-5);
    }

    #[test]
    fn one_rounding_for_all_weights() {
        let weight: Vec<u8> = [1.0f32; 32].iter().flat_map(|w| w.to_le_bytes()).collect();
        let rows = Rows::new(GgmlType::F32, &weight, 32, 1).unwrap();
        let mut x = Array2::from_elem((1, 32), 0.0f64);
        (x[[0, 0]], x[[0, 1]]) = (254.0, 4097.0 / 4096.0);
        let product = |rule| mul_mat(&rows, x.view(), Activations::Rounded(rule))[[0, 0]];
        assert_eq!(product(RoundingRule::ForWeights(CpuKernel::X86)), 254.0 + 4097.0 / 4096.0);
        // 1 + 2^-12 is 1 in f16; in Q8_0 the scale is 254 / 127 = 2, and the code of a half above a tie 1
        assert_eq!(product(RoundingRule::Always(ActivationRounding::F16)), 255.0);
        let q8_0 = RoundingRule::Always(ActivationRounding::Q8_0(CpuKernel::X86));
        assert_eq!(product(q8_0), 256.0);
    }

    #[test]
    fn a_changed_row_is_decoded_and_then_changed() {
        // Two rows of one block of Q8_0: d = 1 and 2, the first code 3.
        let mut blocks = [0u8; 68];
        (blocks[1], blocks[2], blocks[35], blocks[36]) = (0x3c, 3, 0x40, 3);
        let rows = Rows::new(GgmlType::Q8_0, &blocks, 32, 2).unwrap();
        assert_eq!((rows.scales_of_row(0), rows.scales_of_row(1)), (vec![1.0], vec![2.0]));
        let change = |n: usize, row: &mut [f32]| row[1] = row[0] + n as f32;
        let x = Array2::from_elem((1, 32), 1.0f64);
        let y = mul_mat(&rows.changed(&change), x.view(), Activations::Whole);
        assert_eq!(y, array![[6.0, 13.0]]); // 3 + 3, 6 + 7
    }

    #[test]
    fn refuses_data_of_another_size() {
        assert!(matches!(Rows::new(GgmlType::F32, &[0; 20], 3, 2), Err(QuantError::Size { .. })));
        assert!(matches!(Rows::new(GgmlType::PQ2_0, &[0; 34], 64, 2), Err(QuantError::Size { .. })));
    }
}
