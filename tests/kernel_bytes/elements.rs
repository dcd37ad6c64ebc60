//! Kernels that go over elements, one by one or in rows that are copied.

use lockstep::engine::gpu::cost::Sizes;
use lockstep::engine::gpu::launch::{self, Cells, GateInputs};

use crate::Bench;

pub(crate) fn check(bench: &Bench) {
    let (device, rows, n) = (&bench.device, 24, 96);
    let sizes = Sizes { rows, n, ..Sizes::default() };
    let (a, b, w) = (bench.values(rows * n), bench.values(rows * n), bench.values(n));
    let mut y = bench.room(rows * n);
    bench.check(sizes, || launch::silu(device, y.all_mut(), a.all()));
    bench.check(sizes, || launch::exp(device, y.all_mut(), a.all()));
    bench.check(sizes, || launch::sigmoid(device, y.all_mut(), a.all()));
    bench.check(sizes, || launch::softplus_bias(device, y.all_mut(), a.all(), w.all()));
    bench.check(sizes, || launch::add(device, y.all_mut(), a.all(), b.all()));
    bench.check(sizes, || launch::mul(device, y.all_mut(), a.all(), b.all()));
    bench.check(sizes, || launch::scale(device, y.all_mut(), a.all(), 0.5));
    bench.check(sizes, || launch::mul_row(device, y.all_mut(), a.all(), w.all()));
    bench.check(sizes, || launch::swiglu(device, y.all_mut(), a.all(), b.all()));
    let pairs = bench.values(2 * rows * n);
    bench.check(sizes, || launch::sigmoid_mul(device, y.all_mut(), a.all(), pairs.all(), 32));
    let mut beta = bench.room(rows * n);
    let factor = bench.values(n);
    let inputs = GateInputs { alpha: a.all(), beta: b.all(), dt: w.all(), a: factor.all() };
    bench.check(sizes, || launch::gates(device, y.all_mut(), beta.all_mut(), inputs));

    let cells = device.upload(&[0u16]).unwrap();
    for like in [Cells::F16(cells.all()), Cells::Bf16(cells.all())] {
        let mut x = bench.values(rows * n);
        bench.check(sizes, || launch::round_like(device, x.all_mut(), like));
    }
    let apart = bench.values(rows * 2 * n);
    bench.check(sizes, || launch::copy_rows(device, y.all_mut(), apart.all(), n, 2 * n));
    let ids = bench.ids((0..rows).map(|row| 2 * row));
    bench.check(sizes, || launch::gather_rows(device, y.all_mut(), apart.all(), ids.all(), n));

    let mut codes = launch::Q8_1::alloc(device, rows * n).unwrap();
    bench.check(sizes, || launch::quantize_q8_1(device, &mut codes, a.all()));
    let sizes = Sizes { n_seqs: 1, n_tokens: 4, n: 256, ..Sizes::default() };
    let (mut digits, x) = (launch::Digits::alloc(device, 256, 4).unwrap(), bench.values(4 * 256));
    bench.check(sizes, || launch::quantize_digits(device, &mut digits, x.all(), 256, 4));
}
