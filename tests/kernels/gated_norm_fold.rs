//! kernels/gated_norm_fold.cu: the bits of the plain kernels.

use lockstep::engine::gpu::launch::{self, FoldHeads, FoldParams};

use crate::fold::{check_folded, signs};
use crate::support::{in_every_order, values};

#[test]
fn a_gated_norm_and_its_fold_in_one_launch() {
    in_every_order(|device| {
        for (n_k, rep, head_dim, block, rows) in [
            (2, 1, 4, 2, 3),
            (3, 3, 4, 4, 2),
            (2, 2, 8, 32, 2),
            (2, 3, 64, 128, 3),
            (4, 2, 16, 64, 1),
            (2, 3, 256, 512, 2),
            (8, 2, 128, 2048, 1),
            (16, 3, 128, 1024, 1),
        ] {
            let n = n_k * rep * head_dim;
            // Inputs that do not lie on 16 bytes in every second case.
            let at = rows % 2;
            let [o, z, w] = [(at + rows * n, 1), (at + rows * n, 2), (head_dim, 3)]
                .map(|(n, seed)| device.upload(&values(n, seed)).unwrap());
            let from = [&o, &z].map(|buffer| buffer.part(at..buffer.len()));
            let on_device = device.upload(&signs(n)).unwrap();
            for heads in [Some(FoldHeads { n_k, rep, head_dim }), None] {
                let fold = FoldParams { signs: Some(on_device.all()), heads, ..FoldParams::of_block(block) };
                let mut plain = device.alloc(rows * n).unwrap();
                let of_heads = [rows * n_k * rep, head_dim];
                launch::gated_norm(device, plain.all_mut(), from, w.all(), of_heads, 1e-6).unwrap();
                let what =
                    format!("gated_norm_fold of [{rows}, {n_k} {rep} {head_dim}] in blocks of {block}");
                check_folded(device, &what, (n, &fold), &plain, |to| {
                    launch::gated_norm_fold(device, to, from, w.all(), [rows, n], 1e-6, &fold)
                });
            }
        }
    });
}
