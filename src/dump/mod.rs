//! The dump: one `.npz` file that holds every captured tensor of a run, with the graph that made them.
//!
//! The file is a zip whose entries are *stored* (never compressed), each one's data at a multiple of
//! 64 bytes: one `.npy` per payload, and `manifest.json` last. numpy reads it, and so does a memory
//! map: [`Dump`] hands out payloads as slices of the map, without copying. [`DumpWriter`] writes it.
//!
//! A payload is the tensor's logical values, contiguous, ggml dimension 0 fastest, so that a numpy
//! shape is `ne` reversed. Pure views of a stored tensor carry no payload of their own; the reader
//! derives them.
//!
//! The whole manifest and every `.npy` header are checked when a dump is opened, and that the graphs read
//! the tokens and positions that the manifest gives. What needs the other payloads, a checksum and the agreement of a stored view with its root, is checked when
//! a payload is handed out for the first time; [`Dump::verify`] does it for all of them.

mod archive;
mod entries;
mod error;
mod graph;
mod inputs;
mod manifest;
mod named;
mod npy;
mod npy_file;
mod parse;
mod read;
mod same_schedule;
#[cfg(test)]
mod sample;
mod schedule;
mod selection;
mod sequences;
#[cfg(test)]
mod tests;
mod values;
mod write;

pub use error::{Defect, DumpError};
pub use manifest::{
    Capture, Leaf, LeafKind, Manifest, MemoryChange, Model, Node, Origin, Producer, Run, Source, Ubatch,
    ViewOf,
};
pub use named::is_named;
pub use npy_file::read_npy;
pub use read::Dump;
pub use same_schedule::ScheduleDifference;
pub use selection::runs;
pub use write::DumpWriter;

/// The name of the manifest's entry.
const MANIFEST: &str = "manifest.json";
/// What `format` says in a manifest.
const FORMAT: &str = "lockstep-dump";
/// The version of the format that this module reads and writes.
const VERSION: u64 = 1;
/// Every entry's data starts at a multiple of this many bytes.
const ALIGNMENT: u16 = 64;
