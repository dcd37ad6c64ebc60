//! Engines: they run a model over ubatches of tokens and hand every named tensor to a [`Tap`].

mod candidates;
mod cells;
mod conventions;
pub mod cpu;
mod dialect;
mod error;
mod fault;
pub mod gpu;
mod memory;
mod numerics;
mod route;
mod sequences;
mod snapshot;
mod tap;

pub use candidates::*;
pub use conventions::Conventions;
pub use dialect::{ByTokens, Dialect, OutputRows};
pub use error::EngineError;
pub use fault::StateFault;
pub use memory::{Memory, StateChange};
pub use numerics::{ActivationMode, ActivationRounding, CpuKernel, DeltaNetRoute, Numerics, cpu_kernel};
pub use snapshot::{LayerSnapshot, SequenceSnapshot, Snapshot};
pub use tap::{Emitter, NullTap, Tap, TapError};

use ndarray::Array2;

/// One evaluation of the graph: tokens that are run together.
///
/// Tokens of one sequence stand together, in the order of their positions, and every sequence has as many: what llama.cpp's
/// `split_equal` makes of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ubatch {
    /// Token ids.
    pub tokens: Vec<u32>,
    /// The position of each token in its sequence; they continue the sequence without gaps.
    pub positions: Vec<i64>,
    /// The sequence of each token.
    pub sequences: Vec<i32>,
    /// Whether logits are wanted for each token.
    pub outputs: Vec<bool>,
}

/// Something that runs a model.
pub trait Engine {
    /// What the report calls it: `cpu f32`.
    fn name(&self) -> String;

    /// What else a report says of it, a line each: the device that it runs on.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Runs one ubatch; returns the logits `[tokens with output, n_vocab]`.
    ///
    /// # Errors
    /// If a token, position or sequence is invalid (before any state changes), or the tap fails or replaces a tensor by one of
    /// another size. After these the state is half updated: the engine refuses every step until it is reset or restored.
    fn step(&mut self, ubatch: &Ubatch, tap: &mut dyn Tap) -> Result<Array2<f32>, EngineError>;

    /// Changes what the sequences hold, between two steps.
    ///
    /// # Errors
    /// If the change cannot be made; then nothing has changed.
    fn change(&mut self, change: StateChange) -> Result<(), EngineError>;

    /// What all sequences hold, as a value.
    ///
    /// # Errors
    /// If the last step failed halfway.
    fn snapshot(&self) -> Result<Snapshot, EngineError>;

    /// Goes back to what a snapshot of an engine of the same model holds.
    ///
    /// # Errors
    /// If it is of another model, or does not fit into the context; then nothing has changed.
    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError>;

    /// Forgets all sequences, as [`StateChange::Clear`], and an unfinished step. Steps are counted from 0 again.
    fn reset(&mut self);
}
