//! Norms, rotations and searches: kernels that look at whole rows.

use lockstep::engine::gpu::cost::Sizes;
use lockstep::engine::gpu::launch::{self, Heads, RopeShape};

use crate::Bench;

pub(crate) fn check(bench: &Bench) {
    let device = &bench.device;
    for (rows, n) in [(16, 64), (4, 2048)] {
        let sizes = Sizes { rows, n, ..Sizes::default() };
        let (x, w, mut y) = (bench.values(rows * n), bench.values(n), bench.room(rows * n));
        bench.check(sizes, || launch::rms_norm(device, y.all_mut(), x.all(), rows, n, 1e-6));
        bench.check(sizes, || {
            launch::rms_norm_weighted(device, y.all_mut(), x.all(), w.all(), [rows, n], 1e-6)
        });
        let heads = Heads { tokens: rows, per_token: 1, n, stride: n };
        bench.check(sizes, || launch::l2_norm(device, y.all_mut(), x.all(), heads, 1e-6));
        bench.check(sizes, || launch::l2_norm_inside(device, y.all_mut(), x.all(), heads, 1e-6));
        if n <= 256 {
            let z = bench.values(rows * n);
            bench.check(sizes, || {
                launch::gated_norm(device, y.all_mut(), [x.all(), z.all()], w.all(), [rows, n], 1e-6)
            });
        }
    }

    let (n_tokens, n_head, head_dim, n_rot) = (6, 4, 64, 32);
    let shape = RopeShape::packed(n_tokens, n_head, head_dim, n_rot);
    let sizes = Sizes { n_seqs: 1, n_tokens, n_head, head_dim, n_rot, ..Sizes::default() };
    let (x, weight, table) =
        (bench.values(shape_values(&shape)), bench.values(head_dim), bench.values(8 * n_rot));
    let (positions, mut y) = (bench.ids(1..=n_tokens), bench.room(shape_values(&shape)));
    bench.check(sizes, || launch::rope(device, y.all_mut(), x.all(), positions.all(), table.all(), &shape));
    bench.check(sizes, || {
        let (at, turns) = (positions.all(), table.all());
        launch::qk_norm_rope(device, y.all_mut(), x.all(), weight.all(), at, turns, &shape, 1e-6)
    });

    let (rows, n) = (2, 20_000);
    let sizes = Sizes { rows, n, parts: n.div_ceil(8192), ..Sizes::default() };
    let (x, mut ids) = (bench.values(rows * n), device.alloc(rows).unwrap());
    let mut scratch = device.alloc(launch::argmax_scratch(rows, n)).unwrap();
    bench.check(sizes, || launch::argmax(device, ids.all_mut(), x.all(), scratch.all_mut(), rows, n));

    // Three passes: 35 groups leave 2240 candidates, two leave 128.
    let (n, k) = (70_000, 64);
    let x = bench.values(n);
    let (mut values, mut ids) = (bench.room(k), device.alloc(k).unwrap());
    let mut scratch = device.alloc(launch::top_k_scratch(1, n, k)).unwrap();
    let of_pass = |pass: usize| Sizes { rows: 1, n: [n, 35 * k, 2 * k][pass], k, ..Sizes::default() };
    bench.check_each(of_pass, || {
        launch::top_k(device, (values.all_mut(), ids.all_mut()), x.all(), scratch.all_mut(), [1, n, k])
    });
}

fn shape_values(shape: &RopeShape) -> usize {
    shape.n_tokens * shape.n_head * shape.head_dim
}
