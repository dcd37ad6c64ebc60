//! Why something could not be measured.

use thiserror::Error;

use crate::engine::EngineError;
use crate::engine::gpu::GpuError;
use crate::synth::SynthError;

/// Why something could not be measured.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// The device, or a kernel.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The model cannot be made.
    #[error(transparent)]
    Synth(#[from] SynthError),
    /// Weights cannot be made in a type.
    #[error("make {name}: {cause}")]
    Weights {
        /// The tensor.
        name: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// A launch took no time at all.
    #[error("{what} took {got} ms: the device's clock cannot be right")]
    Clock {
        /// What was measured.
        what: String,
        /// The time.
        got: f64,
    },
}
