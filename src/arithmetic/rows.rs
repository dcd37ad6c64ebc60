//! Rows of floats: sums, scales and additions of `vec.h` and `ops.cpp`.

use super::dot::{in_order, in_order_strided};
use super::exp::sum_of_register;
use super::{Ggml, Isa};

/// `ggml_vec_sum_f32`: in f64, in order, rounded once.
pub fn sum(row: &[f32]) -> f32 {
    row.iter().fold(0.0, |sum, &x| sum + f64::from(x)) as f32
}

/// The sum of the squares of a row as RMS_NORM and L2_NORM form it: each square rounded to f32, added in f64.
fn sum_of_squares(row: &[f32]) -> f64 {
    row.iter().fold(0.0, |sum, &x| sum + f64::from(x * x))
}

/// `ggml_vec_scale_f32`.
pub fn scale(row: &mut [f32], scale: f32) {
    row.iter_mut().for_each(|x| *x *= scale);
}

/// `ggml_vec_mad_f32`: `y += x * factor`.
pub fn mad(isa: Isa, y: &mut [f32], x: &[f32], factor: f32) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = isa.madd(x, factor, *y));
}

/// `ggml_compute_forward_scale_f32`: `x * factor + bias`.
pub fn scale_and_bias(ggml: Ggml, row: &mut [f32], factor: f32, bias: f32) {
    if bias == 0.0 {
        return scale(row, factor);
    }
    row.iter_mut().for_each(|x| *x = ggml.isa.madd(*x, factor, bias));
}

/// `ggml_vec_cumsum_f32`, in place.
pub fn cumsum(row: &mut [f32]) {
    for i in 1..row.len() {
        row[i] += row[i - 1];
    }
}

/// `ggml_compute_forward_rms_norm_f32`: the mean and the root are rounded to f32.
pub fn rms_norm(row: &mut [f32], eps: f32) {
    let mean = (sum_of_squares(row) / row.len() as f64) as f32;
    scale(row, 1.0 / (mean + eps).sqrt());
}

/// `ggml_compute_forward_l2_norm_f32`: the sum is rounded to f32 in front of the root.
pub fn l2_norm(row: &mut [f32], eps: f32) {
    let norm = (sum_of_squares(row) as f32).sqrt();
    scale(row, 1.0 / norm.max(eps));
}

/// `ggml_compute_forward_norm_f32` of a row that is contiguous: mean and variance are rounded to f32, the squares of a register are
/// added in f32 first (`ggml_vec_cvar_f32`, vec.cpp).
pub fn norm(ggml: Ggml, row: &mut [f32], eps: f32) {
    let n = row.len();
    let mean = sum(row) / n as f32;
    row.iter_mut().for_each(|x| *x -= mean);
    let squares: Vec<f32> = row.iter().map(|x| x * x).collect();
    let mut registers = squares.chunks_exact(ggml.isa.lanes());
    let whole =
        registers.by_ref().fold(0.0, |sum, register| sum + f64::from(sum_of_register(ggml.isa, register)));
    let all = registers.remainder().iter().fold(whole, |sum, &x| sum + f64::from(x));
    let variance = (all / n as f64) as f32;
    scale(row, 1.0 / (variance + eps).sqrt());
}

/// A row of a mask with the slope that it is multiplied by, if there is one.
pub type Mask<'a> = Option<(f32, &'a [f32])>;

/// `ggml_compute_forward_soft_max_f32` of one row: scaled, the mask times its slope added, exponentials over their sum.
pub fn soft_max(ggml: Ggml, row: &mut [f32], factor: f32, mask: Mask<'_>, sink: Option<f32>) {
    scale(row, factor);
    if let Some((slope, mask)) = mask {
        row.iter_mut().zip(mask).for_each(|(x, &m)| *x = ggml.isa.madd(slope, m, *x));
    }
    let larger = |max: f32, &x: &f32| if max > x { max } else { x };
    let mut max = row.iter().fold(f32::NEG_INFINITY, larger);
    if let Some(sink) = sink {
        max = larger(max, &sink);
    }
    let mut sum = super::exp::exp_row(ggml, row, max);
    if let Some(sink) = sink {
        sum += f64::from((sink - max).exp());
    }
    scale(row, (1.0 / sum) as f32);
}

