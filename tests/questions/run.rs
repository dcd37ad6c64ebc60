//! A question's probe, run by an engine that makes a mistake on purpose, and the question asked of the dump.

use std::path::{Path, PathBuf};

use lockstep::dump::{Dump, Model as DumpModel};
use lockstep::engine::cpu::CpuEngine;
use lockstep::engine::{Conventions, Engine, Memory, Numerics};
use lockstep::gguf::sha256;
use lockstep::harness::{Recorder, Step};
use lockstep::model::Model;
use lockstep::question::{Answer, Question, Subject};
use lockstep::synth::{Variant, write_variant};
use lockstep::tensor::GgmlType;
use tempfile::TempDir;

use crate::common::{Copy, ModelFile, lockstep, ubatch};

/// How an engine makes a mistake.
#[derive(Clone, Copy)]
pub(crate) enum With {
    /// By conventions, as `name, candidate`.
    Conventions(&'static [(&'static str, &'static str)]),
    /// By what it rounds, or which way it goes.
    Numerics(fn(&mut Numerics)),
    /// By running another model, made from the one that the question is asked with.
    /// The question and candidate are given too.
    Model(fn(&Path, &str, &str) -> ModelFile),
    /// By changing tensors of its dump.
    Dump(fn(&mut Copy)),
}

/// The model of a question's probe, in a folder that goes when it is dropped.
pub(crate) struct Probed {
    pub question: &'static Question,
    pub model: Model,
    path: PathBuf,
    _folder: TempDir,
}

impl Probed {
    /// As `lockstep ask --probe` writes it.
    pub(crate) fn write(question: &'static Question) -> Probed {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().to_str().unwrap();
        let outcome = lockstep(["ask", "--probe", question.name, "--out", out]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let path = folder.path().join("model.gguf");
        let model = Model::open(&path).unwrap();
        Probed { question, model, path, _folder: folder }
    }

    /// Another model with the tokens of the probe.
    pub(crate) fn of(question: &'static Question, variant: &Variant, ty: GgmlType) -> Probed {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        write_variant(variant, 1, &[ty], &path, &mut |_, _| {}).unwrap();
        let model = Model::open(&path).unwrap();
        Probed { question, model, path, _folder: folder }
    }

    /// What the question answers of a run of the probe; why not, if the engine or the question refuses.
    pub(crate) fn answer(&self, candidate: &str, with: With) -> Result<Answer, String> {
        Ok(self.asked(&[self.question], candidate, with)?.remove(0))
    }

    /// What these questions answer of it.
    pub(crate) fn answers(&self, questions: &[&'static Question], with: With) -> Result<Vec<Answer>, String> {
        self.asked(questions, "", with)
    }

    fn asked(
        &self,
        questions: &[&'static Question],
        candidate: &str,
        with: With,
    ) -> Result<Vec<Answer>, String> {
        let (mut conventions, mut numerics) = (Conventions::default(), Numerics::default());
        match with {
            With::Conventions(settings) => {
                for (name, candidate) in settings {
                    conventions.set(name, candidate).map_err(|error| error.to_string())?;
                }
            }
            With::Numerics(change) => change(&mut numerics),
            With::Model(_) | With::Dump(_) => {}
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump.npz");
        match with {
            With::Model(change) => {
                let changed = change(&self.path, self.question.name, candidate);
                self.record(&Model::open(&changed.path).unwrap(), conventions, numerics, &path)?;
            }
            _ => self.record(&self.model, conventions, numerics, &path)?,
        }
        let mut dump = Dump::open(&path).unwrap();
        let mut written = None;
        if let With::Dump(change) = with {
            let mut copy = Copy::of_dump(&dump);
            change(&mut copy);
            dump = Dump::open(&written.insert(copy.write()).path).unwrap();
        }
        let subject = Subject::new(&self.model, &dump).map_err(|error| error.to_string())?;
        questions.iter().map(|question| question.ask(&subject).map_err(|error| error.to_string())).collect()
    }

    fn record(
        &self,
        model: &Model,
        conventions: Conventions,
        numerics: Numerics,
        path: &Path,
    ) -> Result<(), String> {
        let n_ctx = 256;
        let engine = CpuEngine::<f32>::new(model, conventions, n_ctx).map_err(|error| error.to_string())?;
        let mut engine = engine.with_numerics(numerics).map_err(|error| error.to_string())?;
        let mut recorder = Recorder::create(path).unwrap();
        let mut at = 0;
        for &n in self.question.probe.schedule {
            let step = Step::from(ubatch(self.question.probe.tokens, at..at + n));
            recorder.step(&mut engine, &step).unwrap();
            at += n;
        }
        assert_eq!(at, self.question.probe.tokens.len(), "{}: the schedule", self.question.name);
        let said = DumpModel {
            file: "model.gguf".to_owned(),
            sha256: sha256(&self.path).unwrap(),
            architecture: "qwen35".to_owned(),
            metadata: Default::default(),
        };
        let name = engine.name();
        recorder.finish(&name, said, (Memory::default(), n_ctx as u32), 0).unwrap();
        Ok(())
    }
}
