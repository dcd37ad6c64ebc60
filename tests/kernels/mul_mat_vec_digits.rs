//! kernels/mul_mat_vec_digits.cu.

use lockstep::engine::gpu::Device;
use lockstep::engine::gpu::launch::{self, Digits};
use lockstep::tensor::GgmlType;

use crate::support::{assert_rounded, assert_same_bits, in_every_order, values};
use crate::weights::Weights;

fn product(device: &Device, weights: &Weights, x: &[f32], scale: f32, residual: Option<&[f32]>) -> Vec<f32> {
    let n_tokens = x.len() / weights.n_in;
    let w = weights.upload(device, scale);
    let mut of_x = Digits::alloc(device, weights.n_in, n_tokens).unwrap();
    let x = device.upload(x).unwrap();
    launch::quantize_digits(device, &mut of_x, x.all(), weights.n_in, n_tokens).unwrap();
    let residual = residual.map(|residual| device.upload(residual).unwrap());
    let mut y = device.alloc(n_tokens * weights.n_out).unwrap();
    let residual = residual.as_ref().map(|residual| residual.all());
    launch::mul_mat_vec_digits(device, y.all_mut(), &w, &of_x, n_tokens, residual).unwrap();
    device.read(y.all()).unwrap()
}

#[test]
fn widths_heights_and_tokens() {
    in_every_order(|device| {
        for (n_in, n_out, n_tokens) in
            [(1024, 1, 1), (5120, 17, 1), (2048, 33, 2), (9216, 5, 3), (17408, 2, 1), (1024, 31, 8)]
        {
            let weights = Weights::random(GgmlType::PQ2_0, n_in, n_out, 1);
            let (x, residual) = (values(n_tokens * n_in, 3), values(n_tokens * n_out, 4));
            let what = format!("mul_mat_vec_digits: {n_out} rows of {n_in}, {n_tokens} tokens");
            let exact = weights.product(&x, 1.0, None);
            assert_rounded(&what, &product(device, &weights, &x, 1.0, None), &exact);
            let exact = weights.product(&x, 0.37, Some(&residual));
            assert_rounded(&what, &product(device, &weights, &x, 0.37, Some(&residual)), &exact);
        }
    });
}

#[test]
fn tokens_beside_it_do_not_change_a_bit() {
    in_every_order(|device| {
        let weights = Weights::random(GgmlType::PQ2_0, 2048, 18, 1);
        let x = values(8 * 2048, 3);
        let one_by_one: Vec<f32> =
            x.chunks(2048).flat_map(|x| product(device, &weights, x, 1.0, None)).collect();
        for n_tokens in [2, 5, 8] {
            let together = product(device, &weights, &x[..n_tokens * 2048], 1.0, None);
            assert_same_bits(
                &format!("mul_mat_vec_digits: {n_tokens} tokens"),
                &together,
                &one_by_one[..together.len()],
            );
        }
    });
}

#[test]
fn matrices_beside_it_do_not_change_a_bit() {
    in_every_order(|device| {
        let all: Vec<Weights> = [33, 1, 16]
            .iter()
            .map(|&n_out| Weights::random(GgmlType::PQ2_0, 1024, n_out, n_out as u64))
            .collect();
        let x = values(1024, 3);
        let mut of_x = Digits::alloc(device, 1024, 1).unwrap();
        launch::quantize_digits(device, &mut of_x, device.upload(&x).unwrap().all(), 1024, 1).unwrap();
        let matrices: Vec<_> = all.iter().map(|w| w.upload(device, 2.0)).collect();
        let mut ys: Vec<_> = all.iter().map(|w| device.alloc(w.n_out).unwrap()).collect();
        let mut products: Vec<_> = matrices.iter().zip(&mut ys).map(|(w, y)| (w, y.all_mut())).collect();
        launch::mul_mats_vec_digits(device, &mut products, &of_x, 1).unwrap();
        for (weights, y) in all.iter().zip(&ys) {
            let alone = product(device, weights, &x, 2.0, None);
            assert_same_bits("mul_mat_vec_digits: one of three", &device.read(y.all()).unwrap(), &alone);
        }
    });
}

#[test]
#[should_panic(expected = "pq2_0 rows of 128")]
fn rows_that_are_not_whole_chunks_are_refused() {
    in_every_order(|device| {
        product(device, &Weights::random(GgmlType::PQ2_0, 128, 1, 1), &[0.0; 128], 1.0, None);
    });
}
