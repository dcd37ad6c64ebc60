//! GGUF files: a memory-mapped reader that validates before it hands out anything, and a writer.
//!
//! ```text
//! header     magic "GGUF" | version u32 (2, 3) | tensor count u64 | key count u64
//! metadata   per key:     name | type u32 | value
//!                         an array: element type u32 | count u64 | elements
//! table      per tensor:  name | n_dims u32 | ne u64 * n_dims | type u32 | offset u64
//! padding    to a multiple of general.alignment (32 if absent), from the start of the file
//! data       per tensor:  packed rows, then padding to the alignment
//! ```
//!
//! Everything is little-endian; a string is its length (u64) and its UTF-8 bytes; `ne` is in ggml's
//! order, dimension 0 fastest; an offset counts from the start of the data and is a multiple of the
//! alignment. Source: gguf.h and gguf.cpp of llama.cpp b11434.
//!
//! The reader is as strict as llama.cpp, except that it allows gaps between tensors, missing padding at the
//! end of the file, and the types of the PrismML fork. It never panics on the bytes of a file.

mod cursor;
mod digest;
mod error;
mod header;
mod id42;
mod metadata;
mod part;
mod reader;
mod split;
mod table;
mod temporary;
mod value;
mod writer;

#[cfg(test)]
mod tests;

pub use digest::sha256;
pub use error::GgufError;
pub use metadata::Metadata;
pub use reader::{Gguf, Tensor};
pub use table::TensorInfo;
pub use value::{Array, Value};
pub use writer::GgufWriter;

pub(crate) use temporary::Temporary;
