//! kernels/swiglu_fold.cu: the bits of the plain kernels.

use lockstep::engine::gpu::launch::{self, FoldParams};

use crate::fold::{check_folded, signs};
use crate::support::{in_every_order, values};

#[test]
fn swiglu_and_its_fold_in_one_launch() {
    in_every_order(|device| {
        for (n, block, rows) in
            [(6, 2, 2), (64, 64, 3), (384, 128, 2), (1536, 512, 1), (2048, 2048, 1), (17408, 1024, 1)]
        {
            let [gate, up] = [1, 2].map(|seed| device.upload(&values(rows * n, seed)).unwrap());
            let on_device = device.upload(&signs(n)).unwrap();
            for signs in [Some(on_device.all()), None] {
                let fold = FoldParams { signs, ..FoldParams::of_block(block) };
                let mut plain = device.alloc(rows * n).unwrap();
                launch::swiglu(device, plain.all_mut(), gate.all(), up.all()).unwrap();
                let what = format!("swiglu_fold of [{rows}, {n}] in blocks of {block}");
                check_folded(device, &what, (n, &fold), &plain, |to| {
                    launch::swiglu_fold(device, to, gate.all(), up.all(), [rows, n], &fold)
                });
            }
        }
    });
}
