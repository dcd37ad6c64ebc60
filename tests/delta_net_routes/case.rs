//! Inputs of a delta net, and its exact result.

use lockstep::compare::budget;
use lockstep::ops::exact::{Data, Exact, Invocation, Operand, oracle};
use lockstep::ops::{DeltaInputs, DeltaSteps, NoSteps, Number, delta_net_chunked};
use ndarray::{Array, Array3, Array4, Dimension, Zip};

use super::tracked::Tracked;

/// Everything that a delta net takes, in f32.
pub(crate) struct Case {
    pub(crate) q: Array4<f32>,         // [n_seqs, n_tokens, n_v, d]
    pub(crate) k: Array4<f32>,         // as q
    pub(crate) v: Array4<f32>,         // as q
    pub(crate) log_decay: Array3<f32>, // [n_seqs, n_tokens, n_v]
    pub(crate) beta: Array3<f32>,      // [n_seqs, n_tokens, n_v]
    pub(crate) state: Array4<f32>,     // [n_seqs, n_v, d, d]
}

/// Outputs and the state behind.
pub(crate) type Outcome<T> = (Array4<T>, Array4<T>);

/// The same values in another arithmetic.
pub(crate) fn cast<T: Number, D: Dimension>(x: &Array<f32, D>) -> Array<T, D> {
    x.mapv(T::from_f32)
}

impl Case {
    /// Runs a route that takes all of it; `scale` as ggml computes it, rounded.
    pub(crate) fn run<T: Number, E>(
        &self,
        route: impl FnOnce(&DeltaInputs<'_, T>, Array4<T>, T) -> Result<Outcome<T>, E>,
    ) -> Result<Outcome<T>, E> {
        let [q, k, v] = [&self.q, &self.k, &self.v].map(cast::<T, _>);
        let [log_decay, beta] = [&self.log_decay, &self.beta].map(cast::<T, _>);
        let inputs = DeltaInputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            log_decay: log_decay.view(),
            beta: beta.view(),
        };
        let scale = T::ONE / T::from_f64(self.q.dim().3 as f64).sqrt();
        route(&inputs, cast(&self.state), scale)
    }

    /// The chunked route, seen by nobody.
    pub(crate) fn chunked<T: Number>(&self) -> Outcome<T> {
        let route =
            |inputs: &DeltaInputs<'_, T>, state, scale| delta_net_chunked(inputs, state, scale, &mut NoSteps);
        self.run(route).unwrap()
    }

    /// The same with its bound.
    pub(crate) fn bounded<const BITS: i32>(&self) -> Outcome<Tracked<BITS>> {
        let route = |inputs: &DeltaInputs<'_, Tracked<BITS>>, state, scale| {
            delta_net_chunked(inputs, state, scale, &mut Solving::default())
        };
        self.run(route).unwrap()
    }

    /// What the operator gives in exact arithmetic, with the terms of each value: outputs and state, in this order.
    pub(crate) fn exact(&self) -> Exact {
        let (n_seqs, n_tokens, n_v, d) = self.q.dim();
        let ne = |shape: [usize; 4]| shape.map(|n| n as u64);
        let operand = |ne, values: Vec<f32>| Some(Operand { ne, data: Data::Float(values) });
        let heads = |x: &Array4<f32>| operand(ne([d, n_v, n_tokens, n_seqs]), x.iter().copied().collect());
        let gates = |x: &Array3<f32>| operand(ne([1, n_v, n_tokens, n_seqs]), x.iter().copied().collect());
        let state = operand(ne([d, d, n_v, n_seqs]), self.state.iter().copied().collect());
        let sources = [
            heads(&self.q),
            heads(&self.k),
            heads(&self.v),
            gates(&self.log_decay),
            gates(&self.beta),
            state,
        ];
        let node = Invocation {
            op: "GATED_DELTA_NET",
            variant: None,
            params: &[1],
            ne: ne([d * n_v, n_tokens * n_seqs + d * n_seqs, 1, 1]),
            sources: &sources,
        };
        oracle(&node).unwrap().exact(&node).unwrap()
    }
}

