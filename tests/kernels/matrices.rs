//! kernels/matrices.cu.

use lockstep::engine::gpu::launch::{self, Matrices};
use lockstep::engine::gpu::{Device, GpuError, PartMut};

use crate::support::{assert_same_bits, in_every_order, values};

/// Matrices of these values on the host, by the rule of [`Matrices`].
fn elements(x: &[f32], [n, rows, columns]: [usize; 3], [by_n, by_row, by_column]: [usize; 3]) -> Vec<f32> {
    let indices = (0..n * rows * columns).map(|i| (i / (rows * columns), i / columns % rows, i % columns));
    indices.map(|(m, i, j)| x[m * by_n + i * by_row + j * by_column]).collect()
}

#[test]
fn matrices_in_any_order_with_rows_of_zeros() {
    in_every_order(|device| {
        // packed; one of two heads of each token; one row more; rows for columns
        for (shape, strides, at, rows) in [
            ([1, 1, 1], [0, 0, 0], 0, 1),
            ([3, 5, 7], [35, 7, 1], 0, 5),
            ([2, 3, 31], [31, 62, 1], 0, 64),
            ([2, 33, 1], [1, 2, 0], 3, 40),
            ([4, 31, 33], [31 * 33, 1, 31], 1, 31),
        ] {
            let last: usize = shape.iter().zip(strides).map(|(extent, stride)| (extent - 1) * stride).sum();
            let x = values(at + last + 1, 1);
            let from = device.upload(&x).unwrap();
            let [n, x_rows, columns] = shape;
            let mut y = device.alloc(n * rows * columns).unwrap();
            let view = Matrices::strided(from.part(at..x.len()), shape, strides);
            launch::cont(device, y.all_mut(), view, rows).unwrap();
            let mut expected = Vec::new();
            for matrix in elements(&x[at..], shape, strides).chunks(x_rows * columns) {
                expected.extend_from_slice(matrix);
                expected.resize(expected.len() + (rows - x_rows) * columns, 0.0);
            }
            assert_same_bits(
                &format!("cont: {shape:?} by {strides:?}"),
                &device.read(y.all()).unwrap(),
                &expected,
            );
        }
    });
}

