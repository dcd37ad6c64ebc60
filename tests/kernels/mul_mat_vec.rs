//! kernels/mul_mat_vec.cu.

use lockstep::engine::gpu::{Device, MATRIX_TYPES, launch};
use lockstep::tensor::GgmlType;

use crate::support::{assert_rounded, assert_same_bits, in_every_order, values};
use crate::weights::{Weights, block_types, widths};

fn product(device: &Device, weights: &Weights, x: &[f32], scale: f32, residual: Option<&[f32]>) -> Vec<f32> {
    let n_tokens = x.len() / weights.n_in;
    let w = weights.upload(device, scale);
    let x = device.upload(x).unwrap();
    let residual = residual.map(|residual| device.upload(residual).unwrap());
    let mut y = device.alloc(n_tokens * weights.n_out).unwrap();
    let residual = residual.as_ref().map(|residual| residual.all());
    launch::mul_mat_vec(device, y.all_mut(), &w, x.all(), n_tokens, residual).unwrap();
    device.read(y.all()).unwrap()
}

#[test]
fn every_type_width_and_height() {
    in_every_order(|device| {
        for &ty in MATRIX_TYPES {
            for (n_in, n_out) in widths(ty).into_iter().zip([1, 33, 31, 8, 129]) {
                let weights = Weights::random(ty, n_in, n_out, 1);
                for n_tokens in [1, 2] {
                    let x = values(n_tokens * n_in, 3);
                    let what = format!("{ty}, {n_out} rows of {n_in}, {n_tokens} tokens");
                    let exact = weights.product(&x, 1.0, None);
                    assert_rounded(&what, &product(device, &weights, &x, 1.0, None), &exact);
                }
            }
        }
    });
}

#[test]
fn rows_longer_than_a_stage_of_x() {
    in_every_order(|device| {
        for ty in block_types() {
            let n_in = 4096 / ty.block_elements() * ty.block_elements() + 3 * ty.block_elements();
            let weights = Weights::random(ty, n_in, 3, 4);
            let x = values(n_in, 5);
            let exact = weights.product(&x, 1.0, None);
            assert_rounded(ty.name(), &product(device, &weights, &x, 1.0, None), &exact);
        }
    });
}

#[test]
fn a_scale_and_a_residual() {
    in_every_order(|device| {
        for ty in [GgmlType::PQ2_0, GgmlType::Q4_K, GgmlType::BF16] {
            let weights = Weights::random(ty, 256, 33, 1);
            let (x, residual) = (values(3 * 256, 3), values(3 * 33, 4));
            let exact = weights.product(&x, 0.37, Some(&residual));
            assert_rounded(ty.name(), &product(device, &weights, &x, 0.37, Some(&residual)), &exact);
        }
    });
}

#[test]
fn tokens_beside_it_do_not_change_a_bit() {
    in_every_order(|device| {
        for &ty in MATRIX_TYPES {
            let n_in = if ty.block_elements() == 1 { 33 } else { 1280 };
            let weights = Weights::random(ty, n_in, 35, 1);
            let x = values(8 * n_in, 3);
            let one_by_one: Vec<f32> =
                x.chunks(n_in).flat_map(|x| product(device, &weights, x, 1.0, None)).collect();
            for n_tokens in [2, 3, 5, 7, 8] {
                let together = product(device, &weights, &x[..n_tokens * n_in], 1.0, None);
                assert_same_bits(
                    &format!("{ty}, {n_tokens} tokens"),
                    &together,
                    &one_by_one[..together.len()],
                );
            }
        }
    });
}

#[test]
fn matrices_beside_it_do_not_change_a_bit() {
    in_every_order(|device| {
        for ty in [GgmlType::PQ2_0, GgmlType::BF16] {
            let all: Vec<Weights> =
                [33, 1, 64, 7].iter().map(|&n_out| Weights::random(ty, 384, n_out, n_out as u64)).collect();
            let x = values(2 * 384, 3);
            for n in 1..=4 {
                let matrices: Vec<_> =
                    all[..n].iter().enumerate().map(|(i, w)| w.upload(device, 1.0 + i as f32)).collect();
                let mut ys: Vec<_> = all[..n].iter().map(|w| device.alloc(2 * w.n_out).unwrap()).collect();
                let of_x = device.upload(&x).unwrap();
                let mut products: Vec<_> =
                    matrices.iter().zip(&mut ys).map(|(w, y)| (w, y.all_mut())).collect();
                let before = device.launches();
                launch::mul_mats_vec(device, &mut products, of_x.all(), 2).unwrap();
                assert_eq!(device.launches() - before, 1);
                for (i, (weights, y)) in all.iter().zip(&ys).enumerate() {
                    let alone = product(device, weights, &x, 1.0 + i as f32, None);
                    let what = format!("{ty}, matrix {i} of {n}");
                    assert_same_bits(&what, &device.read(y.all()).unwrap(), &alone);
                }
            }
        }
    });
}

#[test]
#[should_panic(expected = "matrices of one launch")]
fn matrices_of_two_widths_are_refused() {
    in_every_order(|device| {
        let [a, b] = [128, 256].map(|n_in| Weights::random(GgmlType::PQ2_0, n_in, 1, 1).upload(device, 1.0));
        let (mut y, mut z) = (device.alloc(1).unwrap(), device.alloc(1).unwrap());
        let x = device.upload(&values(128, 1)).unwrap();
        launch::mul_mats_vec(device, &mut [(&a, y.all_mut()), (&b, z.all_mut())], x.all(), 1).unwrap();
    });
}