/// All values of an outcome in the oracle's order.
pub(crate) fn flat<T: Number>((o, state): &Outcome<T>) -> Vec<f64> {
    o.iter().chain(state).map(|x| x.to_f64()).collect()
}

/// What the oracle allows the operator in arithmetic of `BITS` bits: the budget, which is made for f32, in its units.
pub(crate) fn allowed<const BITS: i32>(exact: &Exact) -> Vec<f64> {
    exact.terms.iter().map(|&terms| budget(terms, exact.additions) * 2f64.powi(24 - BITS)).collect()
}

/// Bounds the solution of the triangular system. Followed row by row, errors would seem to grow with every row; but what row i of
/// `L X = B` leaves over is only its own rounding, and so the error of X is that of all rows, as far as the inverse carries it:
/// `|L^-1| (error(B) + error(L) |X| + gamma(n) (|B| + |L| |X|))` (Higham, section 8.1; `ops/exact/solve_tri.rs`). Here L^-1 is
/// `X + 1`, the tensor itself. To first order; the second is as much smaller as the bound is than 1.
#[derive(Default)]
pub(crate) struct Solving<const BITS: i32> {
    lhs: Option<Array4<Tracked<BITS>>>,
    rhs: Option<Array4<Tracked<BITS>>>,
}

impl<const BITS: i32> Solving<BITS> {
    pub(crate) fn bound(&mut self, name: &str, values: Array4<Tracked<BITS>>) -> Array4<Tracked<BITS>> {
        match name {
            "dnet_add_ch_lhs" => self.lhs = Some(values.clone()),
            "attn_pre_solve" => self.rhs = Some(values.clone()),
            "dnet_add_ch_attn_solved" => {
                let (lhs, rhs) = (self.lhs.take().unwrap(), self.rhs.take().unwrap());
                return solved(&lhs, &rhs, &values);
            }
            _ => {}
        }
        values
    }
}

fn solved<const BITS: i32>(
    lhs: &Array4<Tracked<BITS>>,
    rhs: &Array4<Tracked<BITS>>,
    inverse: &Array4<Tracked<BITS>>,
) -> Array4<Tracked<BITS>> {
    let n = inverse.dim().3;
    let mut bounded = inverse.clone();
    let stacks = lhs.outer_iter().zip(rhs.outer_iter()).zip(inverse.outer_iter());
    for (mut out, ((lhs, rhs), inverse)) in bounded.outer_iter_mut().zip(stacks) {
        for c in 0..lhs.dim().0 {
            let at = |c| ndarray::s![c, .., ..];
            let (lhs, rhs, inverse) = (lhs.slice(at(c)), rhs.slice(at(c)), inverse.slice(at(c)));
            let x = Array::from_shape_fn((n, n), |(i, j)| {
                (inverse[[i, j]].value - if i == j { 1.0 } else { 0.0 }).abs()
            });
            let (size, error) = (lhs.mapv(|l| l.value.abs()), lhs.mapv(Tracked::error));
            let gamma = Tracked::<BITS>::gamma(n as f64 + 1.0);
            let mut left = error.dot(&x) + size.dot(&x) * gamma;
            Zip::from(&mut left).and(&rhs).for_each(|left, b| *left += b.error() + gamma * b.value.abs());
            let errors = inverse.mapv(|a| a.value.abs()).dot(&left);
            let bounded = |a: &Tracked<BITS>, &error: &f64| {
                Tracked::within(a.value, error)
                    + Tracked::within(0.0, Tracked::<BITS>::gamma(1.0) * a.value.abs())
            };
            out.slice_mut(at(c)).assign(&Zip::from(&inverse).and(&errors).map_collect(bounded));
        }
    }
    bounded
}

impl<const BITS: i32> DeltaSteps<Tracked<BITS>> for Solving<BITS> {
    type Error = std::convert::Infallible;

    fn step(
        &mut self,
        name: &'static str,
        values: Array4<Tracked<BITS>>,
    ) -> Result<Array4<Tracked<BITS>>, Self::Error> {
        Ok(self.bound(name, values))
    }

    fn view(
        &mut self,
        _: &'static str,
        _: ndarray::ArrayView4<'_, Tracked<BITS>>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}
