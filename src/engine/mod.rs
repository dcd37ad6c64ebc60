//! Engines: they run a model over ubatches of tokens and hand every named tensor to a [`Tap`].

mod candidates;
mod conventions;
pub mod cpu;
mod error;
mod numerics;
mod tap;

pub use candidates::*;
pub use conventions::Conventions;
pub use error::EngineError;
pub use numerics::{ActivationMode, CpuKernel, Numerics, cpu_kernel};
pub use tap::{Emitter, NullTap, Tap, TapError};

use ndarray::Array2;

/// One evaluation of the graph: the tokens of one sequence that are run together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ubatch {
    /// Token ids.
    pub tokens: Vec<u32>,
    /// The position of each token; they continue the sequence without gaps.
    pub positions: Vec<i64>,
    /// Whether logits are wanted for each token.
    pub outputs: Vec<bool>,
}

/// Something that runs a model.
pub trait Engine {
    /// What the report calls it: `cpu f32`.
    fn name(&self) -> String;

    /// Runs one ubatch; returns the logits `[tokens with output, n_vocab]`.
    ///
    /// # Errors
    /// If a token or position is invalid (before any state changes), or the tap fails or replaces a tensor by one of
    /// another size. After these the state is half updated: the engine refuses every step until it is reset.
    fn step(&mut self, ubatch: &Ubatch, tap: &mut dyn Tap) -> Result<Array2<f32>, EngineError>;

    /// Forgets the sequence: recurrent, convolution and KV state. Steps are counted from 0 again.
    fn reset(&mut self);
}
