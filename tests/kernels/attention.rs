//! kernels/attention.cu.

use lockstep::engine::gpu::launch::{self, AttnShape};
use lockstep::ops::{Number as _, Tracked, dot, soft_max_row};

use crate::cells::{Cache, CellType};
use crate::support::{assert_rounded, assert_same_bits, given, in_every_order, values};

/// Cells behind those that are looked at.
const BEYOND: usize = 2;

struct Case {
    shape: AttnShape,
    cell: CellType,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    mask: Vec<u8>,
    scale: f32,
}

impl Case {
    fn new(shape: AttnShape, cell: CellType) -> Case {
        let AttnShape { n_tokens, n_head_kv, head_dim, n_kv, .. } = shape;
        let cache = |seed| {
            let values = values((n_kv + BEYOND) * n_head_kv * head_dim, seed);
            values.into_iter().map(|x| cell.rounded(x)).collect::<Vec<_>>()
        };
        // Holes: token t sees every cell but some, and always its own.
        let mask = (0..n_tokens * n_kv).map(|i| {
            let (t, c) = (i / n_kv, i % n_kv);
            u8::from(c == t % n_kv || (c * 7 + t) % 3 != 0)
        });
        Case {
            shape,
            cell,
            q: values(shape.n_values(), 1),
            k: cache(2),
            v: cache(3),
            mask: mask.collect(),
            scale: 1.7,
        }
    }

    fn kv_head(&self, h: usize) -> usize {
        h / (self.shape.n_head / self.shape.n_head_kv)
    }

    fn head_row<'a>(&self, cache: &'a [Tracked], cell: usize, h: usize) -> &'a [Tracked] {
        let head_dim = self.shape.head_dim;
        &cache[(cell * self.shape.n_head_kv + self.kv_head(h)) * head_dim..][..head_dim]
    }

    /// Scores, probabilities and what is read.
    fn exact(&self) -> [Vec<Tracked>; 3] {
        let AttnShape { n_tokens, n_head, head_dim, n_kv, .. } = self.shape;
        let (q, k, v) = (given(&self.q), given(&self.k), given(&self.v));
        let (mut scores, mut probabilities, mut read) = (vec![], vec![], vec![]);
        for (h, t) in (0..n_head).flat_map(|h| (0..n_tokens).map(move |t| (h, t))) {
            let query = &q[(t * n_head + h) * head_dim..][..head_dim];
            let mut row: Vec<Tracked> = (0..n_kv).map(|c| dot(query, self.head_row(&k, c, h))).collect();
            scores.extend(&row);
            let visible = |c: usize| self.mask[t * n_kv + c] != 0;
            soft_max_row(&mut row, Tracked::from_f32(self.scale), visible);
            probabilities.extend(&row);
            let mut sums = vec![Tracked::ZERO; head_dim];
            for c in (0..n_kv).filter(|&c| visible(c)) {
                sums.iter_mut().zip(self.head_row(&v, c, h)).for_each(|(sum, &v)| *sum += row[c] * v);
            }
            read.extend(sums);
        }
        [scores, probabilities, read]
    }
}

#[test]
fn scores_probabilities_and_what_is_read() {
    in_every_order(|device| {
        let shapes =
            [(1, 1, 1, 8, 1), (3, 4, 2, 33, 31), (2, 6, 1, 64, 33), (1, 2, 2, 128, 5), (1, 1, 1, 4, 300)];
        for (n_tokens, n_head, n_head_kv, head_dim, n_kv) in shapes {
            for cell in CellType::ALL {
                let shape = AttnShape { n_tokens, n_head, n_head_kv, head_dim, n_kv };
                let case = Case::new(shape, cell);
                let what = format!("{:?} {:?}", case.cell, case.shape);
                let [exact_kq, exact_p, exact_kqv] = case.exact();
                let q = device.upload(&case.q).unwrap();
                let [k, v] = [&case.k, &case.v].map(|values| Cache::upload(device, cell, values));
                let mask = device.upload(&case.mask).unwrap();
                let mut kq = device.alloc(shape.n_scores()).unwrap();
                launch::kq(device, kq.all_mut(), q.all(), k.cells(), &shape).unwrap();
                assert_rounded(&format!("kq {what}"), &device.read(kq.all()).unwrap(), &exact_kq);
                launch::soft_max(device, kq.all_mut(), mask.all(), case.scale, &shape).unwrap();
                assert_rounded(&format!("soft_max {what}"), &device.read(kq.all()).unwrap(), &exact_p);
                let mut kqv = device.alloc(shape.n_values()).unwrap();
                launch::kqv(device, kqv.all_mut(), kq.all(), v.cells(), mask.all(), &shape).unwrap();
                assert_rounded(&format!("kqv {what}"), &device.read(kqv.all()).unwrap(), &exact_kqv);
            }
        }
    });
}

#[test]
fn nothing_visible_is_not_a_number() {
    in_every_order(|device| {
        let shape = AttnShape { n_tokens: 1, n_head: 1, n_head_kv: 1, head_dim: 4, n_kv: 33 };
        let mut kq = device.upload(&values(33, 1)).unwrap();
        let mask = device.zeros::<u8>(33).unwrap();
        launch::soft_max(device, kq.all_mut(), mask.all(), 1.0, &shape).unwrap();
        assert!(device.read(kq.all()).unwrap().iter().all(|p| p.is_nan()));
    });
}

#[test]
fn values_are_rounded_to_what_a_cell_holds() {
    in_every_order(|device| {
        for cell in CellType::ALL {
            for n in [1, 33, 1025] {
                let mut x = values(n, 1);
                // In the middle between two values of bf16, and of f16.
                x.iter_mut()
                    .zip([1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, 1.0 + 1.0 / 2048.0])
                    .for_each(|(x, tie)| *x = tie);
                let like = Cache::upload(device, cell, &[0.0]);
                let mut rounded = device.upload(&x).unwrap();
                launch::round_like(device, rounded.all_mut(), like.cells()).unwrap();
                let expected: Vec<f32> = x.iter().map(|&x| cell.rounded(x)).collect();
                assert_same_bits(
                    &format!("round to {cell:?} {n}"),
                    &device.read(rounded.all()).unwrap(),
                    &expected,
                );
            }
        }
    });
}
