//! kernels/norm.cu.

use lockstep::engine::gpu::launch;
use lockstep::ops::{self, Number, Tracked};
use ndarray::Array2;

use crate::support::{assert_rounded, assert_same_bits, given, in_every_order, values};

const EPS: f32 = 1e-6;
const WIDTHS: [usize; 14] = [1, 3, 8, 16, 31, 128, 200, 256, 257, 1025, 5120, 8192, 8196, 17408];

fn rows_of(n: usize) -> usize {
    if n > 1024 { 2 } else { 7 }
}

fn exactly(x: &[f32], n: usize, norm: impl Fn(&mut Array2<Tracked>)) -> Vec<Tracked> {
    let mut x = Array2::from_shape_vec((x.len() / n, n), given(x)).unwrap();
    norm(&mut x);
    x.into_raw_vec_and_offset().0
}

#[test]
fn rms_norm_of_every_width() {
    in_every_order(|device| {
        for n in WIDTHS {
            let rows = rows_of(n);
            let x = values(rows * n, n as u64);
            let from = device.upload(&x).unwrap();
            let mut to = device.alloc(rows * n).unwrap();
            launch::rms_norm(device, to.all_mut(), from.all(), rows, n, EPS).unwrap();
            let exact = exactly(&x, n, |x| ops::rms_norm(x, f64::from(EPS)));
            assert_rounded(&format!("rms_norm of {n}"), &device.read(to.all()).unwrap(), &exact);
        }
    });
}

#[test]
fn a_row_of_zeros_stays_zero() {
    in_every_order(|device| {
        for n in [1, 300] {
            let from = device.upload(&vec![0.0f32; n]).unwrap();
            let mut to = device.alloc(n).unwrap();
            launch::rms_norm(device, to.all_mut(), from.all(), 1, n, EPS).unwrap();
            assert_same_bits("rms_norm of zeros", &device.read(to.all()).unwrap(), &vec![0.0; n]);
        }
    });
}

#[test]
fn a_weighted_norm_is_a_norm_and_a_product() {
    in_every_order(|device| {
        for n in WIDTHS {
            let rows = rows_of(n);
            let x = device.upload(&values(rows * n, 1)).unwrap();
            let w = device.upload(&values(n, 2)).unwrap();
            let (mut normed, mut plain) = (device.alloc(rows * n).unwrap(), device.alloc(rows * n).unwrap());
            launch::rms_norm(device, normed.all_mut(), x.all(), rows, n, EPS).unwrap();
            launch::mul_row(device, plain.all_mut(), normed.all(), w.all()).unwrap();
            let mut one = device.alloc(rows * n).unwrap();
            launch::rms_norm_weighted(device, one.all_mut(), x.all(), w.all(), [rows, n], EPS).unwrap();
            let plain = device.read(plain.all()).unwrap();
            assert_same_bits(&format!("rms_norm_weighted of {n}"), &device.read(one.all()).unwrap(), &plain);
        }
    });
}

/// q or k of a row of conv outputs: two heads of three tokens, behind `at` other channels.
fn heads_of(n: usize, at: usize) -> (launch::Heads, Vec<f32>, Vec<f32>) {
    let heads = launch::Heads { tokens: 3, per_token: 2, n, stride: 4 * n + at };
    // Nothing lies behind the last head.
    let all = values(at + 2 * heads.stride + 2 * n, n as u64);
    let packed = (0..3).flat_map(|token| all[at + token * heads.stride..][..2 * n].to_vec()).collect();
    (heads, all, packed)
}

#[test]
fn l2_norms_of_strided_heads() {
    in_every_order(|device| {
        for (n, at) in [(1, 0), (8, 0), (8, 8), (16, 1), (33, 0), (128, 256), (300, 4)] {
            // Small and large beside the norms, which are about sqrt(n / 3).
            for eps in [1e-6f32, 64.0] {
                let (heads, all, packed) = heads_of(n, at);
                let from = device.upload(&all).unwrap();
                let mut to = device.alloc(packed.len()).unwrap();
                let what = format!("of {n} at {at}, eps {eps}");
                launch::l2_norm(device, to.all_mut(), from.part(at..all.len()), heads, eps).unwrap();
                let exact = exactly(&packed, n, |x| ops::l2_norm(x, f64::from(eps)));
                assert_rounded(&format!("l2_norm {what}"), &device.read(to.all()).unwrap(), &exact);
                let eps = f64::from(eps);
                launch::l2_norm_inside(device, to.all_mut(), from.part(at..all.len()), heads, eps).unwrap();
                let exact = exactly(&packed, n, |x| {
                    ops::rms_norm(x, eps / n as f64);
                    x.mapv_inplace(|value| value * Tracked::from_f64(1.0 / (n as f64).sqrt()));
                });
                assert_rounded(&format!("l2_norm_inside {what}"), &device.read(to.all()).unwrap(), &exact);
            }
        }
    });
}

#[test]
#[should_panic(expected = "l2_norm: 11 values")]
fn heads_that_end_behind_their_buffer_are_refused() {
    in_every_order(|device| {
        let heads = launch::Heads { tokens: 2, per_token: 1, n: 4, stride: 8 };
        let (x, mut y) = (device.alloc(11).unwrap(), device.alloc(8).unwrap());
        launch::l2_norm(device, y.all_mut(), x.all(), heads, EPS).unwrap();
    });
}
