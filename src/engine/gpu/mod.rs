//! The GPU: one engine for NVIDIA devices and for the emulator that runs the same kernels on the CPU.
//!
//! | what | where |
//! |---|---|
//! | driver, device, launches by name, recordings | `device`, `arg`, `recording`; cudarc behind them |
//! | device memory, copies | `buffer`, `transfer`, `staging` |
//! | kernel text to machine code, with a cache; registers within a budget | `compile`, `sources`, `resources`, `budget` |
//! | what each kernel must move and compute | [`cost`] |
//! | the emulator as the driver of the process | `simt`, `kernels/simt` |
//! | one launcher for each kernel file | [`launch`], `kernels` |
//! | a model's weights, what memory it takes | [`GpuModel`], `matrix`, [`MemoryPlan`] |
//! | sequences: cells of caches, slots of states | `state`, `slots`, `cache`, `tokens` |
//! | a step: operator by operator, or in few launches where nobody looks between | `forward` |
//! | the engine | [`GpuEngine`], `decode`, `snapshots` |
//!
//! cudarc loads the driver when the first device is opened. The emulator poses as that driver, so everything here but the choice in
//! [`Driver`] is the same code on both. What a step reads besides activations (ids, positions, cells, slots) lies in one buffer, and what it
//! launches for one token of each sequence is the same at every position: that is recorded once and replayed.

mod arg;
mod budget;
mod buffer;
mod cache;
mod compile;
pub mod cost;
mod decode;
mod device;
mod engine;
mod error;
mod forward;
pub mod launch;
mod matrix;
mod plan;
mod recording;
mod resources;
mod simt;
mod slots;
mod snapshots;
mod sources;
mod staging;
mod state;
mod supported;
mod tokens;
mod transfer;
mod weights;

pub use arg::Arg;
pub use budget::{BUDGETS, Budget, budget_of};
pub use buffer::{Buffer, Part, PartMut};
pub use compile::{Compiled, compile};
pub use device::{Device, DeviceOptions, Driver, Grid};
pub use engine::GpuEngine;
pub use error::GpuError;
pub use matrix::{MATRIX_TYPES, Matrix};
pub use plan::MemoryPlan;
pub use recording::Recording;
pub use resources::{Checked, Resources, check_kernels};
pub use simt::{Counts, Flavour, Order, counted};
pub use sources::{contract, kernels};
pub use weights::{GpuModel, StandIn, UploadProgress};

/// Buffers that exist on the emulated device of this process; none if it runs another.
pub fn live_buffers() -> Option<usize> {
    simt::live_buffers()
}