/// Its name, on the device, and on the host for one element.
type OfTwo = (&'static str, Launch, fn(f32, f32) -> f32);
type Launch = fn(&Device, PartMut<'_, f32>, Matrices<'_>, Matrices<'_>) -> Result<(), GpuError>;

#[test]
fn what_one_has_once_is_repeated() {
    let of_two: [OfTwo; 3] = [
        ("add", launch::add_matrices, |a, b| a + b),
        ("sub", launch::sub_matrices, |a, b| a - b),
        ("mul", launch::mul_matrices, |a, b| a * b),
    ];
    in_every_order(|device| {
        for (a_shape, b_shape, joint) in [
            ([1, 1, 1], [1, 1, 1], [1, 1, 1]),
            ([2, 3, 31], [2, 3, 31], [2, 3, 31]),
            ([2, 3, 33], [2, 1, 33], [2, 3, 33]), // a row
            ([2, 3, 33], [2, 3, 1], [2, 3, 33]),  // a column
            ([5, 3, 4], [5, 1, 1], [5, 3, 4]),    // a number for each matrix
            ([5, 3, 4], [1, 3, 4], [5, 3, 4]),    // a matrix for all
            ([2, 31, 1], [2, 1, 33], [2, 31, 33]),
        ] {
            let of = |shape: [usize; 3], seed| values(shape.iter().product(), seed);
            let (a, b) = (of(a_shape, 1), of(b_shape, 2));
            let (from_a, from_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let by = |shape: [usize; 3]| {
                let packed = [shape[1] * shape[2], shape[2], 1];
                std::array::from_fn(|i| if shape[i] == 1 { 0 } else { packed[i] })
            };
            let pairs = || elements(&a, joint, by(a_shape)).into_iter().zip(elements(&b, joint, by(b_shape)));
            for (name, launch, exact) in of_two {
                let mut y = device.alloc(joint.iter().product()).unwrap();
                let [a, b] = [(&from_a, a_shape), (&from_b, b_shape)]
                    .map(|(buffer, shape)| Matrices::packed(buffer.all(), shape));
                assert_eq!(a.joint_shape(&b), joint);
                launch(device, y.all_mut(), a, b).unwrap();
                let expected: Vec<f32> = pairs().map(|(a, b)| exact(a, b)).collect();
                let what = format!("{name}: {a_shape:?} and {b_shape:?}");
                assert_same_bits(&what, &device.read(y.all()).unwrap(), &expected);
            }
        }
    });
}

#[test]
fn a_transposed_operand() {
    in_every_order(|device| {
        let (a, b) = (values(2 * 3 * 5, 1), values(2 * 5 * 3, 2));
        let (from_a, from_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let mut y = device.alloc(30).unwrap();
        let a_t = Matrices::packed(from_a.all(), [2, 3, 5]).transposed();
        launch::sub_matrices(device, y.all_mut(), a_t, Matrices::packed(from_b.all(), [2, 5, 3])).unwrap();
        let a_t = elements(&a, [2, 5, 3], [15, 1, 5]);
        let expected: Vec<f32> = a_t.iter().zip(&b).map(|(a, b)| a - b).collect();
        assert_same_bits("sub: a^T - b", &device.read(y.all()).unwrap(), &expected);
    });
}

#[test]
fn triangles() {
    in_every_order(|device| {
        for (n, size) in [(1, 1), (3, 2), (2, 31), (1, 64)] {
            // Infinities above the diagonal leave nothing behind.
            let at = |i: usize| (i / size % size, i % size);
            let x = values(n * size * size, 1).into_iter().enumerate();
            let x: Vec<f32> = x.map(|(i, x)| if at(i).1 > at(i).0 { f32::INFINITY } else { x }).collect();
            let from = device.upload(&x).unwrap();
            for diagonal in [false, true] {
                let mut y = device.alloc(x.len()).unwrap();
                launch::tri(device, y.all_mut(), from.all(), size, diagonal).unwrap();
                let keeps = |(i, j): (usize, usize)| j < i || j == i && diagonal;
                let expected: Vec<f32> =
                    x.iter().enumerate().map(|(i, &x)| if keeps(at(i)) { x } else { 0.0 }).collect();
                let what = format!("tri: {n} of {size}, diagonal {diagonal}");
                assert_same_bits(&what, &device.read(y.all()).unwrap(), &expected);
            }
        }
    });
}

#[test]
fn rows_added_up() {
    in_every_order(|device| {
        for (rows, size) in [(1, 1), (33, 2), (5, 64), (300, 3), (2, 1025)] {
            let mut x = values(rows * size, 1);
            x[0] = -0.0;
            let from = device.upload(&x).unwrap();
            let mut y = device.alloc(x.len()).unwrap();
            launch::cumsum(device, y.all_mut(), from.all(), size).unwrap();
            let mut expected = x.clone();
            for row in expected.chunks_mut(size) {
                for j in 1..size {
                    row[j] += row[j - 1];
                }
            }
            assert_same_bits(&format!("cumsum: {rows} of {size}"), &device.read(y.all()).unwrap(), &expected);
        }
    });
}

#[test]
#[should_panic(expected = "[2, 3, 4] and [2, 2, 4]")]
fn matrices_that_do_not_fit_are_refused() {
    in_every_order(|device| {
        let (a, b, mut y) = (device.alloc(24).unwrap(), device.alloc(16).unwrap(), device.alloc(24).unwrap());
        let [a, b] = [(&a, [2, 3, 4]), (&b, [2, 2, 4])].map(|(x, shape)| Matrices::packed(x.all(), shape));
        launch::add_matrices(device, y.all_mut(), a, b).unwrap();
    });
}

#[test]
#[should_panic(expected = "of 23 values")]
fn a_view_beyond_its_values_is_refused() {
    in_every_order(|device| {
        let x = device.alloc(23).unwrap();
        Matrices::strided(x.all(), [2, 3, 4], [12, 1, 3]);
    });
}
