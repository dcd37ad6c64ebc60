//! What works on rows of activations: norms, folds, roundings. Of one row the time is that of a launch; of many it is a matter of memory.

use super::{BenchError, Label, Table};
use crate::engine::gpu::launch::{self, Digits, FoldParams, Folded, Q8_1};

const EPS: f32 = 1e-6;
const F32: usize = size_of::<f32>();
const GROUP: &str = "rows of activations";

pub(super) fn all(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    for rows in [1, table.many()] {
        let p = &table.sizes;
        let (n_embd, n_ff) = (p.n_embd, p.n_ff);
        let inner = if table.bench.is_small { n_embd } else { p.ssm_d_inner() };
        let mut widths = vec![n_embd, inner, n_ff];
        widths.dedup();
        for n in widths {
            fold(table, rows, n)?;
        }
        norms(table, rows, n_embd)?;
        feed_forward(table, rows, n_ff)?;
        roundings(table, rows, n_embd)?;
    }
    Ok(())
}

/// `arrays` arrays of `rows` rows of `n` are read or written.
fn label(kernel: &str, rows: usize, n: usize, arrays: usize) -> Label {
    Label {
        group: GROUP,
        kernel: kernel.to_owned(),
        shape: format!("{rows} row(s) of {n}"),
        bytes: arrays * rows * n * F32,
        flops: None,
    }
}

fn fold(table: &mut Table<'_, '_>, rows: usize, n: usize) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let params = FoldParams::of_block(table.sizes.fold_block);
    let copies = table.bench.copies(2 * rows * n * F32);
    let (xs, mut ys) = (table.copies_of_values(rows * n, copies)?, table.room(rows * n, copies)?);
    table.add(label("fold", rows, n, 2), copies, |i| {
        launch::fold(&device, ys[i].all_mut(), xs[i].all(), rows, n, &params)
    })
}

fn norms(table: &mut Table<'_, '_>, rows: usize, n: usize) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let fold = FoldParams::of_block(table.sizes.fold_block);
    let copies = table.bench.copies(2 * rows * n * F32);
    let (xs, mut ys) = (table.copies_of_values(rows * n, copies)?, table.room(rows * n, copies)?);
    let weight = table.values(n)?;
    table.add(label("rms_norm_weighted", rows, n, 2), copies, |i| {
        launch::rms_norm_weighted(&device, ys[i].all_mut(), xs[i].all(), weight.all(), [rows, n], EPS)
    })?;
    table.add(label("rms_norm_fold", rows, n, 2), copies, |i| {
        let to = Folded { plain: None, folded: ys[i].all_mut() };
        launch::rms_norm_fold(&device, to, xs[i].all(), weight.all(), [rows, n], EPS, &fold)
    })?;
    let (more, mut sums) = (table.copies_of_values(rows * n, copies)?, table.room(rows * n, copies)?);
    table.add(label("add_rms_norm_fold", rows, n, 4), copies, |i| {
        let to = Folded { plain: None, folded: ys[i].all_mut() };
        let inputs = [xs[i].all(), more[i].all(), weight.all()];
        launch::add_rms_norm_fold(&device, sums[i].all_mut(), to, inputs, [rows, n], EPS, &fold)
    })?;
    table.add(label("add", rows, n, 3), copies, |i| {
        launch::add(&device, ys[i].all_mut(), xs[i].all(), more[i].all())
    })
}

fn feed_forward(table: &mut Table<'_, '_>, rows: usize, n: usize) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let fold = FoldParams::of_block(table.sizes.fold_block);
    let copies = table.bench.copies(3 * rows * n * F32);
    let (gates, ups) = (table.copies_of_values(rows * n, copies)?, table.copies_of_values(rows * n, copies)?);
    let mut ys = table.room(rows * n, copies)?;
    table.add(label("swiglu_fold", rows, n, 3), copies, |i| {
        let to = Folded { plain: None, folded: ys[i].all_mut() };
        launch::swiglu_fold(&device, to, gates[i].all(), ups[i].all(), [rows, n], &fold)
    })
}

fn roundings(table: &mut Table<'_, '_>, rows: usize, n: usize) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let copies = table.bench.copies(rows * n * F32);
    let xs = table.copies_of_values(rows * n, copies)?;
    let mut codes = Q8_1::alloc(&device, rows * n)?;
    // A byte for each value and four for each 32.
    let bytes = rows * n * F32 + rows * n / 32 * 36;
    table.add(Label { bytes, ..label("quantize_q8_1", rows, n, 1) }, copies, |i| {
        launch::quantize_q8_1(&device, &mut codes, xs[i].all())
    })?;
    let mut digits = Digits::alloc(&device, n, rows)?;
    table.add(label("quantize_digits", rows, n, 2), copies, |i| {
        launch::quantize_digits(&device, &mut digits, xs[i].all(), n, rows)
    })
}
