//! Products with weights of every type, and rows of a table of them.

use lockstep::engine::gpu::cost::Sizes;
use lockstep::engine::gpu::launch::{self, Digits, FoldParams, Q8_1, SplitMatrix};
use lockstep::engine::gpu::{MATRIX_TYPES, Matrix};
use lockstep::tensor::GgmlType;

use crate::Bench;

const N_OUT: usize = 80;

pub(crate) fn check(bench: &Bench) {
    for &ty in MATRIX_TYPES {
        of_type(bench, ty);
    }
}

fn of_type(bench: &Bench, ty: GgmlType) {
    let (device, n) = (&bench.device, 512);
    let row_bytes = ty.row_bytes(n as u64).unwrap() as usize;
    // No weight has a meaning here: only where they lie counts.
    let w = Matrix::upload(device, ty, &vec![0x11; N_OUT * row_bytes], n, N_OUT, 1.0).unwrap();
    let sizes = |n_tokens| Sizes { n, n_out: N_OUT, row_bytes, n_seqs: 1, n_tokens, ..Sizes::default() };

    let (ids, mut y) = (bench.ids([3, 70, 11]), bench.room(3 * n));
    bench.check(sizes(3), || launch::get_rows(device, y.all_mut(), &w, ids.all(), 3));

    for n_tokens in [1, 4, 70] {
        let (x, mut y) = (bench.values(n_tokens * n), bench.room(n_tokens * N_OUT));
        bench.check(sizes(n_tokens), || launch::mul_mat(device, y.all_mut(), &w, x.all(), n_tokens, None));
        if ty.block_elements() == 1 {
            continue;
        }
        let mut codes = Q8_1::alloc(device, n_tokens * n).unwrap();
        launch::quantize_q8_1(device, &mut codes, x.all()).unwrap();
        bench
            .check(sizes(n_tokens), || launch::mul_mat_q8_1(device, y.all_mut(), &w, &codes, n_tokens, None));
    }
    if ty == GgmlType::PQ2_0 {
        of_two_bits(bench);
    }
    if [GgmlType::PQ2_0, GgmlType::PTQ1_0].contains(&ty) {
        unfolded(bench, ty);
    }
}

/// What only PQ2_0 has.
fn of_two_bits(bench: &Bench) {
    for n_tokens in [2, 6] {
        in_digits(bench, n_tokens);
    }
    let (device, n) = (&bench.device, 2048);
    let row_bytes = GgmlType::PQ2_0.row_bytes(n as u64).unwrap() as usize;
    let bytes = vec![0x11; N_OUT * row_bytes];
    let sizes = Sizes { n, n_out: N_OUT, row_bytes, n_seqs: 1, n_tokens: 1, ..Sizes::default() };
    let w = SplitMatrix::upload(device, &bytes, n, N_OUT).unwrap();
    let (x, mut y) = (bench.values(n), bench.room(N_OUT));
    bench.check(sizes, || launch::mul_mat_vec_split(device, y.all_mut(), &w, x.all()));
}

/// Rows of a rotated table.
fn unfolded(bench: &Bench, ty: GgmlType) {
    let (device, n, n_tokens) = (&bench.device, 2048, 3);
    let row_bytes = ty.row_bytes(n as u64).unwrap() as usize;
    let w = Matrix::upload(device, ty, &vec![0x11; N_OUT * row_bytes], n, N_OUT, 1.0).unwrap();
    let (signs, ids, mut y) = (bench.signs(n), bench.ids([3, 70, 11]), bench.room(n_tokens * n));
    let fold = FoldParams { signs: Some(signs.all()), ..FoldParams::of_block(1024) };
    let sizes = Sizes { n, row_bytes, block: 1024, n_seqs: 1, n_tokens, ..Sizes::default() };
    bench.check(sizes, || launch::get_rows_unfold(device, y.all_mut(), &w, ids.all(), n_tokens, &fold));
}

fn in_digits(bench: &Bench, n_tokens: usize) {
    let (device, n) = (&bench.device, 2048);
    let row_bytes = GgmlType::PQ2_0.row_bytes(n as u64).unwrap() as usize;
    let w = Matrix::upload(device, GgmlType::PQ2_0, &vec![0x11; N_OUT * row_bytes], n, N_OUT, 1.0).unwrap();
    let mut x = Digits::alloc(device, n, n_tokens).unwrap();
    launch::quantize_digits(device, &mut x, bench.values(n_tokens * n).all(), n, n_tokens).unwrap();
    let mut y = bench.room(n_tokens * N_OUT);
    let sizes = Sizes { n, n_out: N_OUT, row_bytes, n_seqs: 1, n_tokens, ..Sizes::default() };
    bench.check(sizes, || launch::mul_mat_vec_digits(device, y.all_mut(), &w, &x, n_tokens, None));
}
