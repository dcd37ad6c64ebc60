//! kernels/sigmoid_gate_fold.cu: the bits of the plain kernels.

use lockstep::engine::gpu::launch::{self, FoldParams, Folded};

use crate::fold::{check_folded, signs};
use crate::support::{in_every_order, values};

#[test]
fn a_gated_output_and_its_fold_in_one_launch() {
    in_every_order(|device| {
        for (n_head, head_dim, block, rows) in [
            (1, 4, 2, 3),
            (3, 12, 4, 2),
            (4, 64, 128, 3),
            (6, 64, 128, 2),
            (8, 256, 512, 1),
            (24, 256, 1024, 1),
        ] {
            let n = n_head * head_dim;
            // Inputs that do not lie on 16 bytes in every second case.
            let at = rows % 2;
            let [x, q_full] = [1, 2].map(|k| device.upload(&values(at + k * rows * n, k as u64)).unwrap());
            let [x, q_full] = [x.part(at..x.len()), q_full.part(at..q_full.len())];
            let on_device = device.upload(&signs(n)).unwrap();
            for signs in [Some(on_device.all()), None] {
                let fold = FoldParams { signs, ..FoldParams::of_block(block) };
                let mut plain = device.alloc(rows * n).unwrap();
                launch::sigmoid_mul(device, plain.all_mut(), x, q_full, head_dim).unwrap();
                let what = format!(
                    "sigmoid_gate_fold of {rows} rows of {n_head} heads of {head_dim}, block {block}"
                );
                check_folded(device, &what, (n, &fold), &plain, |to| {
                    launch::sigmoid_gate_fold(device, to, x, q_full, [rows, n, head_dim], &fold)
                });
            }
        }
    });
}

#[test]
#[should_panic(expected = "sigmoid_gate_fold: heads of 2")]
fn heads_of_another_size_than_whole_fours_are_refused() {
    in_every_order(|device| {
        let (x, q_full, mut y) =
            (device.alloc(8).unwrap(), device.alloc(16).unwrap(), device.alloc(8).unwrap());
        let to = Folded { plain: None, folded: y.all_mut() };
        launch::sigmoid_gate_fold(device, to, x.all(), q_full.all(), [1, 8, 2], &FoldParams::of_block(8))
            .unwrap();
    });
}
