//! LIGHTNING_INDEXER: how much a token should look at a key, `y_j = sum_h w_h max(0, q_h.k_j) + m_j`.
//!
//! ```text
//! q {d, n_head, n_tokens, n_seq}   k {d, 1, n_kv, n_seq}   w {n_head, n_tokens, 1, n_seq}   y {n_kv, n_tokens, 1, n_seq}
//! m, the mask {n_kv, n_tokens, 1, divides n_seq}: sequence s reads s modulo that
//! terms = sum_h |w_h| T_h + |m_j|,  T_h = sum_i |q_hi k_ji|, or 0 if q_h.k_j <= -2 d u T_h;  d + n_head + 1 additions
//! ```
//! A product that is certainly negative adds nothing, and so no error: however the d products of T_h are rounded and added, the
//! sum is off by less than `2 d u T_h`. Otherwise max(0, ..) changes by no more than what it is taken of. A masked key is -inf
//! exactly. A key of fewer digits is decoded and the product is one of f32 (`ggml_compute_forward_lightning_indexer`, ops.cpp):
//! nothing is rounded on purpose.

use std::borrow::Cow;

use rayon::prelude::*;

use super::attention::values;
use super::{Exact, Executed, Invocation, Oracle, OracleError, U};
use crate::arithmetic::{Activation, Factor, Kernel};
use crate::tensor::GgmlType;

pub(super) struct LightningIndexer;

impl Oracle for LightningIndexer {
    fn ops(&self) -> &'static [&'static str] {
        &["LIGHTNING_INDEXER"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let indexer = Indexer::of(node)?;
        let elements: Vec<(f64, f64)> =
            (0..node.elements()).into_par_iter().map(|at| indexer.element(at)).collect();
        Ok(Exact::collect((indexer.d + indexer.n_head + 1) as f64, elements.into_iter()))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let indexer = Indexer::of(node)?;
        let (isa, dot) = (executed.ggml.isa, executed.primitives.dot);
        let element = |at: usize| {
            let Pair { k, heads, mask } = indexer.pair(at);
            let k = Factor::Floats(GgmlType::F32, k.to_vec());
            let mut score = 0.0;
            for (q, w) in heads {
                let product = dot(Kernel::VecDot, isa, &k, &Activation::Floats(q.to_vec()));
                let product = product.ok_or_else(|| node.arithmetic("a product of f32"))?;
                score = isa.madd(if product > 0.0 { product } else { 0.0 }, w, score);
            }
            Ok(score + mask)
        };
        (0..node.elements()).into_par_iter().map(element).collect()
    }
}

/// The sources of a node, which fit each other.
struct Indexer<'a> {
    /// `[n_seq, n_tokens, n_head, d]`
    q: Cow<'a, [f32]>,
    /// `[n_seq, n_kv, d]`
    k: Cow<'a, [f32]>,
    /// `[n_seq, n_tokens, n_head]`
    w: Cow<'a, [f32]>,
    /// `[n_masks, n_tokens, n_kv]`
    mask: Cow<'a, [f32]>,
    d: usize,
    n_head: usize,
    n_tokens: usize,
    n_kv: usize,
    n_masks: usize,
}

/// A token and a key.
struct Pair<'a, H> {
    k: &'a [f32],
    /// Of each head, its query and its weight.
    heads: H,
    mask: f32,
}

impl<'a> Indexer<'a> {
    fn of(node: &Invocation<'a>) -> Result<Indexer<'a>, OracleError> {
        let ([d, n_head, n_tokens, n_seq], q) = values(node, 0)?;
        let (k_ne, k) = values(node, 1)?;
        let (w_ne, w) = values(node, 2)?;
        let ([n_kv, _, _, n_masks], mask) = values(node, 3)?;
        let fits = d > 0
            && n_head > 0
            && k_ne == [d, 1, n_kv, n_seq]
            && w_ne == [n_head, n_tokens, 1, n_seq]
            && node.source(3)?.ne[1..3] == [n_tokens as u64, 1]
            && n_masks > 0
            && n_seq.is_multiple_of(n_masks)
            && node.ne == [n_kv, n_tokens, 1, n_seq].map(|n| n as u64);
        node.require(fits, "queries, keys, weights, the mask and the result do not fit")?;
        Ok(Indexer { q, k, w, mask, d, n_head, n_tokens, n_kv, n_masks })
    }

    /// What element `at` of the result is made of.
    fn pair(&self, at: usize) -> Pair<'_, impl Iterator<Item = (&[f32], f32)>> {
        let &Indexer { d, n_head, n_tokens, n_kv, n_masks, .. } = self;
        let (key, token) = (at % n_kv, at / n_kv); // of all sequences
        let (t, s) = (token % n_tokens, token / n_tokens);
        let queries = self.q[token * n_head * d..][..n_head * d].chunks_exact(d);
        Pair {
            k: &self.k[(s * n_kv + key) * d..][..d],
            heads: queries.zip(self.w[token * n_head..][..n_head].iter().copied()),
            mask: self.mask[((s % n_masks) * n_tokens + t) * n_kv + key],
        }
    }

