//! Attention, and what writes its cache.

use lockstep::engine::gpu::cost::Sizes;
use lockstep::engine::gpu::launch::{
    self, AttnShape, FlashCache, FlashShape, FoldParams, Folded, QkvInputs, QkvShape,
};

use crate::Bench;
use crate::cells::{Cache, CellType};

const N_CELLS: usize = 160;

pub(crate) fn check(bench: &Bench) {
    for cell in CellType::ALL {
        in_steps(bench, cell);
        in_one_pass(bench, cell);
        appended(bench, cell);
    }
}

fn bytes(cell: CellType) -> usize {
    if cell == CellType::F32 { 4 } else { 2 }
}

fn caches(bench: &Bench, cell: CellType, n: usize) -> [Cache; 2] {
    [1.0, 2.0].map(|x| Cache::upload(&bench.device, cell, &vec![x; n]))
}

fn in_steps(bench: &Bench, cell: CellType) {
    let (device, n_tokens, n_head, n_head_kv, head_dim, n_kv) = (&bench.device, 3, 4, 2, 64, 72);
    let shape = AttnShape { n_tokens, n_head, n_head_kv, head_dim, n_kv };
    let cell_bytes = bytes(cell);
    let sizes =
        Sizes { n_seqs: 1, n_tokens, n_head, n_head_kv, head_dim, n_kv, cell_bytes, ..Sizes::default() };
    let [k, v] = caches(bench, cell, N_CELLS * n_head_kv * head_dim);
    let (q, mask) = (bench.values(shape.n_values()), device.upload(&vec![1u8; n_tokens * n_kv]).unwrap());
    let (mut kq, mut kqv) = (bench.room(shape.n_scores()), bench.room(shape.n_values()));
    bench.check(sizes, || launch::kq(device, kq.all_mut(), q.all(), k.cells(), &shape));
    bench.check(sizes, || launch::soft_max(device, kq.all_mut(), mask.all(), 0.1, &shape));
    bench.check(sizes, || launch::kqv(device, kqv.all_mut(), kq.all(), v.cells(), mask.all(), &shape));
}

fn in_one_pass(bench: &Bench, cell: CellType) {
    let (device, n_head, n_head_kv, head_dim, n_kv, parts) = (&bench.device, 8, 2, 64, 150, 2);
    let cell_bytes = bytes(cell);
    let [k, v] = caches(bench, cell, N_CELLS * n_head_kv * head_dim);
    let sizes = |n_tokens| Sizes {
        n_seqs: 1,
        n_tokens,
        n_head,
        n_head_kv,
        head_dim,
        n_kv,
        cell_bytes,
        parts,
        ..Sizes::default()
    };
    let first = bench.ids([3]);
    let cache = FlashCache { k: k.cells(), v: v.cells(), first: first.all(), cells: None };
    let shape = |n_tokens| FlashShape { n_seqs: 1, n_tokens, n_head, n_head_kv, head_dim, scale: 0.1 };

    let one = shape(1);
    let (q, visible) = (bench.values(one.n_values()), bench.ids([n_kv]));
    let (mut y, mut scratch) = (bench.room(one.n_values()), bench.room(one.n_scratch(parts)));
    bench.check(sizes(1), || {
        let (y, scratch) = (y.all_mut(), scratch.all_mut());
        launch::flash_attn_decode(device, y, scratch, q.all(), &cache, visible.all(), parts, &one)
    });

    let (n, q_full) = (n_head * head_dim, bench.values(2 * one.n_values()));
    let (signs, mut plain, mut folded) = (bench.signs(n), bench.room(n), bench.room(n));
    let fold = FoldParams { signs: Some(signs.all()), ..FoldParams::of_block(64) };
    for with_plain in [0, 1] {
        bench.check(Sizes { block: 64, plain: with_plain, ..sizes(1) }, || {
            let plain = (with_plain == 1).then(|| plain.all_mut());
            let (to, splits) = (Folded { plain, folded: folded.all_mut() }, (scratch.all(), parts));
            launch::attn_combine_fold(device, to, splits, q_full.all(), visible.all(), &one, &fold)
        });
    }

    let many = shape(12);
    let (q, mut y) = (bench.values(many.n_values()), bench.room(many.n_values()));
    let n_past = bench.ids([n_kv - 12]);
    bench.check(sizes(12), || {
        launch::flash_attn_prefill(device, y.all_mut(), q.all(), &cache, n_past.all(), &many)
    });
}

fn appended(bench: &Bench, cell: CellType) {
    let (device, n_tokens, n_head, n_head_kv, head_dim, n_rot) = (&bench.device, 5, 4, 2, 64, 32);
    let (n_embd_kv, cell_bytes) = (n_head_kv * head_dim, bytes(cell));
    let sizes = Sizes {
        n: n_embd_kv,
        n_seqs: 1,
        n_tokens,
        n_head,
        n_head_kv,
        head_dim,
        n_rot,
        cell_bytes,
        ..Sizes::default()
    };
    let [mut k_cache, mut v_cache] = caches(bench, cell, N_CELLS * n_embd_kv);
    let [k, v] = [(); 2].map(|()| bench.values(n_tokens * n_embd_kv));
    let cells = bench.ids((0..n_tokens).map(|t| 7 * t));
    bench.check(sizes, || {
        let (to_k, to_v) = (k_cache.cells_mut(), v_cache.cells_mut());
        launch::kv_append(device, to_k, to_v, k.all(), v.all(), cells.all())
    });

    let (q_head_stride, kv_stride) = (2 * head_dim, n_embd_kv);
    let q_stride = n_head * q_head_stride;
    let shape = QkvShape { n_tokens, n_head, n_head_kv, head_dim, n_rot, q_stride, q_head_stride, kv_stride };
    let [q_weight, k_weight] = [(); 2].map(|()| bench.values(head_dim));
    let (q, table, positions) =
        (bench.values(n_tokens * q_stride), bench.values(8 * n_rot), bench.ids(1..=n_tokens));
    let mut y = bench.room(n_tokens * n_head * head_dim);
    let inputs = QkvInputs {
        q: q.all(),
        k: k.all(),
        v: v.all(),
        q_weight: q_weight.all(),
        k_weight: k_weight.all(),
        cells: cells.all(),
        positions: positions.all(),
        table: table.all(),
    };
    bench.check(sizes, || {
        let (to_k, to_v) = (k_cache.cells_mut(), v_cache.cells_mut());
        launch::qkv_rope_append(device, y.all_mut(), to_k, to_v, &inputs, &shape, 1e-6)
    });
}
