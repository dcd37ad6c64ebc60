//! Launches of kernels/top_k.cu.

use super::super::{Arg, Device, GpuError, Grid, Part, PartMut};
use super::argmax::MAX_ROWS;

const THREADS: usize = 256;
/// Candidates that a thread block sorts.
const GROUP: usize = 2048;
/// The most that can be asked for.
const MAX_K: usize = 64;

/// Candidates of a row behind a pass over `count` of them.
fn behind(count: usize, k: usize) -> usize {
    count.div_ceil(GROUP) * k
}

/// Values of scratch memory that [`top_k`] needs: what the first pass leaves, and what the second does.
pub fn top_k_scratch(rows: usize, n: usize, k: usize) -> usize {
    let first = behind(n, k);
    rows * (first + behind(first, k))
}

/// `values` and `ids`, `[rows, k]` each: the k largest of each of `rows` rows of `n`, the largest first, of equal ones the lowest
/// index first. A NaN comes before all others. `scratch` is [`top_k_scratch`] long and holds nothing that matters before or behind.
///
/// # Errors
/// If a launch fails.
///
/// # Panics
/// If `k` is 0, more than 64 or more than `n`, or sizes do not belong together.
pub fn top_k(
    device: &Device,
    (mut values, mut ids): (PartMut<'_, f32>, PartMut<'_, i32>),
    x: Part<'_, f32>,
    mut scratch: PartMut<'_, u64>,
    [rows, n, k]: [usize; 3],
) -> Result<(), GpuError> {
    assert!((1..=MAX_K.min(n)).contains(&k), "top_k: {k} of {n}");
    assert_eq!([values.len(), ids.len(), x.len()], [rows * k, rows * k, rows * n], "top_k of [{rows}, {n}]");
    assert_eq!(scratch.len(), top_k_scratch(rows, n, k), "top_k of [{rows}, {n}]: scratch");
    assert!(rows <= MAX_ROWS, "top_k of {rows} rows");
    let grid = |count: usize| Grid::new_2d([count.div_ceil(GROUP), rows], THREADS);
    let mut count = behind(n, k);
    // Each pass leaves less than the one before: they take turns with two areas.
    let (mut from, mut to) = (0, rows * count);
    let mut area =
        |begin: usize, count: usize| -> Arg { scratch.part_mut(begin..begin + rows * count).into() };
    device.launch("top_k_first_f32", grid(n), &[area(from, count), x.into(), n.into(), k.into()])?;
    while count > GROUP {
        let args = [area(to, behind(count, k)), area(from, count), count.into(), k.into()];
        device.launch("top_k_merge_f32", grid(count), &args)?;
        (from, to, count) = (to, from, behind(count, k));
    }
    let (values, ids) = ((&mut values).into(), (&mut ids).into());
    let args = [values, ids, area(from, count), x.into(), count.into(), n.into(), k.into()];
    device.launch("top_k_f32", grid(count), &args)
}
