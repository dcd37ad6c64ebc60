//! kernels/mul_mat_vec_split.cu.

use lockstep::engine::gpu::launch::{self, SplitMatrix};
use lockstep::tensor::GgmlType;

use crate::support::{assert_same_bits, in_every_order, values};
use crate::weights::Weights;

#[test]
fn has_the_bits_of_the_product_with_the_file_s_blocks() {
    in_every_order(|device| {
        for (n_in, n_out) in [(128, 1), (384, 31), (5120, 33), (4224, 65)] {
            let weights = Weights::random(GgmlType::PQ2_0, n_in, n_out, 1);
            let x = device.upload(&values(n_in, 3)).unwrap();
            let mut expected = device.alloc(n_out).unwrap();
            let w = weights.upload(device, 1.0);
            launch::mul_mat_vec(device, expected.all_mut(), &w, x.all(), 1, None).unwrap();
            let split = SplitMatrix::upload(device, &weights.bytes, n_in, n_out).unwrap();
            assert_eq!(split.n_bytes(), weights.bytes.len());
            let mut y = device.alloc(n_out).unwrap();
            launch::mul_mat_vec_split(device, y.all_mut(), &split, x.all()).unwrap();
            let (y, expected) = (device.read(y.all()).unwrap(), device.read(expected.all()).unwrap());
            assert_same_bits(&format!("mul_mat_vec_split: {n_out} rows of {n_in}"), &y, &expected);
        }
    });
}