    /// The value and the terms of element `at`.
    fn element(&self, at: usize) -> (f64, f64) {
        let Pair { k, heads, mask } = self.pair(at);
        let mask = f64::from(mask);
        if mask == f64::NEG_INFINITY {
            return (mask, 0.0);
        }
        let off = 2.0 * self.d as f64 * U;
        heads.fold((mask, mask.abs()), |(score, terms), (q, w)| {
            let (product, of_product) = q.iter().zip(k).fold((0.0, 0.0), |(sum, terms), (&q, &k)| {
                let term = f64::from(q) * f64::from(k);
                (sum + term, terms + term.abs())
            });
            if product <= -off * of_product {
                return (score, terms);
            }
            (score + f64::from(w) * product.max(0.0), terms + f64::from(w).abs() * of_product)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Ggml};
    use crate::ops::exact::{Data, Operand};

    fn float(ne: [u64; 4], values: &[f32]) -> Option<Operand<'static>> {
        Some(Operand { ne, data: Data::Float(values.to_vec()) })
    }

    /// Two heads, one token, two keys, of which the second is masked in the second sequence.
    fn sources() -> [Option<Operand<'static>>; 4] {
        [
            float([2, 2, 1, 2], &[1.0, 2.0, 3.0, -1.0, 1.0, 0.0, 0.0, 1.0]),
            float([2, 1, 2, 2], &[2.0, 1.0, 1.0, -1.0, 1.0, 1.0, 5.0, 5.0]),
            float([2, 1, 1, 2], &[0.5, -2.0, 1.0, 1.0]),
            float([2, 1, 1, 2], &[0.0, -0.5, 0.0, f32::NEG_INFINITY]),
        ]
    }

    fn node<'a>(sources: &'a [Option<Operand<'a>>]) -> Invocation<'a> {
        Invocation { op: "LIGHTNING_INDEXER", variant: None, params: &[], ne: [2, 1, 1, 2], sources }
    }

    #[test]
    fn negative_products_do_not_count() {
        let sources = sources();
        let exact = LightningIndexer.exact(&node(&sources)).unwrap();
        // 0.5 (2 + 2) - 2 (6 - 1); of the second key 1 - 2 is negative, -2 (3 + 1) - 0.5
        assert_eq!(exact.values, [2.0 - 10.0, -8.5, 2.0, f64::NEG_INFINITY]);
        assert_eq!((exact.terms, exact.additions), (vec![2.0 + 14.0, 8.5, 2.0, 0.0], 5.0));
        let executed = Executed { ggml: Ggml::of("CPU : ").unwrap(), primitives: &GGML_CPU, contiguous: &[] };
        let ggml = LightningIndexer.ggml(&node(&sources), &executed).unwrap();
        assert_eq!(ggml, [-8.0, -8.5, 2.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn a_product_that_may_be_positive_counts() {
        let mut sources = sources();
        sources[0] = float([2, 2, 1, 2], &[1.0, -2.0, 1.0, -3.0, 0.0, 0.0, 0.0, 0.0]);
        // 2 - 2 = 0 in the first head, and 2 - 3 in the second
        assert_eq!(LightningIndexer.exact(&node(&sources)).unwrap().terms[0], 0.5 * 4.0);
    }

    #[test]
    fn a_mask_may_serve_all_sequences() {
        let mut sources = sources();
        sources[3] = float([2, 1, 1, 1], &[1.0, 0.0]);
        assert_eq!(LightningIndexer.exact(&node(&sources)).unwrap().values, [-7.0, -8.0, 3.0, 10.0]);
        for (index, wrong) in [(0, [2, 1, 2, 2]), (1, [2, 2, 1, 2]), (2, [1, 2, 1, 2]), (3, [2, 1, 2, 1])] {
            let mut sources = sources.clone();
            sources[index] = float(wrong, &vec![0.0; wrong.iter().product::<u64>() as usize]);
            let error = LightningIndexer.exact(&node(&sources)).unwrap_err();
            assert!(matches!(error, OracleError::Shape { .. }));
        }
        assert!(LightningIndexer.exact(&node(&sources[..3])).is_err());
    }
}