/// One output of `ggml_compute_forward_ssm_conv_f32`: in f32, tap by tap; four taps fill a register of AVX2 and are not fused.
pub fn conv(isa: Isa, window: &[f32], taps: &[f32]) -> f32 {
    in_order(isa, 0.0, window, taps)
}

/// `ggml_compute_forward_solve_tri_f32`: X `[n, k]` in `A X = B`, A `[n, n]` lower triangular; the products of a row in order.
pub fn solve_tri(isa: Isa, a: &[f32], b: &[f32], n: usize) -> Vec<f32> {
    let k = b.len() / n;
    let mut x = b.to_vec();
    for column in 0..k {
        let mut solved = Vec::with_capacity(n);
        for (i, row) in a.chunks_exact(n).enumerate() {
            // A column of several is not contiguous.
            let sum = match k {
                1 => in_order(isa, 0.0, &row[..i], &solved),
                _ => in_order_strided(isa, 0.0, &row[..i], &solved),
            };
            let value = (b[i * k + column] - sum) / row[i];
            x[i * k + column] = value;
            solved.push(value);
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ggml(isa: Isa) -> Ggml {
        Ggml { isa, ..Ggml::of("CPU : ").unwrap() }
    }

    #[test]
    fn squares_are_rounded_before_they_are_added() {
        // (1 + 2^-12)^2 is not an f32: 2^-24 of it is lost.
        let x = 1.0 + 2f32.powi(-12);
        assert_eq!(sum_of_squares(&[x]), 1.0 + 2f64.powi(-11));
    }

    #[test]
    fn the_epsilon_of_l2_is_a_floor_and_of_rms_a_term() {
        let mut row = [3.0, 4.0];
        l2_norm(&mut row, 10.0);
        assert_eq!(row, [3.0 * 0.1, 4.0 * 0.1]);
        let mut row = [4.0, -4.0];
        rms_norm(&mut row, 48.0);
        assert_eq!(row, [0.5, -0.5]); // 16 + 48 = 8^2
    }

    #[test]
    fn a_masked_element_has_no_share() {
        for isa in [Isa::Sse2, Isa::Avx2, Isa::Avx512] {
            let mut row = [1.0f32; 9];
            let mut mask = [0.0f32; 9];
            mask[8] = f32::NEG_INFINITY;
            soft_max(ggml(isa), &mut row, 0.5, Some((1.0, &mask)), None);
            assert_eq!((row[0], row[7], row[8]), (0.125, 0.125, 0.0));
        }
    }

    #[test]
    fn a_fused_product_keeps_what_a_rounded_one_loses() {
        let a = 1.0 + 2f32.powi(-12);
        let (window, taps) = ([1.0, a], [-1.0, a]);
        assert_eq!(conv(Isa::Sse2, &window, &taps), 2f32.powi(-11));
        assert_eq!(conv(Isa::Avx2, &window, &taps), 2f32.powi(-11) + 2f32.powi(-24));
    }

    /// -1 + a^2 of four products, which fill a register of AVX2, but none of AVX-512.
    #[test]
    fn four_products_are_fused_or_not() {
        let a = 1.0 + 2f32.powi(-12);
        let (rounded, fused) = (2f32.powi(-11), 2f32.powi(-11) + 2f32.powi(-24));
        let of_conv = |isa| conv(isa, &[1.0, 0.0, 0.0, a], &[-1.0, 0.0, 0.0, a]);
        assert_eq!((of_conv(Isa::Avx2), of_conv(Isa::Avx512)), (rounded, fused));
        let mut matrix = [0f32; 25];
        (0..5).for_each(|i| matrix[6 * i] = 1.0);
        (matrix[20], matrix[23]) = (1.0, a);
        let last = |isa, columns: usize| {
            let of_row = |row| std::iter::repeat_n([-1.0, 0.0, 0.0, a, 0.0][row], columns);
            let b: Vec<f32> = (0..5).flat_map(of_row).collect();
            -solve_tri(isa, &matrix, &b, 5)[4 * columns]
        };
        assert_eq!((last(Isa::Avx2, 1), last(Isa::Avx2, 2)), (rounded, rounded));
        assert_eq!((last(Isa::Avx512, 1), last(Isa::Avx512, 2)), (fused, rounded));
    }
}
