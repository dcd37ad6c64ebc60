//! What a tensor is called, what its elements are, and how they lie in memory.
//!
//! Nothing here knows about files, models or engines.

mod dtype;
mod id;
mod strided;
mod values;

pub use dtype::GgmlType;
pub use id::{TensorId, layer_of};
pub use strided::{Layout, StridedError, gather};
pub use values::Values;
