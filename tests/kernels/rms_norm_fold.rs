//! kernels/rms_norm_fold.cu: the bits of the plain kernels.

use lockstep::engine::gpu::launch::{self, FoldParams, Folded};

use crate::fold::{check_folded, signs};
use crate::support::{assert_same_bits, in_every_order, values};

#[test]
fn a_norm_and_its_fold_in_one_launch() {
    in_every_order(|device| {
        let shapes = [
            (2, 2, 3),
            (6, 2, 2),
            (64, 64, 3),
            (256, 128, 3),
            (384, 128, 2),
            (512, 128, 1),
            (1536, 512, 2),
            (5120, 1024, 1),
            (6144, 2048, 1),
            (8192, 8192, 1),
        ];
        for (n, block, rows) in shapes {
            let [x, w] = [(rows * n, 1), (n, 2)].map(|(n, seed)| device.upload(&values(n, seed)).unwrap());
            let on_device = device.upload(&signs(n)).unwrap();
            for signs in [Some(on_device.all()), None] {
                let fold = FoldParams { signs, ..FoldParams::of_block(block) };
                let mut plain = device.alloc(rows * n).unwrap();
                launch::rms_norm_weighted(device, plain.all_mut(), x.all(), w.all(), [rows, n], 1e-6)
                    .unwrap();
                let what = format!("rms_norm_fold of [{rows}, {n}] in blocks of {block}");
                check_folded(device, &what, (n, &fold), &plain, |to| {
                    launch::rms_norm_fold(device, to, x.all(), w.all(), [rows, n], 1e-6, &fold)
                });
            }
        }
    });
}

#[test]
fn a_residual_and_the_norm_behind_it() {
    in_every_order(|device| {
        for (n, block, rows) in [(6, 2, 2), (384, 128, 2), (5120, 1024, 1)] {
            let [a, b, w] = [(rows * n, 1), (rows * n, 2), (n, 3)]
                .map(|(n, seed)| device.upload(&values(n, seed)).unwrap());
            let signs = device.upload(&signs(n)).unwrap();
            let fold = FoldParams { signs: Some(signs.all()), ..FoldParams::of_block(block) };
            let [mut sum, mut plain] = [rows * n; 2].map(|n| device.alloc(n).unwrap());
            launch::add(device, sum.all_mut(), a.all(), b.all()).unwrap();
            launch::rms_norm_weighted(device, plain.all_mut(), sum.all(), w.all(), [rows, n], 1e-6).unwrap();
            let expected = device.read(sum.all()).unwrap();
            let what = format!("add_rms_norm_fold of [{rows}, {n}] in blocks of {block}");
            check_folded(device, &what, (n, &fold), &plain, |to| {
                let mut sum = device.alloc(rows * n).unwrap();
                let from = [a.all(), b.all(), w.all()];
                launch::add_rms_norm_fold(device, sum.all_mut(), to, from, [rows, n], 1e-6, &fold)?;
                assert_same_bits(&what, &device.read(sum.all())?, &expected);
                Ok(())
            });
        }
    });
}

#[test]
#[should_panic(expected = "rms_norm_fold: rows of 8448 values")]
fn rows_that_no_thread_block_holds_are_refused() {
    in_every_order(|device| {
        let [x, w, mut y] = [8448; 3].map(|n| device.alloc(n).unwrap());
        let to = Folded { plain: None, folded: y.all_mut() };
        launch::rms_norm_fold(device, to, x.all(), w.all(), [1, 8448], 1e-6, &FoldParams::of_block(256))
            .unwrap();
    });
}
