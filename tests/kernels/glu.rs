//! kernels/glu.cu.

use lockstep::engine::gpu::launch;
use lockstep::ops;
use ndarray::{Array1, Array2};

use crate::support::{assert_rounded, assert_same_bits, given, in_every_order, values};

#[test]
fn swiglu_of_every_size() {
    in_every_order(|device| {
        for n in [1, 31, 33, 1025] {
            for at in [0, 1] {
                let [gate, up] =
                    [1, 2].map(|seed| values(n + at, seed).iter().map(|x| x * 20.0).collect::<Vec<_>>());
                let (from_gate, from_up) = (device.upload(&gate).unwrap(), device.upload(&up).unwrap());
                let mut to = device.alloc(n).unwrap();
                let parts = [&from_gate, &from_up].map(|buffer| buffer.part(at..n + at));
                launch::swiglu(device, to.all_mut(), parts[0], parts[1]).unwrap();
                let [gate, up] = [gate, up].map(|x| Array1::from(given(&x[at..])));
                let exact = ops::swiglu(gate.view(), up.view()).to_vec();
                assert_rounded(&format!("swiglu of {n}"), &device.read(to.all()).unwrap(), &exact);
            }
        }
    });
}

#[test]
fn the_gate_of_each_head_lies_behind_its_query() {
    in_every_order(|device| {
        for (heads, head_dim) in [(1, 1), (3, 5), (6, 16), (4, 256)] {
            let n = heads * head_dim;
            let (x, q_full) = (values(n, 1), values(2 * n, 2));
            let (from, gates) = (device.upload(&x).unwrap(), device.upload(&q_full).unwrap());
            let [mut gate, mut activated, mut plain, mut one] =
                [n; 4].map(|n| device.alloc::<f32>(n).unwrap());
            launch::copy_rows(device, gate.all_mut(), gates.part(head_dim..2 * n), head_dim, 2 * head_dim)
                .unwrap();
            launch::sigmoid(device, activated.all_mut(), gate.all()).unwrap();
            launch::mul(device, plain.all_mut(), from.all(), activated.all()).unwrap();
            launch::sigmoid_mul(device, one.all_mut(), from.all(), gates.all(), head_dim).unwrap();
            let what = format!("sigmoid_mul of {heads} heads of {head_dim}");
            let one = device.read(one.all()).unwrap();
            assert_same_bits(&what, &one, &device.read(plain.all()).unwrap());
            let exact: Vec<_> = (given(&x).into_iter().enumerate())
                .map(|(i, x)| {
                    let (head, at) = (i / head_dim, i % head_dim);
                    x * ops::sigmoid(given(&q_full)[(2 * head + 1) * head_dim + at])
                })
                .collect();
            assert_rounded(&what, &one, &exact);
        }
    });
}

#[test]
fn a_gated_norm_is_a_norm_a_weight_and_a_gate() {
    in_every_order(|device| {
        for (rows, n) in [(1, 1), (5, 8), (3, 31), (6, 128), (5, 256)] {
            let all = rows * n;
            let [o, z, w] = [(all, 1), (all, 2), (n, 3)].map(|(n, seed)| values(n, seed));
            let [o_at, z_at, w_at] = [&o, &z, &w].map(|values| device.upload(values).unwrap());
            let [mut normed, mut gate, mut plain, mut one] =
                [all; 4].map(|n| device.alloc::<f32>(n).unwrap());
            launch::rms_norm_weighted(device, normed.all_mut(), o_at.all(), w_at.all(), [rows, n], 1e-6)
                .unwrap();
            launch::silu(device, gate.all_mut(), z_at.all()).unwrap();
            launch::mul(device, plain.all_mut(), normed.all(), gate.all()).unwrap();
            let from = [o_at.all(), z_at.all()];
            launch::gated_norm(device, one.all_mut(), from, w_at.all(), [rows, n], 1e-6).unwrap();
            let what = format!("gated_norm of [{rows}, {n}]");
            let one = device.read(one.all()).unwrap();
            assert_same_bits(&what, &one, &device.read(plain.all()).unwrap());
            let mut exact = Array2::from_shape_vec((rows, n), given(&o)).unwrap();
            ops::rms_norm(&mut exact, f64::from(1e-6f32));
            let (z, w) = (given(&z), given(&w));
            let exact: Vec<_> =
                exact.iter().enumerate().map(|(i, &o)| o * w[i % n] * ops::silu(z[i])).collect();
            assert_rounded(&what, &one, &exact);
        }
    });
}
