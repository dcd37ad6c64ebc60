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
                    let what = format!("mul_mat_vec: {ty}, {n_out} rows of {n_in}, {n_tokens} tokens");
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
            let what = format!("mul_mat_vec: {ty}, rows of {n_in}");
            assert_rounded(&what, &product(device, &weights, &x, 1.0, None), &exact);
        }
    });
}

#[test]
fn a_scale_and_a_residual() {
    in_every_order(|device| {
        // Of three tokens a stage holds 1024 elements; rows of 33 do not begin on 16 bytes.
        for (ty, n_in, n_out) in [
            (GgmlType::PQ2_0, 256, 33),
            (GgmlType::PQ2_0, 1280, 3),
            (GgmlType::Q4_K, 256, 33),
            (GgmlType::Q4_K, 1280, 3),
            (GgmlType::BF16, 256, 33),
            (GgmlType::BF16, 33, 3),
        ] {
            let weights = Weights::random(ty, n_in, n_out, 1);
            let (x, residual) = (values(3 * n_in, 3), values(3 * n_out, 4));
            let exact = weights.product(&x, 0.37, Some(&residual));
            let what = format!("mul_mat_vec: {ty}, rows of {n_in}");
            assert_rounded(&what, &product(device, &weights, &x, 0.37, Some(&residual)), &exact);
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
                    &format!("mul_mat_vec: {ty}, {n_tokens} tokens"),
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
                    let what = format!("mul_mat_vec: {ty}, matrix {i} of {n}");
                    assert_same_bits(&what, &device.read(y.all()).unwrap(), &alone);
                }
            }
        }
    });
}

/// Products of matrices of one type, and of others of another type with an activation of their own; asserts their number of launches.
fn assert_beside(device: &Device, all: [&[Weights]; 2], n_tokens: usize, n_launches: usize) {
    let n_in = all[0][0].n_in;
    let xs = [3, 4].map(|seed| values(n_tokens * n_in, seed));
    let on_device = xs.each_ref().map(|x| device.upload(x).unwrap());
    let matrices = all.map(|of| of.iter().map(|w| w.upload(device, 0.37)).collect::<Vec<_>>());
    let mut ys =
        all.map(|of| of.iter().map(|w| device.alloc(n_tokens * w.n_out).unwrap()).collect::<Vec<_>>());
    let [y, other_y] = &mut ys;
    let mut products: Vec<_> = matrices[0].iter().zip(y).map(|(w, y)| (w, y.all_mut())).collect();
    let mut others: Vec<_> = matrices[1].iter().zip(other_y).map(|(w, y)| (w, y.all_mut())).collect();
    let before = device.launches();
    let (of_x, of_other_x) = (on_device[0].all(), on_device[1].all());
    launch::mul_mats_vec_beside(device, (&mut products, of_x), (&mut others, of_other_x), n_tokens).unwrap();
    let what = format!("mul_mat_vec: {} beside {}, {n_tokens} tokens", all[1][0].ty, all[0][0].ty);
    assert_eq!(device.launches() - before, n_launches, "launches of {what}");
    for ((of, x), ys) in all.iter().zip(&xs).zip(&ys) {
        for (i, (weights, y)) in of.iter().zip(ys).enumerate() {
            let alone = product(device, weights, x, 0.37, None);
            assert_same_bits(&format!("{what}, matrix {i}"), &device.read(y.all()).unwrap(), &alone);
        }
    }
}

#[test]
fn matrices_of_another_type_and_activation_do_not_change_a_bit() {
    in_every_order(|device| {
        for ty in block_types() {
            for (other, n_tokens) in [(GgmlType::BF16, 1), (GgmlType::F16, 2), (GgmlType::F32, 7)] {
                let of = |ty, n_out: usize| Weights::random(ty, 256, n_out, n_out as u64);
                let [one, two] = [&[of(ty, 33)][..], &[of(ty, 40), of(ty, 1)]];
                let [other_one, other_two] = [&[of(other, 9)][..], &[of(other, 7), of(other, 24)]];
                assert_beside(device, [one, other_one], n_tokens, 1);
                assert_beside(device, [two, other_two], n_tokens, 1);
            }
        }
    });
}

#[test]
fn up_to_three_plain_matrices_beside_one_of_blocks() {
    in_every_order(|device| {
        let of = |ty, n_out: usize| Weights::random(ty, 256, n_out, n_out as u64);
        for other in [GgmlType::BF16, GgmlType::F16, GgmlType::F32] {
            let others = [of(other, 9), of(other, 33), of(other, 17)];
            for n in 1..=3 {
                assert_beside(device, [&[of(GgmlType::PQ2_0, 40)], &others[..n]], n, 1);
            }
        }
    });
}

#[test]
fn matrices_that_fit_in_no_launch_have_one_for_each_type() {
    in_every_order(|device| {
        let of = |ty, n: usize| (0..n).map(|i| Weights::random(ty, 128, 5, i as u64)).collect::<Vec<_>>();
        use GgmlType::{BF16, F32, PQ2_0, Q8_0};
        for (ty, n, other, n_other) in
            [(PQ2_0, 2, Q8_0, 2), (PQ2_0, 1, PQ2_0, 1), (BF16, 1, F32, 2), (PQ2_0, 2, BF16, 3)]
        {
            assert_beside(device, [&of(ty, n), &of(other, n_other)], 2, 2);
        }
    });
}

#[test]
#[should_panic(expected = "matrices of one launch")]
fn plain_matrices_of_another_width_are_refused() {
    in_every_order(|device| {
        let of = |ty, n_in| Weights::random(ty, n_in, 1, 1).upload(device, 1.0);
        let (a, b) = (of(GgmlType::PQ2_0, 128), of(GgmlType::BF16, 256));
        let (mut y, mut z) = (device.alloc(1).unwrap(), device.alloc(1).unwrap());
        let (x, of_b) = (device.upload(&values(128, 1)).unwrap(), device.upload(&values(256, 1)).unwrap());
        let (products, others) = (&mut [(&a, y.all_mut())], &mut [(&b, z.all_mut())]);
        launch::mul_mats_vec_beside(device, (products, x.all()), (others, of_b.all()), 1).unwrap();
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
