//! kernels/quantize_digits.cu.

use lockstep::engine::gpu::Device;
use lockstep::engine::gpu::launch::{self, Digits};

use crate::support::{in_every_order, values};

/// What the digits, sums and scales on the device stand for: `[n_tokens, n_in]`.
fn numbers(device: &Device, x: &[f32], n_in: usize) -> Vec<f64> {
    let n_tokens = x.len() / n_in;
    let mut of_x = Digits::alloc(device, n_in, n_tokens).unwrap();
    launch::quantize_digits(device, &mut of_x, device.upload(x).unwrap().all(), n_in, n_tokens).unwrap();
    let words = device.read(of_x.digits(n_in, n_tokens)).unwrap();
    let sums = device.read(of_x.sums(n_in, n_tokens)).unwrap();
    let scales = device.read(of_x.scales(n_in, n_tokens)).unwrap();
    let mut numbers = Vec::new();
    for token in 0..n_tokens {
        for group in 0..n_in / 128 {
            let at = token / 2 * (n_in / 128) + group;
            let mut digit_sums = [0i32; 4];
            for e in 0..128 {
                let (t, w, i, s) = (e / 32, e / 16 % 2, e / 4 % 4, e % 4);
                let digits: [i8; 4] = std::array::from_fn(|j| {
                    let lane = 4 * (token % 2 * 4 + j) + t;
                    (words[((at * 2 + w) * 32 + lane) * 4 + s] >> (8 * i)) as i8
                });
                digit_sums.iter_mut().zip(digits).for_each(|(sum, digit)| *sum += i32::from(digit));
                let integer = digits.iter().fold(0.0, |sum, &digit| sum * 256.0 + f64::from(digit));
                numbers.push(integer * f64::from(scales[at * 2 + token % 2]));
            }
            assert_eq!(
                sums[at * 8 + token % 2 * 4..][..4],
                digit_sums.map(|sum| -sum),
                "quantize_digits: sums"
            );
        }
    }
    numbers
}

#[test]
fn digits_stand_for_the_activation() {
    in_every_order(|device| {
        for (n_in, n_tokens) in [(128, 1), (384, 2), (256, 3)] {
            let mut x: Vec<f32> = values(n_in * n_tokens, 1).iter().map(|x| x * 30.0).collect();
            (x[3], x[4], x[5], x[6]) = (1e-20, -1.0, 2f32.powi(-126), 0.0);
            for (i, (actual, &x)) in numbers(device, &x, n_in).iter().zip(&x).enumerate() {
                // The largest is below 32.
                assert!(
                    (actual - f64::from(x)).abs() <= 2f64.powi(5 - 31),
                    "quantize_digits: {actual} for {x} at {i}"
                );
                assert!(
                    x.abs() < 0.25 || *actual == f64::from(x),
                    "quantize_digits: {actual} for {x} at {i}"
                );
            }
        }
    });
}

#[test]
fn every_size_of_number_has_digits() {
    in_every_order(|device| {
        for size in [f32::MAX, 1e30, 1e-30, 2f32.powi(-126), f32::from_bits(1), 0.0] {
            let x = [size; 128];
            let least = 2f64.powi(-127); // half of 2^-126: the scale of what is below 2^-96
            assert!(
                numbers(device, &x, 128).iter().all(|y| (y - f64::from(size)).abs() <= least),
                "quantize_digits: {size}"
            );
        }
    });
}

#[test]
fn what_is_not_finite_stays_so() {
    in_every_order(|device| {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut x = [1.0; 128];
            x[77] = bad;
            assert!(numbers(device, &x, 128).iter().all(|y| y.is_nan()));
        }
    });
}
