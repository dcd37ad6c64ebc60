//! Stacks of small matrices.

use lockstep::engine::gpu::cost::Sizes;
use lockstep::engine::gpu::launch::{self, Matrices};

use crate::Bench;

pub(crate) fn check(bench: &Bench) {
    let (device, n, size, columns) = (&bench.device, 3, 40, 70);
    let (a, b) = (bench.values(n * size * columns), bench.values(n * size * columns));
    let mut y = bench.room(n * size * columns);
    let shape = [n, size, columns];
    let of = |values| Matrices::packed(values, shape);
    let sizes = Sizes { rows: n * size, n: columns, ..Sizes::default() };
    bench.check(sizes, || launch::cont(device, y.all_mut(), of(a.all()), size));
    bench.check(sizes, || launch::add_matrices(device, y.all_mut(), of(a.all()), of(b.all())));
    bench.check(sizes, || launch::sub_matrices(device, y.all_mut(), of(a.all()), of(b.all())));
    bench.check(sizes, || launch::mul_matrices(device, y.all_mut(), of(a.all()), of(b.all())));
    bench.check(sizes, || launch::cumsum(device, y.all_mut(), a.all(), columns));

    let squares = bench.values(n * size * size);
    for diagonal in [false, true] {
        let mut y = bench.room(n * size * size);
        let sizes = Sizes { rows: n, n: size, plain: usize::from(diagonal), ..Sizes::default() };
        bench.check(sizes, || launch::tri(device, y.all_mut(), squares.all(), size, diagonal));
    }

    // a [n, columns, size], b [n, rows, size]
    let rows = 33;
    let (of_columns, of_rows) = (bench.values(n * columns * size), bench.values(n * rows * size));
    let mut product = bench.room(n * rows * columns);
    let sizes = Sizes { n_seqs: n, rows, n_out: columns, n: size, ..Sizes::default() };
    bench.check(sizes, || {
        let a = Matrices::packed(of_columns.all(), [n, columns, size]);
        launch::products(device, product.all_mut(), a, Matrices::packed(of_rows.all(), [n, rows, size]))
    });
    let (vector, mut sums) = (bench.values(n * size), bench.room(n * rows));
    bench.check(sizes, || {
        launch::sum_products(device, sums.all_mut(), of_rows.all(), vector.all(), [n, rows, size])
    });

    let sizes = Sizes { n_seqs: n, n: size, n_out: columns, ..Sizes::default() };
    bench.check(sizes, || launch::solve_tri(device, y.all_mut(), squares.all(), b.all(), [n, size, columns]));
}
