//! What goes into the routes that are graphs of plain operators, and who sees their inner tensors.

use std::convert::Infallible;

use ndarray::{Array4, ArrayView3, ArrayView4};

use crate::arithmetic::Product;
use crate::ops::Number;

/// One step of several sequences with equally many tokens.
#[derive(Clone, Copy)]
pub struct DeltaInputs<'a, T> {
    /// Normalised, repeated to the heads of v: `[n_seqs, n_tokens, n_v, d]`.
    pub q: ArrayView4<'a, T>,
    /// As q.
    pub k: ArrayView4<'a, T>,
    /// `[n_seqs, n_tokens, n_v, d]`
    pub v: ArrayView4<'a, T>,
    /// Logarithm of the decay, `[n_seqs, n_tokens, n_v]`, at most 0.
    pub log_decay: ArrayView3<'a, T>,
    /// How much of the difference is written, `[n_seqs, n_tokens, n_v]`.
    pub beta: ArrayView3<'a, T>,
}

impl<T: Number> DeltaInputs<'_, T> {
    /// `(n_seqs, n_tokens, n_v, d)`, which fit each other and the state.
    pub(super) fn dim(&self, state: &Array4<T>) -> (usize, usize, usize, usize) {
        let dim @ (n_seqs, n_tokens, n_v, d) = self.v.dim();
        assert!(self.q.dim() == dim && self.k.dim() == dim, "q, k and v");
        let gates = (n_seqs, n_tokens, n_v);
        assert!(self.log_decay.dim() == gates && self.beta.dim() == gates, "gates");
        assert!(state.dim() == (n_seqs, n_v, d, d) && n_tokens > 0, "state");
        dim
    }
}

/// Receives every tensor that llama.cpp names in such a graph, under that name and with its extents (dimension 0 last), in the
/// order in which llama.cpp evaluates them.
///
/// Not among them are the inputs, which the caller has, and the results, which llama.cpp names outside of these graphs.
pub trait DeltaSteps<T> {
    /// What it can fail with.
    type Error;

    /// Takes a tensor that was computed, or that shows one without a name; hands it back, or what takes its place.
    ///
    /// # Errors
    /// Any error ends the computation.
    fn step(&mut self, name: &'static str, values: Array4<T>) -> Result<Array4<T>, Self::Error>;

    /// How ggml-cpu forms the elements of a product with so many rows of the first factor and columns of the second, whose second
    /// factor lies in memory without gaps or not.
    fn product(&self, _rows: usize, _columns: usize, _contiguous: bool) -> Product {
        Product::default()
    }

    /// Takes a view of a tensor that has a name of its own, and so has been seen.
    ///
    /// # Errors
    /// Any error ends the computation.
    fn view(&mut self, name: &'static str, values: ArrayView4<'_, T>) -> Result<(), Self::Error>;
}

/// Nobody looks.
pub struct NoSteps;

impl<T> DeltaSteps<T> for NoSteps {
    type Error = Infallible;

    fn step(&mut self, _: &'static str, values: Array4<T>) -> Result<Array4<T>, Infallible> {
        Ok(values)
    }

    fn view(&mut self, _: &'static str, _: ArrayView4<'_, T>) -> Result<(), Infallible> {
        Ok(())
    }
}
