//! How fast kernels and the engine are on a device: what `lockstep bench` measures. On the emulator the same code runs and its times
//! mean nothing.
//!
//! A time is that of events in the device's queue around recorded launches ([`Device::record`]), so that the host does not count; each
//! measurement goes over so many copies of what it reads that no cache serves it. docs/gpu.md defines every number.

mod error;
mod kernels;
mod machine;
mod model;
mod timer;

use crate::engine::gpu::Device;

pub use error::BenchError;
pub use kernels::{KernelRow, Kernels, bench_kernels};
pub use machine::{CopyRate, Machine, copy_rate};
pub use model::{DecodeRow, ModelOptions, ModelRun, PrefillRow, bench_model};

/// What a measurement is done with.
pub struct Bench<'a> {
    /// Where it runs.
    pub device: &'a Device,
    /// Sizes that the emulator gets through.
    pub is_small: bool,
    /// Called with the name of each measurement before it begins.
    pub progress: &'a mut dyn FnMut(&str),
}
