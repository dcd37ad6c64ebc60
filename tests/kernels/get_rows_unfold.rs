//! kernels/get_rows_unfold.cu: the bits of the plain kernels.

use lockstep::engine::gpu::launch::{self, FoldParams};
use lockstep::tensor::GgmlType;

use crate::fold::signs;
use crate::support::{assert_same_bits, in_every_order};
use crate::weights::Weights;

#[test]
fn rows_and_the_inverse_of_their_fold_in_one_launch() {
    in_every_order(|device| {
        for ty in [GgmlType::PQ2_0, GgmlType::PTQ1_0] {
            for (n, block) in [(128, 2), (384, 128), (768, 256), (1024, 512), (5120, 1024), (8192, 8192)] {
                let table = Weights::random(ty, n, 5, 1).upload(device, 1.0);
                let tokens = device.upload(&[4i32, 0, 3]).unwrap();
                let on_device = device.upload(&signs(n)).unwrap();
                let signs = (n != 768).then(|| on_device.all());
                let fold = FoldParams { signs, ..FoldParams::of_block(block) };
                let [mut y, mut expected] = [3 * n; 2].map(|n| device.alloc(n).unwrap());
                launch::get_rows(device, expected.all_mut(), &table, tokens.all(), 3).unwrap();
                launch::unfold_in_place(device, expected.all_mut(), 3, n, &fold).unwrap();
                launch::get_rows_unfold(device, y.all_mut(), &table, tokens.all(), 3, &fold).unwrap();
                let [y, expected] = [&y, &expected].map(|buffer| device.read(buffer.all()).unwrap());
                assert_same_bits(&format!("get_rows_unfold: rows of {n} {ty}, block {block}"), &y, &expected);
            }
        }
    });
}

#[test]
#[should_panic(expected = "get_rows_unfold: rows of q8_0")]
fn types_that_no_folded_table_has_are_refused() {
    in_every_order(|device| {
        let table = Weights::random(GgmlType::Q8_0, 128, 1, 1).upload(device, 1.0);
        let (mut y, tokens) = (device.alloc(128).unwrap(), device.zeros(1).unwrap());
        let fold = FoldParams::of_block(128);
        launch::get_rows_unfold(device, y.all_mut(), &table, tokens.all(), 1, &fold).unwrap();
    });
}
