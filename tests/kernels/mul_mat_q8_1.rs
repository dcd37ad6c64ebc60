//! kernels/mul_mat_q8_1.cu.

use half::f16;
use lockstep::engine::gpu::launch::{self, Q8_1};
use lockstep::engine::gpu::{Device, GpuError};
use lockstep::tensor::GgmlType;

use crate::mul_mat_vec_q8_1::{exact, rounded};
use crate::support::{assert_rounded, assert_same_bits, in_every_order, values};
use crate::weights::{Weights, block_types, widths};

fn product(
    device: &Device,
    weights: &Weights,
    x: &Q8_1,
    n_tokens: usize,
    scale: f32,
    residual: Option<&[f32]>,
) -> Vec<f32> {
    let w = weights.upload(device, scale);
    let residual = residual.map(|residual| device.upload(residual).unwrap());
    let mut y = device.alloc(n_tokens * weights.n_out).unwrap();
    let residual = residual.as_ref().map(|residual| residual.all());
    launch::mul_mat_q8_1(device, y.all_mut(), &w, x, n_tokens, residual).unwrap();
    device.read(y.all()).unwrap()
}

#[test]
fn every_type_and_width() {
    in_every_order(|device| {
        for ty in block_types() {
            for (n_in, n_out) in widths(ty).into_iter().zip([33, 5]) {
                let weights = Weights::random(ty, n_in, n_out, 1);
                let (x, values, sums) = rounded(device, &values(9 * n_in, 3));
                let exact = exact(&weights, &values, &sums, 1.0, None);
                let what = format!("mul_mat_q8_1: {ty}, {n_out} rows of {n_in}");
                assert_rounded(&what, &product(device, &weights, &x, 9, 1.0, None), &exact);
            }
        }
    });
}

#[test]
fn integers_are_exact() {
    // With every scale 1 the product is an integer below 2^24, and so is each sum on the way.
    in_every_order(|device| {
        for (ty, scale_at) in [(GgmlType::PQ2_0, 0), (GgmlType::Q8_0, 0), (GgmlType::PTQ1_0, 26)] {
            let mut weights = Weights::random(ty, 384, 5, 1);
            for block in weights.bytes.chunks_mut(ty.block_bytes()) {
                block[scale_at..scale_at + 2].copy_from_slice(&f16::ONE.to_le_bytes());
            }
            let mut x: Vec<f32> = values(9 * 384, 3).iter().map(|x| (x * 127.0).round()).collect();
            x.chunks_mut(32).for_each(|block| block[7] = -127.0);
            let exact: Vec<f32> = weights.product(&x, 1.0, None).iter().map(|y| y.value() as f32).collect();
            let of_x = rounded(device, &x).0;
            assert_same_bits(
                &format!("mul_mat_q8_1: {ty}"),
                &product(device, &weights, &of_x, 9, 1.0, None),
                &exact,
            );
        }
    });
}

#[test]
fn heights_tokens_a_scale_and_a_residual() {
    in_every_order(|device| {
        for (ty, n_in, n_out, n_tokens) in
            [(GgmlType::PQ2_0, 384, 129, 33), (GgmlType::Q4_0, 512, 31, 65), (GgmlType::Q4_K, 512, 65, 63)]
        {
            let weights = Weights::random(ty, n_in, n_out, 1);
            let (x, of_x, sums) = rounded(device, &values(n_tokens * n_in, 3));
            let residual = values(n_tokens * n_out, 4);
            let exact = exact(&weights, &of_x, &sums, 0.37, Some(&residual));
            assert_rounded(
                &format!("mul_mat_q8_1: {ty}"),
                &product(device, &weights, &x, n_tokens, 0.37, Some(&residual)),
                &exact,
            );
        }
    });
}

#[test]
fn a_type_without_blocks_is_refused() {
    in_every_order(|device| {
        let w = Weights::random(GgmlType::BF16, 32, 1, 1).upload(device, 1.0);
        let x = Q8_1::alloc(device, 9 * 32).unwrap();
        let mut y = device.alloc(9).unwrap();
        let refused = launch::mul_mat_q8_1(device, y.all_mut(), &w, &x, 9, None);
        assert!(matches!(refused, Err(GpuError::MatrixType { ty: GgmlType::BF16 })));
    });
}
