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

use ndarray::{ArrayBase, ArrayRef, ArrayViewMut1, DataMut, Dimension};

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
    if place == RmsNormEps::InsideRoot {
        x.rows_mut().into_iter().for_each(|row| in_place(row, |row| T::rms_norm(row, eps)));
        return;
    }
    scale_rows(x, |sum_of_squares, n| {
        let mean = sum_of_squares / n;
        1.0 / match place {
            RmsNormEps::InsideRoot => unreachable!("the arithmetic's own"),
            RmsNormEps::OutsideRoot => mean.sqrt() + eps,
            RmsNormEps::Max => mean.sqrt().max(eps),
            RmsNormEps::OnSum => ((sum_of_squares + eps) / n).sqrt(),
            RmsNormEps::Absent => mean.sqrt(),
        }
    });
}

/// Divides each row by its Euclidean norm, which counts as at least `eps`. In place.
pub fn l2_norm<T: Number, S: DataMut<Elem = T>, D: Dimension>(x: &mut ArrayBase<S, D>, eps: f64) {
    x.rows_mut().into_iter().for_each(|row| in_place(row, |row| T::l2_norm(row, eps)));
}

/// Multiplies each row with what `scale` makes of the sum of its squares and its length. In place.
pub fn scale_rows<T: Number, D: Dimension>(x: &mut ArrayRef<T, D>, scale: impl Fn(f64, f64) -> f64) {
    x.rows_mut().into_iter().for_each(|row| in_place(row, |row| scale_row(row, &scale)));
}

/// One row of [`scale_rows`].
pub(super) fn scale_row<T: Number>(row: &mut [T], scale: impl Fn(f64, f64) -> f64) {
    let sum_of_squares: f64 = row.iter().map(|&v| v.to_f64() * v.to_f64()).sum();
    let scale = T::from_f64(scale(sum_of_squares, row.len() as f64));
    row.iter_mut().for_each(|v| *v = *v * scale);
}

/// Changes a row, however it lies in memory.
pub(super) fn in_place<T: Copy>(mut row: ArrayViewMut1<'_, T>, change: impl FnOnce(&mut [T])) {
    if let Some(row) = row.as_slice_mut() {
        return change(row);
    }
    let mut packed = row.to_vec();
    change(&mut packed);
    row.iter_mut().zip(packed).for_each(|(x, packed)| *x = packed);
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
