//! SOFT_MAX: `p_j = exp(scale x_j + mask_j - m) / sum`, m the row's largest scaled and masked value.
//!
//! Mirrors `ggml_compute_forward_soft_max_f32` (ops.cpp): masked elements are minus infinity; the sum accumulates in f64.

use super::Number;

/// The softmax of one row in place; element j takes part where `visible(j)`, the others become 0.
///
/// A row in which nothing is visible becomes NaN, as it does in ggml.
pub fn soft_max_row<T: Number>(row: &mut [T], scale: T, visible: impl Fn(usize) -> bool) {
    T::soft_max(row, scale, visible);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_elements_take_no_part() {
        let mut row = [1.0f64, 1.0, 50.0];
        soft_max_row(&mut row, 3.0, |j| j < 2);
        assert_eq!(row, [0.5, 0.5, 0.0]);
    }

    #[test]
    fn nothing_visible_is_not_a_number() {
        let mut row = [1.0f32, 2.0];
        soft_max_row(&mut row, 1.0, |_| false);
        assert!(row.iter().all(|p| p.is_nan()));
    }
}
