//! kernels/unary.cu.

use lockstep::engine::gpu::launch;
use lockstep::ops::{Number, Tracked, sigmoid, silu, softplus};

use crate::support::{assert_rounded, assert_same_bits, given, in_every_order, values};

/// Far enough from 0 that exponentials are very small and very large.
fn wide_values(n: usize, seed: u64) -> Vec<f32> {
    values(n, seed).iter().map(|x| x * 30.0).collect()
}

#[test]
fn silu_of_every_size() {
    in_every_order(|device| {
        for n in [1, 31, 33, 1025] {
            let x = wide_values(n, 1);
            let from = device.upload(&x).unwrap();
            let mut to = device.alloc(n).unwrap();
            launch::silu(device, to.all_mut(), from.all()).unwrap();
            let exact: Vec<_> = given(&x).into_iter().map(silu).collect();
            assert_rounded(&format!("silu of {n}"), &device.read(to.all()).unwrap(), &exact);
        }
    });
}

#[test]
fn sigmoid_of_every_size() {
    in_every_order(|device| {
        for n in [1, 31, 33, 1025] {
            let x = wide_values(n, 2);
            let from = device.upload(&x).unwrap();
            let mut to = device.alloc(n).unwrap();
            launch::sigmoid(device, to.all_mut(), from.all()).unwrap();
            let exact: Vec<_> = given(&x).into_iter().map(sigmoid).collect();
            assert_rounded(&format!("sigmoid of {n}"), &device.read(to.all()).unwrap(), &exact);
        }
    });
}

#[test]
fn exponentials_of_every_size() {
    in_every_order(|device| {
        for n in [1, 31, 33, 1025] {
            let x = wide_values(n, 3);
            let from = device.upload(&x).unwrap();
            let mut to = device.alloc(n).unwrap();
            launch::exp(device, to.all_mut(), from.all()).unwrap();
            let exact: Vec<_> = given(&x).into_iter().map(Number::exp).collect();
            assert_rounded(&format!("exp of {n}"), &device.read(to.all()).unwrap(), &exact);
        }
    });
}

#[test]
fn gates_in_one_launch_and_in_three() {
    in_every_order(|device| {
        for (rows, n_heads) in [(1, 1), (3, 2), (31, 3), (5, 48)] {
            let n = rows * n_heads;
            let [alpha, raw_beta] = [1, 2].map(|seed| wide_values(n, seed));
            let [dt, a] = [3, 4].map(|seed| wide_values(n_heads, seed));
            let from = [&alpha, &raw_beta, &dt, &a].map(|values| device.upload(values).unwrap());
            let [alpha_at, beta_at, dt_at, a_at] = from.each_ref().map(|buffer| buffer.all());
            let [mut a_softplus, mut gate, mut beta] = [n; 3].map(|n| device.alloc::<f32>(n).unwrap());
            launch::softplus_bias(device, a_softplus.all_mut(), alpha_at, dt_at).unwrap();
            launch::mul_row(device, gate.all_mut(), a_softplus.all(), a_at).unwrap();
            launch::sigmoid(device, beta.all_mut(), beta_at).unwrap();
            let exact: Vec<Tracked> = (given(&alpha).iter().zip(given(&dt).iter().cycle()))
                .map(|(&alpha, &dt)| softplus(alpha + dt))
                .collect();
            let what = format!("gates of [{rows}, {n_heads}]");
            assert_rounded(
                &format!("softplus_bias, {what}"),
                &device.read(a_softplus.all()).unwrap(),
                &exact,
            );
            let [mut gate_at_once, mut beta_at_once] = [n; 2].map(|n| device.alloc::<f32>(n).unwrap());
            let inputs = launch::GateInputs { alpha: alpha_at, beta: beta_at, dt: dt_at, a: a_at };
            launch::gates(device, gate_at_once.all_mut(), beta_at_once.all_mut(), inputs).unwrap();
            for (at_once, plain) in [(gate_at_once, gate), (beta_at_once, beta)] {
                let plain = device.read(plain.all()).unwrap();
                assert_same_bits(&what, &device.read(at_once.all()).unwrap(), &plain);
            }
        }
    });
}
