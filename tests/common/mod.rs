//! What several test files share: small models, copies of them with one change, a tap that keeps tensors, committed dumps,
//! copies of them with a fault, an engine with a fault, checks that judge each operator alone, the program itself.
#![allow(dead_code, unreachable_pub, unused_imports)] // no test file uses all of it

mod changed_engine;
mod dump_copy;
mod edit;
mod faulty_engine;
mod judged;
mod keep;
mod program;
mod recoded;

pub use changed_engine::{ChangedEngine, Emitted};
pub use dump_copy::{Copy, Payload, Written, bytes, floats};
pub use edit::{Edit, fold_key, hparam_key};
pub use faulty_engine::{Fault, FaultyEngine, Seen};
pub use judged::{Twin, check_alone, engine, twin};
pub use keep::{Keep, Tensor, assert_same, relative_l2, run, ubatch};
pub use program::{
    Built, MICRO_NODES, MICRO_PROMPT, MINI_PROMPT, MINI_TOKEN, NANO_PROMPT, Outcome, Reference, cache,
    case_folder, check_files, check_in_process, lockstep, model_of_case,
};
pub use recoded::recoded;

use std::path::PathBuf;

use lockstep::synth::{preset, write_model};
use lockstep::tensor::GgmlType;
use tempfile::TempDir;

/// A model file in a folder that goes when it is dropped.
pub struct ModelFile {
    pub path: PathBuf,
    _folder: TempDir,
}

impl ModelFile {
    /// A path for a model that is yet to be written.
    pub fn new() -> ModelFile {
        let folder = tempfile::tempdir().unwrap();
        ModelFile { path: folder.path().join("model.gguf"), _folder: folder }
    }
}

/// Writes a synthetic model.
pub fn synthetic(name: &str, seed: u64, ty: GgmlType) -> ModelFile {
    let file = ModelFile::new();
    write_model(preset(name).unwrap(), seed, ty, &file.path, &mut |_, _| {}).unwrap();
    file
}

/// The folded model with 4 layers: delta net, delta net, delta net, attention.
pub fn micro() -> ModelFile {
    synthetic("micro-bonsai", 1, GgmlType::PQ2_0)
}
