//! kernels/get_rows.cu.

use lockstep::engine::gpu::{GpuError, MATRIX_TYPES, Matrix, launch};
use lockstep::ops::get_rows;
use lockstep::tensor::GgmlType;

use crate::support::{assert_same_bits, in_every_order};
use crate::weights::{Weights, widths};

#[test]
fn rows_of_every_type_have_the_bits_of_the_decoder() {
    in_every_order(|device| {
        for &ty in MATRIX_TYPES {
            for n_in in widths(ty) {
                let weights = Weights::random(ty, n_in, 5, 1);
                let w = weights.upload(device, 3.0);
                let ids = [4u32, 0, 0, 2];
                let tokens = device.upload(&ids.map(|id| id as i32)).unwrap();
                let mut y = device.alloc(ids.len() * n_in).unwrap();
                launch::get_rows(device, y.all_mut(), &w, tokens.all(), ids.len()).unwrap();
                let expected = get_rows::<f32>(&weights.rows(), &ids).into_raw_vec_and_offset().0;
                assert_same_bits(
                    &format!("get_rows: {ty}, {n_in} wide"),
                    &device.read(y.all()).unwrap(),
                    &expected,
                );
            }
        }
    });
}

#[test]
fn a_negative_scale_keeps_the_sign_of_zero() {
    in_every_order(|device| {
        for ty in [GgmlType::PQ2_0, GgmlType::Q2_0, GgmlType::TQ2_0, GgmlType::Q4_0] {
            let mut weights = Weights::random(ty, ty.block_elements(), 1, 2);
            let sign = if ty == GgmlType::TQ2_0 { 65 } else { 1 };
            weights.bytes[sign] |= 0x80;
            let mut y = device.alloc(weights.n_in).unwrap();
            let token = device.upload(&[0]).unwrap();
            launch::get_rows(device, y.all_mut(), &weights.upload(device, 1.0), token.all(), 1).unwrap();
            let expected = get_rows::<f32>(&weights.rows(), &[0]).into_raw_vec_and_offset().0;
            assert_same_bits(&format!("get_rows: {ty}"), &device.read(y.all()).unwrap(), &expected);
        }
    });
}

#[test]
fn a_type_without_a_kernel_and_bytes_of_another_size_are_refused() {
    in_every_order(|device| {
        let refused = Matrix::upload(device, GgmlType::IQ1_S, &[], 256, 0, 1.0);
        let Err(error @ GpuError::MatrixType { ty: GgmlType::IQ1_S }) = refused else {
            panic!("it was taken")
        };
        assert!(
            error.to_string().starts_with("no kernel decodes weights of type iq1_s; types with one: f32,")
        );
        let refused = Matrix::upload(device, GgmlType::Q8_0, &[0; 33], 32, 1, 1.0);
        assert!(matches!(refused, Err(GpuError::MatrixSize(_))));
    });
}
