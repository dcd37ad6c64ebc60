//! kernels/mul_mat_vec_q8_1.cu.

use half::f16;
use lockstep::engine::gpu::launch::{self, Q8_1};
use lockstep::engine::gpu::{Device, GpuError};
use lockstep::ops::Tracked;
use lockstep::tensor::GgmlType;

use crate::support::{assert_rounded, assert_same_bits, in_every_order, values};
use crate::weights::{Weights, block_types, widths};

/// Activations as the device rounded them: values, and the sum that is stored with each 32.
pub(crate) fn rounded(device: &Device, x: &[f32]) -> (Q8_1, Vec<f32>, Vec<f32>) {
    let mut of_x = Q8_1::alloc(device, x.len()).unwrap();
    launch::quantize_q8_1(device, &mut of_x, device.upload(x).unwrap().all()).unwrap();
    let codes = device.read(of_x.codes(x.len())).unwrap();
    let scales = device.read(of_x.scales(x.len())).unwrap();
    let half = |bits: u32| f16::from_bits(bits as u16).to_f32();
    let values = codes.iter().enumerate().map(|(i, &code)| f32::from(code) * half(scales[i / 32])).collect();
    (of_x, values, scales.iter().map(|&scales| half(scales >> 16)).collect())
}

/// The product with rounded activations; what Q4_0 takes off is its zero times the stored sums.
pub(crate) fn exact(
    weights: &Weights,
    x: &[f32],
    sums: &[f32],
    scale: f32,
    residual: Option<&[f32]>,
) -> Vec<Tracked> {
    let mut y = weights.product(x, scale, residual);
    if weights.ty == GgmlType::Q4_0 {
        let mut zeros = vec![0.0; weights.n_in];
        for (i, y) in y.iter_mut().enumerate() {
            let (token, row) = (i / weights.n_out, i % weights.n_out);
            assert!(weights.rows().code_zero_of_row(row, &mut zeros));
            for (block, zeros) in zeros.chunks(32).enumerate() {
                let at = token * weights.n_in + 32 * block;
                let sum: f64 = x[at..at + 32].iter().map(|&x| f64::from(x)).sum();
                let zero = Tracked::exact(f64::from(zeros[0] * scale));
                *y += zero * Tracked::exact(f64::from(sums[at / 32]));
                *y += zero * Tracked::exact(-sum);
            }
        }
    }
    y
}

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
    launch::mul_mat_vec_q8_1(device, y.all_mut(), &w, x, n_tokens, residual).unwrap();
    device.read(y.all()).unwrap()
}

#[test]
fn every_type_width_and_height() {
    in_every_order(|device| {
        for ty in block_types() {
            for (n_in, n_out) in widths(ty).into_iter().zip([33, 5]) {
                let weights = Weights::random(ty, n_in, n_out, 1);
                for n_tokens in [1, 3] {
                    let (x, values, sums) = rounded(device, &values(n_tokens * n_in, 3));
                    let exact = exact(&weights, &values, &sums, 1.0, None);
                    let what = format!("mul_mat_vec_q8_1: {ty}, {n_out} rows of {n_in}, {n_tokens} tokens");
                    assert_rounded(&what, &product(device, &weights, &x, n_tokens, 1.0, None), &exact);
                }
            }
        }
    });
}

#[test]
fn integers_are_exact() {
    // With every scale 1 the product is an integer below 2^24, and so is each sum on the way.
    in_every_order(|device| {
        for (ty, scale_at) in
            [(GgmlType::PQ2_0, 0), (GgmlType::Q8_0, 0), (GgmlType::Q1_0, 0), (GgmlType::PTQ1_0, 26)]
        {
            let mut weights = Weights::random(ty, 1280, 5, 1);
            for block in weights.bytes.chunks_mut(ty.block_bytes()) {
                block[scale_at..scale_at + 2].copy_from_slice(&f16::ONE.to_le_bytes());
            }
            let mut x: Vec<f32> = values(1280, 3).iter().map(|x| (x * 127.0).round()).collect();
            x.chunks_mut(32).for_each(|block| block[7] = -127.0);
            let (of_x, values, _) = rounded(device, &x);
            assert_eq!(values, x);
            let exact: Vec<f32> = weights.product(&x, 1.0, None).iter().map(|y| y.value() as f32).collect();
            assert_same_bits(
                &format!("mul_mat_vec_q8_1: {ty}"),
                &product(device, &weights, &of_x, 1, 1.0, None),
                &exact,
            );
        }
    });
}

#[test]
fn tokens_beside_it_do_not_change_a_bit() {
    in_every_order(|device| {
        for ty in block_types() {
            let weights = Weights::random(ty, 1280, 35, 1);
            let x = values(11 * 1280, 3);
            let one_by_one: Vec<f32> = x
                .chunks(1280)
                .flat_map(|x| product(device, &weights, &rounded(device, x).0, 1, 1.0, None))
                .collect();
            for n_tokens in [2, 4, 7, 11] {
                let of_x = rounded(device, &x[..n_tokens * 1280]).0;
                let together = product(device, &weights, &of_x, n_tokens, 1.0, None);
                assert_same_bits(
                    &format!("mul_mat_vec_q8_1: {ty}, {n_tokens} tokens"),
                    &together,
                    &one_by_one[..together.len()],
                );
            }
        }
    });
}

#[test]
fn rows_longer_than_a_stage_a_scale_and_a_residual() {
    in_every_order(|device| {
        for ty in [GgmlType::PQ2_0, GgmlType::Q4_0, GgmlType::Q4_K] {
            let weights = Weights::random(ty, 5120, 3, 1);
            let (x, values, sums) = rounded(device, &values(2 * 5120, 3));
            let residual = [0.5, -0.25, 4.0, 1.0, 2.0, 3.0];
            let exact = exact(&weights, &values, &sums, 0.37, Some(&residual));
            assert_rounded(
                &format!("mul_mat_vec_q8_1: {ty}"),
                &product(device, &weights, &x, 2, 0.37, Some(&residual)),
                &exact,
            );
        }
    });
}

#[test]
fn matrices_beside_it_do_not_change_a_bit() {
    in_every_order(|device| {
        let all: Vec<Weights> = [33, 1, 64]
            .iter()
            .map(|&n_out| Weights::random(GgmlType::PQ2_0, 384, n_out, n_out as u64))
            .collect();
        let x = rounded(device, &values(2 * 384, 3)).0;
        let matrices: Vec<_> = all.iter().map(|w| w.upload(device, 2.0)).collect();
        let mut ys: Vec<_> = all.iter().map(|w| device.alloc(2 * w.n_out).unwrap()).collect();
        let mut products: Vec<_> = matrices.iter().zip(&mut ys).map(|(w, y)| (w, y.all_mut())).collect();
        launch::mul_mats_vec_q8_1(device, &mut products, &x, 2).unwrap();
        for (weights, y) in all.iter().zip(&ys) {
            let alone = product(device, weights, &x, 2, 2.0, None);
            assert_same_bits("mul_mat_vec_q8_1: one of three", &device.read(y.all()).unwrap(), &alone);
        }
    });
}

#[test]
fn a_type_without_blocks_is_refused() {
    in_every_order(|device| {
        let w = Weights::random(GgmlType::F16, 32, 1, 1).upload(device, 1.0);
        let x = Q8_1::alloc(device, 32).unwrap();
        let mut y = device.alloc(1).unwrap();
        let refused = launch::mul_mat_vec_q8_1(device, y.all_mut(), &w, &x, 1, None);
        assert!(matches!(refused, Err(GpuError::MatrixType { ty: GgmlType::F16 })));
    });
}
