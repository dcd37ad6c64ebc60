//! Making models: synthetic ones from a preset and a seed, the unfolded twin of a folded one, the first layers of one.

mod convert;
mod error;
mod in_memory;
mod preset;
mod rng;
mod slice;
mod unfold;
mod variant;
mod weights;
mod write;

use convert::convert;
pub use error::SynthError;
pub use in_memory::{BONSAI_27B, tensor_bytes, without_weights};
pub use preset::{PRESETS, Preset, preset};
pub use slice::slice;
pub use unfold::unfold;
pub use variant::Variant;
pub use write::{TYPES, is_folded, write_mixed, write_model, write_variant};

/// Called with bytes written so far and in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);
