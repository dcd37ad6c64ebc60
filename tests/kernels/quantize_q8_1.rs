//! kernels/quantize_q8_1.cu.

use half::f16;
use lockstep::engine::gpu::launch::{self, Q8_1};
use lockstep::ops::exact::{ActivationRounding, round_activation};

use crate::support::{in_every_order, values};

/// What the kernel computes, in its own order: codes, and scale and sum of each 32.
fn expected(x: &[f32]) -> (Vec<i8>, Vec<u32>) {
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    for block in x.chunks(32) {
        let amax = block.iter().fold(0.0f32, |amax, x| amax.max(x.abs()));
        let d = amax / 127.0;
        codes.extend(block.iter().map(|x| if amax == 0.0 { 0 } else { (x / d).round() as i8 }));
        let mut sums = block.to_vec();
        for lanes in [16, 8, 4, 2, 1] {
            sums = (0..32).map(|i| sums[i] + sums[i ^ lanes]).collect();
        }
        let bits = |x: f32| u32::from(f16::from_f32(x).to_bits());
        scales.push(bits(d) | bits(sums[0]) << 16);
    }
    (codes, scales)
}

#[test]
fn codes_scales_and_sums_have_the_bits_of_the_rule() {
    in_every_order(|device| {
        for n in [32, 96, 1056] {
            let mut x: Vec<f32> = values(n, 1).iter().map(|x| x * 30.0).collect();
            x[..32].fill(0.0);
            let from = device.upload(&x).unwrap();
            let mut y = Q8_1::alloc(device, n).unwrap();
            launch::quantize_q8_1(device, &mut y, from.all()).unwrap();
            let actual = (device.read(y.codes(n)).unwrap(), device.read(y.scales(n)).unwrap());
            assert_eq!(actual, expected(&x), "quantize_q8_1: {n} elements");
        }
    });
}

#[test]
fn the_rule_is_that_of_the_oracle_but_where_that_is_in_doubt() {
    let x = values(4096, 2);
    let (codes, scales) = expected(&x);
    let oracle = round_activation(ActivationRounding::Mmvq, &x);
    let doubted =
        |i: usize| oracle.doubts.iter().any(|doubt| (doubt.at..doubt.at + doubt.moves.len()).contains(&i));
    let half = |bits: u32| f16::from_bits(bits as u16).to_f32();
    let mut compared = 0;
    for (i, (&code, &value)) in codes.iter().zip(&oracle.values).enumerate() {
        if !doubted(i) {
            assert_eq!(f32::from(code) * half(scales[i / 32]), value, "{i}");
            compared += 1;
        }
    }
    assert!(compared > 4000, "{compared}");
    let sums = oracle.sums.unwrap();
    for (i, &scales) in scales.iter().enumerate() {
        assert!((f64::from(half(scales >> 16)) - sums.values[i]).abs() <= sums.steps[i].abs(), "sum {i}");
    }
}
