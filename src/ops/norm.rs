//! RMS_NORM and L2_NORM over the last dimension.
//!
//! ```text
//! rms_norm:  y_i = x_i / sqrt(mean(x^2) + eps)
//! l2_norm:   y_i = x_i / max(sqrt(sum(x^2)), eps)
//! ```
//! Other places for the epsilon of the first are in [`RmsNormEps`].
//!
//! The sum of squares accumulates in f64, as `ggml_compute_forward_rms_norm_f32` (ops.cpp) does; the rest is in the
//! arithmetic's own type.

use ndarray::{ArrayBase, ArrayRef, DataMut, Dimension};

use super::Number;

/// Where the epsilon of an RMS norm stands; ggml has it inside the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RmsNormEps {
    /// `x / sqrt(mean(x^2) + eps)`
    InsideRoot,
    /// `x / (sqrt(mean(x^2)) + eps)`
    OutsideRoot,
    /// `x / max(sqrt(mean(x^2)), eps)`
    Max,
    /// `x / sqrt((sum(x^2) + eps) / n)`
    OnSum,
    /// `x / sqrt(mean(x^2))`, of a row of zeros NaN
    Absent,
}

/// Divides each row by its root mean square, `eps` inside the root. In place.
pub fn rms_norm<T: Number, S: DataMut<Elem = T>, D: Dimension>(x: &mut ArrayBase<S, D>, eps: f64) {
    rms_norm_with(x, eps, RmsNormEps::InsideRoot);
}

/// Divides each row by its root mean square, with `eps` where `place` says. In place.
pub fn rms_norm_with<T: Number, S: DataMut<Elem = T>, D: Dimension>(
    x: &mut ArrayBase<S, D>,
    eps: f64,
    place: RmsNormEps,
) {
    scale_rows(x, |sum_of_squares, n| {
        let n = n as f64;
        let mean = sum_of_squares / n;
        1.0 / match place {
            RmsNormEps::InsideRoot => (mean + eps).sqrt(),
            RmsNormEps::OutsideRoot => mean.sqrt() + eps,
            RmsNormEps::Max => mean.sqrt().max(eps),
            RmsNormEps::OnSum => ((sum_of_squares + eps) / n).sqrt(),
            RmsNormEps::Absent => mean.sqrt(),
        }
    });
}

/// Divides each row by its Euclidean norm, which counts as at least `eps`. In place.
pub fn l2_norm<T: Number, S: DataMut<Elem = T>, D: Dimension>(x: &mut ArrayBase<S, D>, eps: f64) {
    scale_rows(x, |sum_of_squares, _| 1.0 / sum_of_squares.sqrt().max(eps));
}

/// Multiplies each row with what `scale` makes of the sum of its squares and its length. In place.
pub fn scale_rows<T: Number, D: Dimension>(x: &mut ArrayRef<T, D>, scale: impl Fn(f64, usize) -> f64) {
    for mut row in x.rows_mut() {
        let sum_of_squares: f64 = row.iter().map(|&v| v.to_f64() * v.to_f64()).sum();
        let scale = T::from_f64(scale(sum_of_squares, row.len()));
        row.mapv_inplace(|v| v * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn epsilon_is_added_to_the_mean_square() {
        let mut x = array![[3.0f64, 4.0], [0.0, 0.0]];
        rms_norm(&mut x, 3.5);
        // mean square 12.5; 12.5 + 3.5 = 4^2
        assert_eq!(x, array![[3.0 / 4.0, 4.0 / 4.0], [0.0, 0.0]]);
    }

    #[test]
    fn the_epsilon_in_each_place() {
        let normed = |eps: f64, place| {
            let mut x = array![[4.0f64, -4.0]]; // sum 32, mean 16
            rms_norm_with(&mut x, eps, place);
            x[[0, 0]]
        };
        assert_eq!(normed(48.0, RmsNormEps::InsideRoot), 4.0 / 8.0); // 16 + 48 = 8^2
        assert_eq!(normed(28.0, RmsNormEps::OutsideRoot), 4.0 / 32.0); // 4 + 28
        assert_eq!([2.0, 8.0].map(|eps| normed(eps, RmsNormEps::Max)), [4.0 / 4.0, 4.0 / 8.0]);
        assert_eq!(normed(96.0, RmsNormEps::OnSum), 4.0 / 8.0); // 32 + 96 = 2 * 8^2
        assert_eq!(normed(48.0, RmsNormEps::Absent), 4.0 / 4.0);
    }

    #[test]
    fn without_an_epsilon_a_row_of_zeros_is_no_number() {
        let mut x = array![[0.0f64, 0.0]];
        rms_norm_with(&mut x, 1.0, RmsNormEps::Absent);
        assert!(x.iter().all(|value| value.is_nan()), "{x}");
    }

    #[test]
    fn the_l2_norm_has_a_floor() {
        let mut x = array![[3.0f32, 4.0], [0.0, 0.001]];
        l2_norm(&mut x, 0.5);
        assert_eq!(x, array![[3.0 / 5.0, 4.0 / 5.0], [0.0, 0.002]]);
    }
}
