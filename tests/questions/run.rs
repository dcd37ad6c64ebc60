//! A question's probe, run by the engine with a mistake on purpose, and the question asked of the dump.

use std::path::Path;

use lockstep::dump::{Dump, Model as DumpModel};
use lockstep::engine::cpu::CpuEngine;
use lockstep::engine::{Conventions, Engine, Memory, Numerics, Ubatch};
use lockstep::harness::{Recorder, Step};
use lockstep::model::Model;
use lockstep::question::{Answer, Outcome, Probe, Question, Subject, Verdict};
use tempfile::TempDir;

use crate::common::ModelFile;

/// How an engine makes a mistake.
#[derive(Clone, Copy)]
pub enum With {
    /// By conventions, as `name, candidate`.
    Conventions(&'static [(&'static str, &'static str)]),
    /// By what it rounds, or which way it goes.
    Numerics(fn(&mut Numerics)),
    /// By running this model instead, made from the one that the question is asked with.
    Model(fn(&Path) -> ModelFile),
    /// By changing tensors before they are written: the name without layer, and the values.
    Tensors(fn(&Dump, &mut crate::common::Copy)),
}

/// A dump in a folder that goes when it is dropped.
pub struct Recorded {
    pub dump: Dump,
    _folder: TempDir,
}

/// Runs the engine over the tokens, `schedule` of them in each step.
pub fn record(model: &Model, conventions: Conventions, numerics: Numerics, tokens: &[u32], schedule: &[usize]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.npz");
    let n_ctx = 256;
    let mut engine =
        CpuEngine::<f32>::with(model, conventions, numerics, Memory::default(), n_ctx).unwrap();
    let mut recorder = Recorder::create(&path).unwrap();
    let mut at = 0;
    for &n in schedule {
        let ubatch = Ubatch {
            tokens: tokens[at..at + n].to_vec(),
            positions: (at..at + n).map(|p| p as i64).collect(),
            sequences: vec![0; n],
            outputs: vec![true; n],
        };
        recorder.step(&mut engine, &Step { ubatch, before: Vec::new() }).unwrap();
        at += n;
    }
    assert_eq!(at, tokens.len());
    let said = DumpModel {
        file: "model.gguf".to_owned(),
        sha256: String::new(),
        architecture: "qwen35".to_owned(),
        metadata: Default::default(),
    };
    let name = engine.name().to_owned();
    recorder.finish(&name, said, (Memory::default(), n_ctx as u32), 0).unwrap();
    Recorded { dump: Dump::open(&path).unwrap(), _folder: folder }
}
