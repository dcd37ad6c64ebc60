//! The one pass over a pair of tensors: every sum that the metrics need, in f64.
//!
//! Elements are taken in blocks; within a block, [`LANES`] independent accumulators per sum let the
//! compiler use vector registers. What needs a branch (the index of the largest difference, counting
//! non-finite values) is done again over a block only when the block's own sums ask for it.

/// Independent accumulators per sum.
const LANES: usize = 4;

/// Elements per block: small enough to be read twice from the first-level cache.
pub(super) const BLOCK: usize = 512;

/// Sums over pairs `(x, y)`, with `d = y - x`. Any of them is NaN or infinite if a value was.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Sums {
    /// Sum of `x^2`.
    pub(super) xx: f64,
    /// Sum of `y^2`.
    pub(super) yy: f64,
    /// Sum of `x y`.
    pub(super) xy: f64,
    /// Sum of `d^2`.
    pub(super) dd: f64,
    /// Sum of `d (x + y)`, which is `sum y^2 - sum x^2` without the cancellation.
    pub(super) ds: f64,
    /// Largest `|d|` among finite pairs.
    pub(super) max: f64,
    /// First index at which `max` was found.
    pub(super) max_index: usize,
    /// Non-finite values of x: how many, and the index of the first.
    pub(super) x_bad: (u64, Option<usize>),
    /// Non-finite values of y.
    pub(super) y_bad: (u64, Option<usize>),
}

/// One pass over both slices, which have equal lengths (checked by the caller).
pub(super) fn sums<T: Copy + Into<f64>>(x: &[f32], y: &[T]) -> Sums {
    assert_eq!(x.len(), y.len(), "the caller has compared the lengths");
    let mut total = Sums::default();
    for (block, (x, y)) in x.chunks(BLOCK).zip(y.chunks(BLOCK)).enumerate() {
        let part = block_sums(x, y);
        total.xx += part.xx;
        total.yy += part.yy;
        total.xy += part.xy;
        total.dd += part.dd;
        total.ds += part.ds;
        let first = block * BLOCK;
        if !(part.xx.is_finite() && part.yy.is_finite() && part.dd.is_finite()) {
            count_bad(&mut total.x_bad, x, first);
            count_bad(&mut total.y_bad, y, first);
        }
        if part.max > total.max {
            total.max = part.max;
            let at = x.iter().zip(y).position(|(&x, &y)| distance(x, y) == part.max);
            total.max_index = first + at.expect("the block's maximum is one of its distances");
        }
    }
    total
}

fn distance<T: Into<f64>>(x: f32, y: T) -> f64 {
    (y.into() - f64::from(x)).abs()
}

fn block_sums<T: Copy + Into<f64>>(x: &[f32], y: &[T]) -> Sums {
    let (mut xx, mut yy, mut xy, mut dd, mut ds, mut max) =
        ([0.0; LANES], [0.0; LANES], [0.0; LANES], [0.0; LANES], [0.0; LANES], [0.0; LANES]);
    let mut add = |lane: usize, x: f32, y: T| {
        let (x, y): (f64, f64) = (x.into(), y.into());
        let d = y - x;
        xx[lane] += x * x;
        yy[lane] += y * y;
        xy[lane] += x * y;
        dd[lane] += d * d;
        ds[lane] += d * (x + y);
        // NaN is not greater and leaves `max` alone; the sums above carry it.
        max[lane] = if d.abs() > max[lane] { d.abs() } else { max[lane] };
    };
    let (x_lanes, x_rest) = x.as_chunks::<LANES>();
    let (y_lanes, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_lanes.iter().zip(y_lanes) {
        for lane in 0..LANES {
            add(lane, x[lane], y[lane]);
        }
    }
    for (lane, (&x, &y)) in x_rest.iter().zip(y_rest).enumerate() {
        add(lane, x, y);
    }
    let sum = |lanes: [f64; LANES]| (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    Sums {
        xx: sum(xx),
        yy: sum(yy),
        xy: sum(xy),
        dd: sum(dd),
        ds: sum(ds),
        max: max.into_iter().fold(0.0, |a, b| if b > a { b } else { a }),
        ..Sums::default()
    }
}

fn count_bad<T: Copy + Into<f64>>(bad: &mut (u64, Option<usize>), values: &[T], first: usize) {
    for (i, &value) in values.iter().enumerate() {
        if !value.into().is_finite() {
            bad.0 += 1;
            bad.1.get_or_insert(first + i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sum_written_out() {
        let s = sums(&[1.0, 2.0, -3.0], &[1.0f32, 4.0, -3.5]);
        assert_eq!((s.xx, s.yy, s.xy), (1.0 + 4.0 + 9.0, 1.0 + 16.0 + 12.25, 1.0 + 8.0 + 10.5));
        assert_eq!((s.dd, s.ds), (0.0 + 4.0 + 0.25, s.yy - s.xx));
        assert_eq!((s.max, s.max_index), (2.0, 1));
    }

    #[test]
    fn the_first_of_equal_differences_is_kept_across_blocks() {
        let x = vec![0.0f32; 2 * BLOCK + 3];
        let mut y = vec![0.0f64; x.len()];
        y[BLOCK + 7] = -2.0;
        y[2 * BLOCK + 1] = 2.0;
        assert_eq!(sums(&x, &y).max_index, BLOCK + 7);
    }

    #[test]
    fn non_finite_values_are_counted_in_whichever_block_they_are() {
        let mut x = vec![1.0f32; 2 * BLOCK + 3];
        let mut y = vec![1.0f32; x.len()];
        x[2 * BLOCK + 2] = f32::INFINITY;
        y[3] = f32::NAN;
        y[BLOCK] = f32::NEG_INFINITY;
        let s = sums(&x, &y);
        assert_eq!(s.x_bad, (1, Some(2 * BLOCK + 2)));
        assert_eq!(s.y_bad, (2, Some(3)));
        assert!(s.yy.is_nan());
    }
}
