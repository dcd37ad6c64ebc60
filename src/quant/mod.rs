//! Block formats: how ggml stores weights, decoded to and encoded from f32. One format per file.
//!
//! Adding a format: a file here that implements [`Format`], and one line in [`FORMATS`].

use crate::tensor::GgmlType;

mod f32;

/// Decodes and encodes rows of one ggml type.
pub trait Format: Sync {
    /// The type that this format stores.
    fn ty(&self) -> GgmlType;

    /// Decodes whole blocks: `values.len()` is `blocks.len() / block_bytes * block_elements`.
    fn decode(&self, blocks: &[u8], values: &mut [f32]);

    /// Encodes whole blocks with ggml's reference rule: sizes as for [`Format::decode`].
    fn encode(&self, values: &[f32], blocks: &mut [u8]);
}

/// Every format, in order of id. `tests/registries.rs` compares this table with the folder.
pub const FORMATS: &[&dyn Format] = &[&f32::F32];
