//! POOL_2D: the greatest or the mean of a window (`ggml_compute_forward_pool_2d`, ops.cpp), in each matrix of dimensions 2 and 3.
//!
//! ```text
//! y[o0, o1] = max or sum / (k0 k1) of x[o0 s0 - p0 + j0, o1 s1 - p1 + j1] over j0 < k0, j1 < k1, where x has such an element
//! params: 0 greatest (no less than -FLT_MAX)  1 mean; k0 k1 s0 s1 p0 p1
//! ```
//! Terms of a mean: the sum of |x| over its window, divided alike; additions: k0 k1 and the division. The greatest is moved: its terms
//! are 0.

use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError, indices};

pub(super) struct Pool2d;

/// `GGML_OP_POOL_MAX`; the other is `GGML_OP_POOL_AVG`.
const GREATEST: i32 = 0;

/// The most elements of a window that are looked at: more than any tensor of a model has along two dimensions.
const LARGEST: i32 = 1 << 24;

impl Oracle for Pool2d {
    fn ops(&self) -> &'static [&'static str] {
        &["POOL_2D"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let pool = Pool::of(node)?;
        let x = floats(node, 0)?;
        if pool.greatest {
            let least = f64::from(f32::MIN);
            let greatest =
                |window: Vec<usize>| window.into_iter().fold(least, |so_far, at| x[at].max(so_far));
            return Ok(Exact::moved(pool.windows(node).map(greatest).collect()));
        }
        let mean = |window: Vec<usize>| {
            let sum = |of: fn(f64) -> f64| window.iter().map(|&at| of(x[at])).sum::<f64>() / pool.elements();
            (sum(|x| x), sum(f64::abs))
        };
        Ok(Exact::collect(pool.elements() + 1.0, pool.windows(node).map(mean)))
    }

    fn ggml(&self, node: &Invocation<'_>, _: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let pool = Pool::of(node)?;
        if pool.greatest {
            return Ok(self.exact(node)?.into_singles());
        }
        let x = singles(node, 0)?;
        let mean =
            |window: Vec<usize>| window.into_iter().fold(0.0, |sum, at| sum + x[at]) / pool.elements() as f32;
        Ok(pool.windows(node).map(mean).collect())
    }
}

/// The window and how it moves.
struct Pool {
    greatest: bool,
    k: [i64; 2],
    s: [i64; 2],
    p: [i64; 2],
    /// Extents of the source.
    ne: [u64; 4],
}

impl Pool {
    fn of(node: &Invocation<'_>) -> Result<Pool, OracleError> {
        let kind = node.int(0);
        if kind != GREATEST && kind != 1 {
            return Err(node.parameter(format!("pooling {kind}")));
        }
        let pair = |first: usize| [node.int(first), node.int(first + 1)].map(i64::from);
        let pool =
            Pool { greatest: kind == GREATEST, k: pair(1), s: pair(3), p: pair(5), ne: node.source(0)?.ne };
        let of_window = |k: i64| (1..=i64::from(LARGEST)).contains(&k);
        node.require(pool.k.into_iter().all(of_window) && pool.p.iter().all(|&p| p >= 0), "its window")?;
        node.require(pool.ne[2..] == node.ne[2..], "source and result have other matrices")?;
        Ok(pool)
    }

    fn elements(&self) -> f64 {
        (self.k[0] * self.k[1]) as f64
    }

    /// Of each element of the result, the elements of the source that it is made of.
    fn windows(&self, node: &Invocation<'_>) -> impl Iterator<Item = Vec<usize>> {
        let [n0, n1] = [0, 1].map(|d| self.ne[d] as i64);
        indices(node.ne).map(move |[o0, o1, i2, i3]| {
            let within = |d: usize, o: usize, n: i64| {
                let first = o as i64 * self.s[d] - self.p[d];
                first.max(0)..(first + self.k[d]).min(n)
            };
            let matrix = (i3 * self.ne[2] as usize + i2) as i64;
            let row = |i1: i64| within(0, o0, n0).map(move |i0| ((matrix * n1 + i1) * n0 + i0) as usize);
            within(1, o1, n1).flat_map(row).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Ggml};
    use crate::ops::exact::{Data, Operand};

    fn pooled(params: &[i32], ne: [u64; 4]) -> Result<(Exact, Vec<f32>), OracleError> {
        // 1 2 3
        // 4 5 6
        let x = Data::Float(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let sources = [Some(Operand { ne: [3, 2, 1, 1], data: x })];
        let node = Invocation { op: "POOL_2D", variant: None, params, ne, sources: &sources };
        let ggml = Ggml::of("CPU : ").expect("a scalar build");
        let executed = Executed { ggml, primitives: &GGML_CPU, contiguous: &[] };
        Ok((Pool2d.exact(&node)?, Pool2d.ggml(&node, &executed)?))
    }

    #[test]
    fn the_greatest_of_each_window() {
        let (exact, ggml) = pooled(&[0, 2, 1, 2, 1, 1, 0], [2, 2, 1, 1]).unwrap();
        assert_eq!((exact.values, exact.additions), (vec![1.0, 3.0, 4.0, 6.0], 0.0));
        assert_eq!(ggml, [1.0, 3.0, 4.0, 6.0]);
        // a window that has nothing
        let (beyond, _) = pooled(&[0, 1, 1, 4, 1], [2, 1, 1, 1]).unwrap();
        assert_eq!(beyond.values, [1.0, f64::from(f32::MIN)]);
    }

    #[test]
    fn a_mean_is_of_the_whole_window() {
        let (exact, ggml) = pooled(&[1, 2, 2, 2, 2, 1, 1], [2, 2, 1, 1]).unwrap();
        // 1 / 4, (2 + 3) / 4, 4 / 4, (5 + 6) / 4
        assert_eq!(exact.values, [0.25, 1.25, 1.0, 2.75]);
        assert_eq!((exact.terms, exact.additions), (vec![0.25, 1.25, 1.0, 2.75], 5.0));
        assert_eq!(ggml, [0.25, 1.25, 1.0, 2.75]);
    }

    #[test]
    fn another_pooling_and_no_window_are_refused() {
        assert!(matches!(pooled(&[2, 1, 1, 1, 1], [3, 2, 1, 1]), Err(OracleError::Parameter { .. })));
        assert!(matches!(pooled(&[0, 0, 1, 1, 1], [3, 2, 1, 1]), Err(OracleError::Shape { .. })));
        assert!(matches!(pooled(&[0, 1, 1, 1, 1], [3, 2, 2, 1]), Err(OracleError::Shape { .. })));
    }
}
