//! What a tensor is called, what its elements are, and how they lie in memory.
//!
//! Nothing here knows about files, models or engines.

mod dtype;
mod id;
mod strided;

pub use dtype::GgmlType;
pub use id::{TensorId, layer_of};
pub use strided::{Layout, StridedError, gather};
