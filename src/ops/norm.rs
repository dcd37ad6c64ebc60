//! RMS_NORM and L2_NORM over the last dimension.
//!
//! ```text
//! rms_norm:  y_i = x_i / sqrt(mean(x^2) + eps)
//! l2_norm:   y_i = x_i / max(sqrt(sum(x^2)), eps)
//! ```
//! The sum of squares accumulates in f64, as `ggml_compute_forward_rms_norm_f32` (ops.cpp) does; the rest is in the
//! arithmetic's own type.

use ndarray::{ArrayBase, ArrayRef, DataMut, Dimension};

use super::Number;

/// Divides each row by its root mean square, `eps` inside the root. In place.
pub fn rms_norm<T: Number, S: DataMut<Elem = T>, D: Dimension>(x: &mut ArrayBase<S, D>, eps: f64) {
    scale_rows(x, |sum_of_squares, n| 1.0 / (sum_of_squares / n as f64 + eps).sqrt());
}

/// Divides each row by its Euclidean norm, which counts as at least `eps`. In place.
pub fn l2_norm<T: Number, S: DataMut<Elem = T>, D: Dimension>(x: &mut ArrayBase<S, D>, eps: f64) {
    scale_rows(x, |sum_of_squares, _| 1.0 / sum_of_squares.sqrt().max(eps));
}

fn scale_rows<T: Number, D: Dimension>(x: &mut ArrayRef<T, D>, scale: impl Fn(f64, usize) -> f64) {
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
    fn the_l2_norm_has_a_floor() {
        let mut x = array![[3.0f32, 4.0], [0.0, 0.001]];
        l2_norm(&mut x, 0.5);
        assert_eq!(x, array![[3.0 / 5.0, 4.0 / 5.0], [0.0, 0.002]]);
    }
}
