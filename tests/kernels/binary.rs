//! kernels/binary.cu: each of them is one rounding.

use lockstep::engine::gpu::launch;

use crate::support::{assert_same_bits, in_every_order, values};

const SIZES: [usize; 6] = [1, 3, 4, 31, 33, 1025];

#[test]
fn sums_and_products() {
    in_every_order(|device| {
        for n in SIZES {
            // From 0 on 16 bytes, from 1 not.
            for at in [0, 1] {
                let (a, b) = (values(n + at, 1), values(n + at, 2));
                let (from_a, from_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
                let (part_a, part_b) = (from_a.part(at..n + at), from_b.part(at..n + at));
                let pairs = || a[at..].iter().zip(&b[at..]);
                let mut y = device.alloc(n).unwrap();
                launch::add(device, y.all_mut(), part_a, part_b).unwrap();
                let sum: Vec<f32> = pairs().map(|(a, b)| a + b).collect();
                assert_same_bits(&format!("add {n}"), &device.read(y.all()).unwrap(), &sum);
                launch::mul(device, y.all_mut(), part_a, part_b).unwrap();
                let product: Vec<f32> = pairs().map(|(a, b)| a * b).collect();
                assert_same_bits(&format!("mul {n}"), &device.read(y.all()).unwrap(), &product);
                launch::scale(device, y.all_mut(), part_a, 0.3).unwrap();
                let scaled: Vec<f32> = a[at..].iter().map(|a| a * 0.3).collect();
                assert_same_bits(&format!("scale {n}"), &device.read(y.all()).unwrap(), &scaled);
                let mut in_place = device.upload(&a).unwrap();
                launch::add_to(device, in_place.part_mut(at..n + at), part_b).unwrap();
                assert_same_bits(
                    &format!("add_to {n}"),
                    &device.read(in_place.part(at..n + at)).unwrap(),
                    &sum,
                );
            }
        }
    });
}

#[test]
fn rows_times_a_vector() {
    in_every_order(|device| {
        for n in SIZES {
            let (x, w) = (values(3 * n, 1), values(n, 2));
            let (from, by) = (device.upload(&x).unwrap(), device.upload(&w).unwrap());
            let mut y = device.alloc(3 * n).unwrap();
            launch::mul_row(device, y.all_mut(), from.all(), by.all()).unwrap();
            let product: Vec<f32> = x.iter().zip(w.iter().cycle()).map(|(x, w)| x * w).collect();
            assert_same_bits(&format!("mul_row {n}"), &device.read(y.all()).unwrap(), &product);
        }
    });
}

#[test]
#[should_panic(expected = "mul_row: 7 by 2 to 7")]
fn a_vector_that_does_not_divide_the_rows_is_refused() {
    in_every_order(|device| {
        let (x, w, mut y) = (device.alloc(7).unwrap(), device.alloc(2).unwrap(), device.alloc(7).unwrap());
        launch::mul_row(device, y.all_mut(), x.all(), w.all()).unwrap();
    });
}
