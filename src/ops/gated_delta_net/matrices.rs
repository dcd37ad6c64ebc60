//! GATED_DELTA_NET, what its graphs are made of: operators of ggml on stacks of small matrices `[.., .., rows, columns]`.

use ndarray::{Array4, ArrayView2, ArrayView4, ArrayViewMut2, Axis};
use rayon::prelude::*;

use crate::arithmetic::Product;
use crate::ops::Number;

/// MUL_MAT of `a` and `b`: `y[i, j] = sum_c a[j, c] b[i, c]` in each pair of matrices.
///
/// # Panics
/// If the stacks are not equally high or the rows not equally long.
pub fn products<T: Number>(a: ArrayView4<'_, T>, b: ArrayView4<'_, T>) -> Array4<T> {
    products_by(Product::default(), a, b)
}

/// The same, each element formed in one of the ways of ggml-cpu where the arithmetic follows it.
pub(super) fn products_by<T: Number>(how: Product, a: ArrayView4<'_, T>, b: ArrayView4<'_, T>) -> Array4<T> {
    let (stack, height, m, n) = (a.dim().0, a.dim().1, a.dim().2, b.dim().2);
    assert!((stack, height) == (b.dim().0, b.dim().1) && a.dim().3 == b.dim().3, "matrices to multiply");
    let mut y = Array4::from_elem((stack, height, n, m), T::ZERO);
    let (a, b) = (a.as_standard_layout(), b.as_standard_layout());
    let each: Vec<_> = y.axis_iter_mut(Axis(0)).zip(a.axis_iter(Axis(0)).zip(b.axis_iter(Axis(0)))).collect();
    each.into_par_iter().for_each(|(mut y, (a, b))| {
        for (y, (a, b)) in y.outer_iter_mut().zip(a.outer_iter().zip(b.outer_iter())) {
            product(how, y, a, b);
        }
    });
    y
}

fn product<T: Number>(how: Product, mut y: ArrayViewMut2<'_, T>, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) {
    for (mut y, b) in y.outer_iter_mut().zip(b.outer_iter()) {
        let b = b.to_slice().expect("standard layout");
        for (y, a) in y.iter_mut().zip(a.outer_iter()) {
            *y = T::product(how, a.to_slice().expect("standard layout"), b);
        }
    }
}

/// Each matrix with rows for columns, packed (CONT of TRANSPOSE).
pub(super) fn transposed<T: Number>(x: ArrayView4<'_, T>) -> Array4<T> {
    x.permuted_axes([0, 1, 3, 2]).as_standard_layout().into_owned()
}

/// Which elements TRI keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Triangle {
    /// Those below the diagonal.
    Lower,
    /// Those below and on the diagonal.
    LowerDiag,
}

/// TRI: what is not in the triangle becomes 0.
pub(super) fn triangle<T: Number>(mut x: Array4<T>, which: Triangle) -> Array4<T> {
    for ((_, _, i, j), value) in x.indexed_iter_mut() {
        if !(j < i || j == i && which == Triangle::LowerDiag) {
            *value = T::ZERO;
        }
    }
    x
}

/// ADD of the identity to each square matrix.
pub(super) fn plus_identity<T: Number>(mut x: Array4<T>) -> Array4<T> {
    for ((_, _, i, j), value) in x.indexed_iter_mut() {
        *value += if i == j { T::ONE } else { T::ZERO };
    }
    x
}

/// SOLVE_TRI: X in `A X = B`, A lower triangular, row after row (`ggml_compute_forward_solve_tri_f32`, ops.cpp).
///
/// # Panics
/// If A is not square or B has another number of rows.
pub fn solved<T: Number>(a: ArrayView4<'_, T>, b: ArrayView4<'_, T>) -> Array4<T> {
    let mut x = b.as_standard_layout().into_owned();
    let each: Vec<_> = x.axis_iter_mut(Axis(0)).zip(a.axis_iter(Axis(0))).collect();
    each.into_par_iter().for_each(|(mut x, a)| {
        for (mut x, a) in x.outer_iter_mut().zip(a.outer_iter()) {
            substitute(&mut x, a);
        }
    });
    x
}

fn substitute<T: Number>(x: &mut ArrayViewMut2<'_, T>, a: ArrayView2<'_, T>) {
    let a = a.as_standard_layout();
    for mut column in x.columns_mut() {
        let mut solved = Vec::with_capacity(column.len());
        for (x, row) in column.iter_mut().zip(a.rows()) {
            let (i, row) = (solved.len(), row.to_slice().expect("standard layout"));
            *x = (*x - T::in_order(&row[..i], &solved)) / row[i];
            solved.push(*x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(values: [f64; 4]) -> Array4<f64> {
        Array4::from_shape_vec((1, 1, 2, 2), values.to_vec()).unwrap()
    }

    #[test]
    fn rows_meet_rows() {
        let (a, b) = (stack([1.0, 2.0, 3.0, 4.0]), stack([1.0, 0.0, 10.0, 1.0]));
        // b_0 a_0, b_0 a_1; b_1 a_0, b_1 a_1
        assert_eq!(products(a.view(), b.view()), stack([1.0, 3.0, 12.0, 34.0]));
        // a transposed view is read as what it shows
        assert_eq!(products(transposed(a.view()).view(), b.view()), stack([1.0, 2.0, 13.0, 24.0]));
        let view = a.view().permuted_axes([0, 1, 3, 2]);
        assert_eq!(products(view, b.view()), stack([1.0, 2.0, 13.0, 24.0]));
    }

    #[test]
    fn a_triangle_has_its_diagonal_or_not() {
        let x = stack([1.0, 2.0, 3.0, 4.0]);
        assert_eq!(triangle(x.clone(), Triangle::Lower), stack([0.0, 0.0, 3.0, 0.0]));
        assert_eq!(triangle(x.clone(), Triangle::LowerDiag), stack([1.0, 0.0, 3.0, 4.0]));
        assert_eq!(plus_identity(x), stack([2.0, 2.0, 3.0, 5.0]));
    }

    #[test]
    fn a_solution_solves() {
        // X_0 = 4 / 2, 6 / 2; X_1 = (10 - 3 * 2) / 4, (1 - 3 * 3) / 4; the 9 is above the diagonal
        let (a, b) = (stack([2.0, 9.0, 3.0, 4.0]), stack([4.0, 6.0, 10.0, 1.0]));
        assert_eq!(solved(a.view(), b.view()), stack([2.0, 3.0, 1.0, -2.0]));
    }
}
