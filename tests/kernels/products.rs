//! kernels/products.cu.

use lockstep::engine::gpu::launch::{self, Matrices};
use lockstep::ops::{Number, Tracked, products};
use ndarray::ArrayView4;

use crate::support::{assert_rounded, assert_same_bits, given, in_every_order, values};

/// `n` matrices in a stack of one.
fn stack<'a>(x: &'a [Tracked], [n, rows, columns]: [usize; 3]) -> ArrayView4<'a, Tracked> {
    ArrayView4::from_shape((n, 1, rows, columns), x).unwrap()
}

#[test]
fn rows_meet_rows() {
    in_every_order(|device| {
        for (n, rows, columns, size) in
            [(1, 1, 1, 1), (2, 31, 33, 7), (3, 2, 5, 64), (1, 64, 64, 64), (1, 33, 128, 65)]
        {
            let (a, b) = (values(n * columns * size, 1), values(n * rows * size, 2));
            let (exact_a, exact_b) = (given(&a), given(&b));
            let (from_a, from_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            // Each operand packed, and as the transposed view of the same values.
            for [a_turned, b_turned] in [[false, false], [true, false], [false, true], [true, true]] {
                let shape = |rows, is_turned| if is_turned { [n, size, rows] } else { [n, rows, size] };
                let (a_shape, b_shape) = (shape(columns, a_turned), shape(rows, b_turned));
                let mut views =
                    [Matrices::packed(from_a.all(), a_shape), Matrices::packed(from_b.all(), b_shape)];
                let mut exact = [stack(&exact_a, a_shape), stack(&exact_b, b_shape)];
                for (i, is_turned) in [a_turned, b_turned].into_iter().enumerate() {
                    if is_turned {
                        views[i] = views[i].transposed();
                        exact[i] = exact[i].permuted_axes([0, 1, 3, 2]);
                    }
                }
                let mut y = device.alloc(n * rows * columns).unwrap();
                launch::products(device, y.all_mut(), views[0], views[1]).unwrap();
                let what = format!("products: {a_shape:?} {a_turned} and {b_shape:?} {b_turned}");
                let exact = products(exact[0], exact[1]).into_raw_vec_and_offset().0;
                assert_rounded(&what, &device.read(y.all()).unwrap(), &exact);
            }
        }
    });
}

#[test]
fn one_matrix_serves_all() {
    in_every_order(|device| {
        let (a, b) = (values(5 * 3, 1), values(2 * 4 * 3, 2));
        let (from_a, from_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let mut y = device.alloc(2 * 4 * 5).unwrap();
        let one = Matrices::packed(from_a.all(), [1, 5, 3]);
        launch::products(device, y.all_mut(), one, Matrices::packed(from_b.all(), [2, 4, 3])).unwrap();
        let twice = given(&[&a[..], &a].concat());
        let exact = products(stack(&twice, [2, 5, 3]), stack(&given(&b), [2, 4, 3]));
        assert_rounded(
            "products: one for both",
            &device.read(y.all()).unwrap(),
            &exact.into_raw_vec_and_offset().0,
        );
    });
}

#[test]
fn rows_meet_a_vector() {
    in_every_order(|device| {
        for shape @ [n, rows, size] in [[1, 1, 1], [3, 2, 31], [2, 9, 33], [1, 3, 1025]] {
            let (a, b) = (values(n * rows * size, 1), values(n * size, 2));
            let (from_a, from_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut y = device.alloc(n * rows).unwrap();
            launch::sum_products(device, y.all_mut(), from_a.all(), from_b.all(), shape).unwrap();
            let (a, b) = (given(&a), given(&b));
            let of_row = |row: usize| {
                let (a, b) = (&a[row * size..][..size], &b[row / rows * size..][..size]);
                Tracked::sum_in_f64(a.iter().zip(b).map(|(&a, &b)| a * b))
            };
            let exact: Vec<Tracked> = (0..n * rows).map(of_row).collect();
            assert_rounded(&format!("sum_products: {shape:?}"), &device.read(y.all()).unwrap(), &exact);
        }
    });
}

/// The sum is not one of f32, in which the 1 would be lost: that of neighbouring lanes, and that of a lane.
#[test]
fn sums_are_taken_in_f64() {
    in_every_order(|device| {
        for (large, one, negative) in [(0, 1, 2), (0, 2, 1), (0, 32, 64)] {
            let mut a = vec![0.0f32; 65];
            (a[large], a[one], a[negative]) = (1e8, 1.0, -1e8);
            let (from_a, b) = (device.upload(&a).unwrap(), device.upload(&[1.0f32; 65]).unwrap());
            let mut y = device.alloc(1).unwrap();
            launch::sum_products(device, y.all_mut(), from_a.all(), b.all(), [1, 1, 65]).unwrap();
            let what = format!("sum_products: 1e8 at {large}, 1 at {one}, -1e8 at {negative}");
            assert_same_bits(&what, &device.read(y.all()).unwrap(), &[1.0]);
        }
    });
}

#[test]
#[should_panic(expected = "products: [2, 5, 3] and [2, 4, 2]")]
fn rows_of_other_lengths_are_refused() {
    in_every_order(|device| {
        let (a, b, mut y) = (device.alloc(30).unwrap(), device.alloc(16).unwrap(), device.alloc(40).unwrap());
        let [a, b] = [(&a, [2, 5, 3]), (&b, [2, 4, 2])].map(|(x, shape)| Matrices::packed(x.all(), shape));
        launch::products(device, y.all_mut(), a, b).unwrap();
    });
}
