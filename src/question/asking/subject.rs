//! What questions are asked of: a model and what was computed from it.

use super::{AskError, Site, Stop};
use crate::dump::Dump;
use crate::model::{Model, UNFOLDED_FROM};
use crate::ops::exact::Setting;

/// A model with a dump of it, or of its unfolded twin.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub(super) model: &'a Model,
    pub(super) dump: &'a Dump,
}

impl<'a> Subject<'a> {
    /// Joins the two.
    ///
    /// # Errors
    /// If the dump says that it is of a model with other sizes.
    pub fn new(model: &'a Model, dump: &'a Dump) -> Result<Subject<'a>, AskError> {
        let other = |got: String, expected: String| AskError::OtherModel {
            dump: dump.path().display().to_string(),
            model: model.gguf().path().display().to_string(),
            got,
            expected,
        };
        let said = &dump.manifest().model;
        if said.architecture != "qwen35" {
            return Err(other(format!("architecture {}", said.architecture), "qwen35".to_owned()));
        }
        let metadata = model.gguf().metadata();
        for (key, got) in &said.metadata {
            // The sizes; names, types and signs of a twin are its own.
            let expected = metadata.u64(key).ok().filter(|_| key.starts_with("qwen35."));
            if let Some(expected) = expected.filter(|expected| *got != expected.to_string()) {
                return Err(other(format!("{key} = {got}"), expected.to_string()));
            }
        }
        Ok(Subject { model, dump })
    }

    /// The model.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// The dump.
    pub fn dump(&self) -> &'a Dump {
        self.dump
    }

    /// Every place that a question may look at: each step, and in it what comes before the layers, each layer, and what comes
    /// after.
    pub fn sites(&self) -> Vec<Site<'a>> {
        let layers = || std::iter::once(None).chain((0..self.model.hparams().n_layer).map(Some));
        let of_step = |step| layers().map(move |layer| Site { subject: *self, step, layer, keep: None });
        (0..self.dump.n_steps()).flat_map(of_step).collect()
    }

    /// How many tokens a step evaluated.
    pub(in crate::question) fn tokens_of(&self, step: u32) -> usize {
        self.dump.manifest().run.ubatches.get(step as usize).map_or(0, |ubatch| ubatch.tokens.len())
    }

    /// What is found at each site that has it.
    ///
    /// # Errors
    /// If the dump is damaged, or does not belong to the model.
    pub(in crate::question) fn each<T>(
        &self,
        find: impl Fn(&Site<'a>) -> Result<T, Stop>,
    ) -> Result<Vec<T>, AskError> {
        let mut found = Vec::new();
        for site in self.sites() {
            match find(&site) {
                Ok(one) => found.push(one),
                Err(Stop::Failed(error)) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(found)
    }

    /// What the run was told to keep keys and values in.
    pub(in crate::question) fn cache_types(&self) -> [(&'static str, &'a str); 2] {
        let run = &self.dump.manifest().run;
        [("keys", &run.type_k), ("values", &run.type_v)]
    }

    /// Whether the dump is of the unfolded twin, which holds every weight in F32: llama.cpp cannot run the folded model itself.
    pub(super) fn is_of_the_twin(&self) -> bool {
        self.dump.manifest().model.metadata.contains_key(UNFOLDED_FROM)
    }

    /// How the run was set, as far as it decides what is rounded.
    pub(super) fn setting(&self) -> Setting {
        let manifest = self.dump.manifest();
        // An engine of another name may follow the rules of ggml-cpu, whatever it calls its own backend.
        let is_ggml = manifest.producer.name == "llama.cpp";
        let backend = if is_ggml { manifest.producer.backend.clone() } else { "CPU".to_owned() };
        Setting {
            backend,
            system_info: manifest.producer.system_info.clone(),
            n_threads: manifest.run.n_threads,
            repack: manifest.run.repack,
            reference_kernels: manifest.run.reference_kernels,
        }
    }
}
