//! kernels/solve_tri.cu.

use lockstep::engine::gpu::launch;
use lockstep::ops::solved;
use ndarray::ArrayView4;

use crate::support::{assert_same_bits, in_every_order, values};

#[test]
fn systems_of_every_size() {
    in_every_order(|device| {
        for (n, size, columns) in [(1, 1, 1), (3, 2, 5), (2, 31, 33), (1, 64, 64), (1, 65, 3)] {
            let b = values(n * size * columns, 1);
            // What is above the diagonal is not read, and the diagonal is not small.
            let mut a = values(n * size * size, 2);
            for (i, a) in a.iter_mut().enumerate() {
                match (i / size % size, i % size) {
                    (row, column) if column > row => *a = f32::NAN,
                    (row, column) if column == row => *a += 2.0,
                    _ => *a /= size as f32,
                }
            }
            let (from_a, from_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut x = device.alloc(b.len()).unwrap();
            launch::solve_tri(device, x.all_mut(), from_a.all(), from_b.all(), [n, size, columns]).unwrap();
            let a = ArrayView4::from_shape((n, 1, size, size), &a).unwrap();
            let b = ArrayView4::from_shape((n, 1, size, columns), &b).unwrap();
            let expected = solved(a, b).into_raw_vec_and_offset().0;
            let what = format!("solve_tri: {n} of {size} rows, {columns} columns");
            assert_same_bits(&what, &device.read(x.all()).unwrap(), &expected);
        }
    });
}

#[test]
#[should_panic(expected = "solve_tri of 257 rows")]
fn larger_systems_than_a_block_holds_are_refused() {
    in_every_order(|device| {
        let a = device.alloc(257 * 257).unwrap();
        let (mut x, b) = (device.alloc(257).unwrap(), device.alloc(257).unwrap());
        launch::solve_tri(device, x.all_mut(), a.all(), b.all(), [1, 257, 1]).unwrap();
    });
}
