//! kernels/mul_mat.cu.

use lockstep::engine::gpu::{Device, MATRIX_TYPES, launch};
use lockstep::tensor::GgmlType;

use crate::support::{assert_rounded, assert_same_bits, in_every_order, values};
use crate::weights::{Weights, widths};

fn product(device: &Device, weights: &Weights, x: &[f32], scale: f32, residual: Option<&[f32]>) -> Vec<f32> {
    let n_tokens = x.len() / weights.n_in;
    let w = weights.upload(device, scale);
    let x = device.upload(x).unwrap();
    let residual = residual.map(|residual| device.upload(residual).unwrap());
    let mut y = device.alloc(n_tokens * weights.n_out).unwrap();
    let residual = residual.as_ref().map(|residual| residual.all());
    launch::mul_mat(device, y.all_mut(), &w, x.all(), n_tokens, residual).unwrap();
    device.read(y.all()).unwrap()
}

#[test]
fn every_type_and_width() {
    in_every_order(|device| {
        for &ty in MATRIX_TYPES {
            for (n_in, n_out) in widths(ty).into_iter().zip([33, 5, 1, 65, 3]) {
                let weights = Weights::random(ty, n_in, n_out, 1);
                let x = values(9 * n_in, 3);
                let exact = weights.product(&x, 1.0, None);
                let what = format!("mul_mat: {ty}, {n_out} rows of {n_in}");
                assert_rounded(&what, &product(device, &weights, &x, 1.0, None), &exact);
            }
        }
    });
}

#[test]
fn heights_tokens_a_scale_and_a_residual() {
    in_every_order(|device| {
        for (ty, n_out, n_tokens) in
            [(GgmlType::PQ2_0, 129, 33), (GgmlType::F16, 31, 65), (GgmlType::Q8_0, 65, 64)]
        {
            let weights = Weights::random(ty, 384, n_out, 1);
            let (x, residual) = (values(n_tokens * 384, 3), values(n_tokens * n_out, 4));
            let exact = weights.product(&x, 0.37, Some(&residual));
            let what = format!("mul_mat: {ty}, {n_out} rows, {n_tokens} tokens");
            assert_rounded(&what, &product(device, &weights, &x, 0.37, Some(&residual)), &exact);
        }
    });
}

#[test]
fn tokens_beside_it_do_not_change_a_bit() {
    in_every_order(|device| {
        let weights = Weights::random(GgmlType::PQ2_0, 384, 33, 1);
        let x = values(65 * 384, 3);
        let all = product(device, &weights, &x, 1.0, None);
        let some = product(device, &weights, &x[..9 * 384], 1.0, None);
        assert_same_bits("mul_mat: 9 of 65 tokens", &some, &all[..some.len()]);
    });
}
