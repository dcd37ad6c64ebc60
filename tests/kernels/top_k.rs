//! kernels/top_k.cu.

use lockstep::engine::gpu::{Device, launch};

use crate::support::{assert_same_bits, in_every_order, values};

fn largest(device: &Device, x: &[f32], rows: usize, k: usize) -> (Vec<f32>, Vec<i32>) {
    let n = x.len() / rows;
    let from = device.upload(x).unwrap();
    let (mut values, mut ids) = (device.alloc(rows * k).unwrap(), device.alloc(rows * k).unwrap());
    let mut scratch = device.alloc(launch::top_k_scratch(rows, n, k)).unwrap();
    let to = (values.all_mut(), ids.all_mut());
    launch::top_k(device, to, from.all(), scratch.all_mut(), [rows, n, k]).unwrap();
    (device.read(values.all()).unwrap(), device.read(ids.all()).unwrap())
}

/// A stable sort of each row.
fn expected(x: &[f32], rows: usize, k: usize) -> (Vec<f32>, Vec<i32>) {
    let mut found = (Vec::new(), Vec::new());
    for row in x.chunks_exact(x.len() / rows) {
        let mut ids: Vec<usize> = (0..row.len()).collect();
        ids.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).unwrap());
        found.0.extend(ids[..k].iter().map(|&id| row[id]));
        found.1.extend(ids[..k].iter().map(|&id| id as i32));
    }
    found
}

fn check(device: &Device, x: &[f32], rows: usize, k: usize) {
    let what = format!("top_k: {k} of [{rows}, {}]", x.len() / rows);
    let (values, ids) = largest(device, x, rows, k);
    let (expected_values, expected_ids) = expected(x, rows, k);
    assert_eq!(ids, expected_ids, "{what}");
    assert_same_bits(&what, &values, &expected_values);
}

#[test]
fn the_largest_in_order() {
    in_every_order(|device| {
        for (rows, n, k) in [
            (2, 1, 1),
            (3, 31, 31),
            (2, 33, 5),
            (1, 64, 64),
            (2, 1025, 64),
            (2, 2048, 40),
            (2, 2049, 64),
            (1, 6000, 1),
            (1, 6145, 64),
        ] {
            let x = values(rows * n, n as u64);
            check(device, &x, rows, k);
            // Few different values, zeros of both signs among them: the lowest indices first.
            let x: Vec<f32> = x.iter().map(|x| (x * 3.0).trunc() * 0.5).collect();
            check(device, &x, rows, k);
        }
    });
}

#[test]
fn more_candidates_than_one_thread_block_sorts() {
    // 35 groups of 2048 leave 64 each: one pass more.
    in_every_order(|device| check(device, &values(70_000, 3), 1, 64));
}

#[test]
fn infinities_are_values_and_a_nan_comes_first() {
    in_every_order(|device| {
        let inf = f32::INFINITY;
        check(device, &[-inf, 1.0, inf, -inf, inf, -1.0], 1, 6);
        let (values, ids) = largest(device, &[1.0, inf, f32::NAN, 2.0], 1, 3);
        assert!(values[0].is_nan(), "{values:?}");
        assert_eq!(ids, [2, 1, 3]);
    });
}

#[test]
#[should_panic(expected = "top_k: 65 of 100")]
fn more_than_64_are_refused() {
    in_every_order(|device| {
        largest(device, &values(100, 1), 1, 65);
    });
}
