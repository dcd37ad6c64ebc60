//! Launches of kernels/matrices.cu, and stacks of matrices as kernels read them.

use super::super::{Arg, Device, GpuError, Part, PartMut};
use super::norm::assert_indexable;
use super::unary::one_each;

/// A stack of matrices that is read: element (n, row, column) lies at the sum of each index times its stride.
#[derive(Clone, Copy)]
pub struct Matrices<'a> {
    pub(super) values: Part<'a, f32>,
    /// Matrices, rows, columns.
    pub(super) shape: [usize; 3],
    pub(super) strides: [usize; 3],
}

impl<'a> Matrices<'a> {
    /// Matrices one after the other, row by row.
    ///
    /// # Panics
    /// If there are more or fewer values.
    pub fn packed(values: Part<'a, f32>, shape: [usize; 3]) -> Matrices<'a> {
        let [_, rows, columns] = shape;
        assert_eq!(values.len(), shape.iter().product::<usize>(), "values of {shape:?}");
        Matrices::strided(values, shape, [rows * columns, columns, 1])
    }

    /// Matrices that lie in some other order, the first element where `values` begins.
    ///
    /// # Panics
    /// If an element lies beyond the values.
    pub fn strided(values: Part<'a, f32>, shape: [usize; 3], strides: [usize; 3]) -> Matrices<'a> {
        let last: usize =
            shape.iter().zip(strides).map(|(extent, stride)| extent.saturating_sub(1) * stride).sum();
        let is_empty = shape.contains(&0);
        assert!(is_empty || last < values.len(), "{shape:?} by {strides:?} of {} values", values.len());
        assert_indexable(values.len());
        Matrices { values, shape, strides }
    }

    /// Rows for columns.
    #[must_use]
    pub fn transposed(self) -> Matrices<'a> {
        let ([n, rows, columns], [by_n, by_row, by_column]) = (self.shape, self.strides);
        Matrices { shape: [n, columns, rows], strides: [by_n, by_column, by_row], ..self }
    }

    /// Matrices, rows, columns.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// What [`add_matrices`] and its like make of these two: each extent is that of both, or one of them has an extent of 1, which is
    /// repeated.
    ///
    /// # Panics
    /// If an extent is neither.
    pub fn joint_shape(&self, other: &Matrices<'_>) -> [usize; 3] {
        std::array::from_fn(|i| match (self.shape[i], other.shape[i]) {
            (a, b) if a == b || b == 1 => a,
            (1, b) => b,
            _ => panic!("{:?} and {:?}", self.shape, other.shape),
        })
    }

    /// Strides by which it is read as matrices of this shape: what it has once is repeated.
    pub(super) fn strides_in(&self, shape: [usize; 3]) -> [Arg; 3] {
        std::array::from_fn(|i| if self.shape[i] == shape[i] { self.strides[i] } else { 0 }.into())
    }
}

/// `y [n, rows, columns]`, packed: the matrices of `x`, and rows of zeros behind theirs.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y` has another size, or fewer rows than `x`.
pub fn cont(device: &Device, mut y: PartMut<'_, f32>, x: Matrices<'_>, rows: usize) -> Result<(), GpuError> {
    let [n, x_rows, columns] = x.shape;
    let total = y.len();
    assert!(total == n * rows * columns && rows >= x_rows, "cont: {total} for {rows} rows of {:?}", x.shape);
    assert_indexable(total);
    let sizes = [total, rows, columns, x_rows].map(Into::into);
    let args = [&[(&mut y).into(), x.values.into()], &sizes[..], &x.strides.map(Into::into)].concat();
    device.launch("cont_f32", one_each(total), &args)
}

/// `y = a + b`, packed, of the [`joint_shape`](Matrices::joint_shape) of both.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If their shapes do not fit each other, or `y` has another size.
pub fn add_matrices(
    device: &Device,
    y: PartMut<'_, f32>,
    a: Matrices<'_>,
    b: Matrices<'_>,
) -> Result<(), GpuError> {
    of_two(device, "add_matrices_f32", y, a, b)
}

/// `y = a - b`, as [`add_matrices`].
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If their shapes do not fit each other, or `y` has another size.
pub fn sub_matrices(
    device: &Device,
    y: PartMut<'_, f32>,
    a: Matrices<'_>,
    b: Matrices<'_>,
) -> Result<(), GpuError> {
    of_two(device, "sub_matrices_f32", y, a, b)
}

/// `y = a b`, element by element, as [`add_matrices`].
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If their shapes do not fit each other, or `y` has another size.
pub fn mul_matrices(
    device: &Device,
    y: PartMut<'_, f32>,
    a: Matrices<'_>,
    b: Matrices<'_>,
) -> Result<(), GpuError> {
    of_two(device, "mul_matrices_f32", y, a, b)
}

fn of_two(
    device: &Device,
    kernel: &'static str,
    mut y: PartMut<'_, f32>,
    a: Matrices<'_>,
    b: Matrices<'_>,
) -> Result<(), GpuError> {
    let shape @ [n, rows, columns] = a.joint_shape(&b);
    let total = y.len();
    assert_eq!(total, n * rows * columns, "{kernel}: {shape:?}");
    assert_indexable(total);
    let buffers = [(&mut y).into(), a.values.into(), b.values.into()];
    let sizes = [total, rows, columns].map(Into::into);
    let args = [&buffers[..], &sizes, &a.strides_in(shape), &b.strides_in(shape)].concat();
    device.launch(kernel, one_each(total), &args)
}

/// Of square matrices of `size` rows what is below the diagonal, with `diagonal` what is on it too; the rest becomes 0.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y` and `x` are not whole matrices, and equally many.
pub fn tri(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    size: usize,
    diagonal: bool,
) -> Result<(), GpuError> {
    let total = y.len();
    let is_whole = size > 0 && total.is_multiple_of(size * size);
    assert!(is_whole && x.len() == total, "tri: {} to {total} by {size}", x.len());
    assert_indexable(total);
    let args = [(&mut y).into(), x.into(), total.into(), size.into(), i32::from(diagonal).into()];
    device.launch("tri_f32", one_each(total), &args)
}

/// `y` = each row of `size` values of `x` added up from its left.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If `y` and `x` are not whole rows, and equally many.
pub fn cumsum(
    device: &Device,
    mut y: PartMut<'_, f32>,
    x: Part<'_, f32>,
    size: usize,
) -> Result<(), GpuError> {
    let total = y.len();
    let is_whole = size > 0 && total.is_multiple_of(size);
    assert!(is_whole && x.len() == total, "cumsum: {} to {total} by {size}", x.len());
    let rows = total / size;
    device.launch("cumsum_f32", one_each(rows), &[(&mut y).into(), x.into(), rows.into(), size.into()])
}
