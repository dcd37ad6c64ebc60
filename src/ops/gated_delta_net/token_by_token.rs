//! GATED_DELTA_NET, token by token.
//!
//! ```text
//! per v head h, with k head kh(h), state S [d_v, d_k]:
//!   S <- exp(g) S
//!   d  = (v - S k) beta                 [d_v]
//!   S <- S + d k^T
//!   o  = scale S q                      [d_v]
//! q, k  [n_tokens, n_k, d_k];  v  [n_tokens, n_v, d_v];  g, beta  [n_tokens, n_v];  o  [n_tokens, n_v, d_v]
//! ```
//! The state is stored v-major, k contiguous, as ggml stores it ("transposed", S^T in the literature). Dot products
//! accumulate in the arithmetic's own type. The order is that of the CPU kernel, which decays the whole state first
//! (`ggml_compute_forward_gated_delta_net_one_chunk`, ops.cpp).

use ndarray::{Array3, ArrayView2, ArrayView3, ArrayViewMut3, Axis};
use rayon::prelude::*;

use crate::ops::{Number, dot};

/// What is written into the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeltaRule {
    /// `v - S k`: what the state already predicts for k is taken off first.
    Delta,
    /// `v`: linear attention.
    Linear,
}

/// When the state decays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecayOrder {
    /// Before the state predicts v (ggml).
    BeforePrediction,
    /// After the new term is added.
    AfterUpdate,
}

/// The two gates of the recurrence, per token and v head.
#[derive(Clone, Copy)]
pub struct DeltaGates<'a, T> {
    /// Logarithm of the decay, `[n_tokens, n_v]`, at most 0.
    pub log_decay: ArrayView2<'a, T>,
    /// How much of the difference is written, `[n_tokens, n_v]`.
    pub beta: ArrayView2<'a, T>,
}

/// Runs the recurrence over all tokens, updating `state` `[n_v, d_v, d_k]`; returns `o`.
///
/// `k_head` maps a v head to its k head.
///
/// # Panics
/// If the shapes do not belong together.
#[allow(clippy::too_many_arguments)] // the operator has six tensors
pub fn gated_delta_net<T: Number>(
    q: ArrayView3<'_, T>,
    k: ArrayView3<'_, T>,
    v: ArrayView3<'_, T>,
    gates: DeltaGates<'_, T>,
    mut state: ArrayViewMut3<'_, T>,
    k_head: impl Fn(usize) -> usize + Sync,
    scale: T,
    (rule, order): (DeltaRule, DecayOrder),
) -> Array3<T> {
    let (n_tokens, n_v, d_v) = v.dim();
    assert!(q.dim() == k.dim() && q.dim().0 == n_tokens, "q and k");
    assert!(state.dim() == (n_v, d_v, q.dim().2), "state");
    let (q, k) = (q.as_standard_layout(), k.as_standard_layout());
    let mut o = Array3::from_elem((n_tokens, n_v, d_v), T::ZERO);
    let heads: Vec<_> = state.axis_iter_mut(Axis(0)).zip(o.axis_iter_mut(Axis(1))).collect();
    heads.into_par_iter().enumerate().for_each(|(h, (mut state, mut o))| {
        for t in 0..n_tokens {
            let q = q.slice(ndarray::s![t, k_head(h), ..]).to_slice().expect("standard layout");
            let k = k.slice(ndarray::s![t, k_head(h), ..]).to_slice().expect("standard layout");
            let (decay, beta) = (gates.log_decay[[t, h]].exp(), gates.beta[[t, h]]);
            for (j, row) in state.outer_iter_mut().enumerate() {
                let row = row.into_slice().expect("a state is packed");
                if order == DecayOrder::BeforePrediction {
                    row.iter_mut().for_each(|s| *s = *s * decay);
                }
                let predicted = match rule {
                    DeltaRule::Delta => dot(row, k),
                    DeltaRule::Linear => T::ZERO,
                };
                let delta = (v[[t, h, j]] - predicted) * beta;
                T::mad(row, k, delta);
                if order == DecayOrder::AfterUpdate {
                    row.iter_mut().for_each(|s| *s = *s * decay);
                }
                o[[t, j]] = dot(row, q) * scale;
            }
        }
    });
    o
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    /// One head, d_k = 2, d_v = 1, two tokens with the same key.
    fn run(rule: DeltaRule, order: DecayOrder) -> (Array3<f64>, Array3<f64>) {
        let q = array![[[1.0, 0.0]], [[1.0, 0.0]]];
        let k = array![[[1.0, 0.0]], [[1.0, 0.0]]];
        let v = array![[[8.0]], [[8.0]]];
        let log_decay = array![[0.0], [0.5f64.ln()]];
        let beta = array![[0.5], [0.5]];
        let mut state = Array3::zeros((1, 1, 2));
        let gates = DeltaGates { log_decay: log_decay.view(), beta: beta.view() };
        let o =
            gated_delta_net(q.view(), k.view(), v.view(), gates, state.view_mut(), |h| h, 1.0, (rule, order));
        (o, state)
    }

    #[test]
    fn a_repeated_key_overwrites() {
        // S = 0.5 * 8 = 4;  then 0.5 * 4 = 2, and 2 + (8 - 2) * 0.5 = 5
        let (o, state) = run(DeltaRule::Delta, DecayOrder::BeforePrediction);
        assert_eq!((o, state), (array![[[4.0]], [[5.0]]], array![[[5.0, 0.0]]]));
    }

    #[test]
    fn the_other_rules_differ() {
        // linear: 4, then 2 + 4 = 6;  decay last: 4, then (4 + (8 - 4) * 0.5) * 0.5 = 3
        assert_eq!(run(DeltaRule::Linear, DecayOrder::BeforePrediction).0[[1, 0, 0]], 6.0);
        assert_eq!(run(DeltaRule::Delta, DecayOrder::AfterUpdate).0[[1, 0, 0]], 3.0);
    }

    #[test]
    fn splitting_the_tokens_changes_nothing() {
        let q = Array3::from_shape_fn((3, 1, 4), |(t, _, i)| (t * 4 + i) as f64 / 10.0);
        let v = Array3::from_shape_fn((3, 2, 3), |(t, h, i)| (t + h + i) as f64);
        let (g, b) = (ndarray::Array2::from_elem((3, 2), -0.1), ndarray::Array2::from_elem((3, 2), 0.7));
        let step = |range: std::ops::Range<usize>, state: &mut Array3<f64>| {
            let s = ndarray::s![range.clone(), .., ..];
            let gates = DeltaGates {
                log_decay: g.slice(ndarray::s![range.clone(), ..]),
                beta: b.slice(ndarray::s![range.clone(), ..]),
            };
            let rules = (DeltaRule::Delta, DecayOrder::BeforePrediction);
            gated_delta_net(q.slice(s), q.slice(s), v.slice(s), gates, state.view_mut(), |_| 0, 0.5, rules)
        };
        let (mut whole, mut parts) = (Array3::zeros((2, 3, 4)), Array3::zeros((2, 3, 4)));
        let at_once = step(0..3, &mut whole);
        step(0..1, &mut parts);
        let last = step(1..3, &mut parts);
        assert_eq!(whole, parts);
        assert_eq!(at_once.slice(ndarray::s![1..3, .., ..]), last);
    }
}
