//! kernels/argmax.cu.

use lockstep::engine::gpu::{Device, launch};

use crate::support::{in_every_order, values};

fn largest(device: &Device, x: &[f32], rows: usize) -> Vec<i32> {
    let n = x.len() / rows;
    let from = device.upload(x).unwrap();
    let mut ids = device.alloc(rows).unwrap();
    let mut scratch = device.alloc(launch::argmax_scratch(rows, n)).unwrap();
    launch::argmax(device, ids.all_mut(), from.all(), scratch.all_mut(), rows, n).unwrap();
    device.read(ids.all()).unwrap()
}

/// The loop over a row.
fn expected(row: &[f32]) -> i32 {
    let mut best = 0;
    for (i, &x) in row.iter().enumerate() {
        if x > row[best] {
            best = i;
        }
    }
    best as i32
}

#[test]
fn the_largest_of_every_row() {
    in_every_order(|device| {
        for (rows, n) in [(3, 1), (5, 31), (3, 33), (2, 1025), (2, 8192), (3, 8195), (1, 40_000)] {
            let x = values(rows * n, n as u64);
            let ids: Vec<i32> = x.chunks_exact(n).map(expected).collect();
            assert_eq!(largest(device, &x, rows), ids, "argmax: [{rows}, {n}]");
            // Few different values: the first of many equal ones. Their zeros have both signs.
            let x: Vec<f32> = x.iter().map(|x| (x * 2.0).trunc() - 1.0).map(|x| x.min(0.0) * 0.0).collect();
            assert!(n < 100 || x.iter().any(|x| x.is_sign_negative()), "both zeros");
            assert_eq!(largest(device, &x, rows), vec![0; rows], "argmax: zeros of [{rows}, {n}]");
            let x: Vec<f32> = values(rows * n, 5).iter().map(|x| (x * 2.0).trunc()).collect();
            let ids: Vec<i32> = x.chunks_exact(n).map(expected).collect();
            assert_eq!(largest(device, &x, rows), ids, "argmax: ties in [{rows}, {n}]");
        }
    });
}

#[test]
fn the_largest_of_a_whole_vocabulary() {
    in_every_order(|device| {
        let mut x: Vec<f32> = (0..248_320).map(|i| -1.0 - (i % 1000) as f32).collect();
        assert_eq!(largest(device, &x, 1), [0]);
        x[248_319] = -0.5;
        assert_eq!(largest(device, &x, 1), [248_319]);
    });
}

#[test]
fn infinities_are_values_and_a_nan_is_an_error() {
    in_every_order(|device| {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(largest(device, &[-inf, -inf, 1.0, inf, -1.0, -inf], 3), [0, 1, 0]);
        assert_eq!(largest(device, &[1.0, nan, inf, -nan, inf, 2.0], 3), [-1, -1, 0]);
        for at in [0, 8191, 8192, 9000] {
            let mut x = values(9001, 1);
            x[at] = nan;
            assert_eq!(largest(device, &x, 1), [-1], "argmax: a NaN at {at}");
        }
    });
}
