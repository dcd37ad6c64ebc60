//! Attention in one pass: inputs and what comes out exactly.

use lockstep::engine::gpu::launch::FlashShape;
use lockstep::ops::{Number as _, Tracked, dot, soft_max_row};

use crate::cells::CellType;
use crate::support::{given, values};

/// Sequences with their own cells in one cache, some before and behind them.
pub(crate) struct Case {
    pub(crate) shape: FlashShape,
    pub(crate) cell: CellType,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
    /// What token t of sequence s sees, oldest first: cells.
    pub(crate) seen: Vec<Vec<usize>>, // [n_seqs n_tokens]
}

impl Case {
    pub(crate) fn new(shape: FlashShape, cell: CellType, n_cells: usize, seen: Vec<Vec<usize>>) -> Case {
        assert_eq!(seen.len(), shape.n_seqs * shape.n_tokens);
        let cache = |seed| {
            let values = values(n_cells * shape.n_head_kv * shape.head_dim, seed);
            values.into_iter().map(|x| cell.rounded(x)).collect::<Vec<_>>()
        };
        Case { shape, cell, q: values(shape.n_values(), 1), k: cache(2), v: cache(3), seen }
    }

    pub(crate) fn what(&self, kernel: &str) -> String {
        format!("{kernel}: {:?} {:?}", self.cell, self.shape)
    }

    pub(crate) fn exact(&self) -> Vec<Tracked> {
        let FlashShape { n_head, n_head_kv, head_dim, scale, .. } = self.shape;
        let (q, k, v) = (given(&self.q), given(&self.k), given(&self.v));
        let mut y = Vec::new();
        for (t, seen) in self.seen.iter().enumerate() {
            for h in 0..n_head {
                let row = |cell: usize| (cell * n_head_kv + h / (n_head / n_head_kv)) * head_dim;
                let query = &q[(t * n_head + h) * head_dim..][..head_dim];
                let mut p: Vec<Tracked> =
                    seen.iter().map(|&cell| dot(query, &k[row(cell)..][..head_dim])).collect();
                soft_max_row(&mut p, Tracked::from_f32(scale), |_| true);
                let mut sums = vec![Tracked::ZERO; head_dim];
                for (&p, &cell) in p.iter().zip(seen) {
                    sums.iter_mut().zip(&v[row(cell)..]).for_each(|(sum, &v)| *sum += p * v);
                }
                y.extend(sums);
            }
        }
        y
    }
}

/// Ids of `n` cells of `n_cells`, in no order; `n_cells` is a prime.
pub(crate) fn scattered(n: usize, n_cells: usize, from: usize) -> Vec<usize> {
    (0..n).map(|j| (from + 7 * j) % n_cells).collect()
}

pub(crate) fn as_i32(ids: &[usize]) -> Vec<i32> {
    ids.iter().map(|&id| id as i32).collect()
}
