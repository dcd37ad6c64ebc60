//! Folds, alone and behind what they follow.

use lockstep::engine::gpu::cost::Sizes;
use lockstep::engine::gpu::launch::{self, FoldHeads, FoldParams, Folded};

use crate::Bench;

pub(crate) fn check(bench: &Bench) {
    let (device, rows, n, head_dim) = (&bench.device, 3, 2048, 128);
    let signs = bench.signs(n);
    let (a, b, w, of_head) =
        (bench.values(rows * n), bench.values(rows * n), bench.values(n), bench.values(head_dim));
    let pairs = bench.values(2 * rows * n);
    let [mut y, mut folded, mut sum] = [(); 3].map(|()| bench.room(rows * n));
    for block in [128, 1024] {
        let fold = FoldParams { signs: Some(signs.all()), ..FoldParams::of_block(block) };
        let heads = FoldParams { heads: Some(FoldHeads { n_k: 4, rep: n / head_dim / 4, head_dim }), ..fold };
        let sizes = Sizes { rows, n, block, head_dim, ..Sizes::default() };
        bench.check(sizes, || launch::fold(device, y.all_mut(), a.all(), rows, n, &fold));
        bench.check(sizes, || launch::fold(device, y.all_mut(), a.all(), rows, n, &heads));
        bench.check(sizes, || launch::unfold(device, y.all_mut(), a.all(), rows, n, &fold));
        for plain in [0, 1] {
            let sizes = Sizes { plain, ..sizes };
            macro_rules! to {
                () => {
                    Folded { plain: (plain == 1).then(|| y.all_mut()), folded: folded.all_mut() }
                };
            }
            let size = [rows, n];
            bench.check(sizes, || launch::rms_norm_fold(device, to!(), a.all(), w.all(), size, 1e-6, &fold));
            bench.check(sizes, || {
                let from = [a.all(), b.all(), w.all()];
                launch::add_rms_norm_fold(device, sum.all_mut(), to!(), from, size, 1e-6, &fold)
            });
            bench.check(sizes, || {
                launch::gated_norm_fold(device, to!(), [a.all(), b.all()], of_head.all(), size, 1e-6, &heads)
            });
            bench.check(sizes, || {
                let size = [rows, n, head_dim];
                launch::sigmoid_gate_fold(device, to!(), a.all(), pairs.all(), size, &fold)
            });
            bench.check(sizes, || launch::swiglu_fold(device, to!(), a.all(), b.all(), size, &fold));
        }
    }
}
