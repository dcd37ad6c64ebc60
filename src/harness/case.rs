//! A case: a folder with `case.toml`, a model recipe and the dumps that were made from it.
//!
//! ```toml
//! [model]
//! preset = "mini-bonsai"      # `lockstep synth --help` lists them
//! seed = 1
//! type = "pq2_0"
//! sha256 = "..."              # of the model that the recipe gives
//!
//! [[dump]]
//! file = "token-1.npz"
//! command = ["-t", "7", "--named"]   # llama-dump options, for scripts/make-references.sh
//! ```

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::HarnessError;
use crate::gguf::sha256;
use crate::synth::{PRESETS, Progress, TYPES, preset, unfold, write_model};
use crate::tensor::GgmlType;

/// The file that makes a folder a case.
const FILE: &str = "case.toml";
/// Characters of a hash that name a model in the cache.
const SHORT_HASH: usize = 12;

/// A folder with dumps and the recipe of their model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// How the model is made.
    pub model: ModelRecipe,
    /// What was dumped from it.
    pub dumps: Vec<CaseDump>,
}

/// How a model is made.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRecipe {
    /// A preset of `synth`.
    pub preset: String,
    /// Its seed.
    pub seed: u64,
    /// The type of its weights (`pq2_0`).
    #[serde(rename = "type")]
    pub ty: String,
    /// SHA-256 of the file that this gives.
    pub sha256: String,
}

/// One dump of a case.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseDump {
    /// Its file in the case's folder.
    pub file: String,
    /// The options of `llama-dump` that made it, apart from the model and the output.
    pub command: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    model: ModelRecipe,
    #[serde(rename = "dump")]
    dumps: Vec<CaseDump>,
}

impl Case {
    /// Reads the case in `folder`.
    ///
    /// # Errors
    /// If there is no `case.toml`, or it does not say what a case needs.
    pub fn open(folder: &Path) -> Result<Case, HarnessError> {
        let path = folder.join(FILE);
        let cause = |cause: String| HarnessError::CaseFile { path: path.clone(), cause };
        let text = std::fs::read_to_string(&path).map_err(|e| cause(e.to_string()))?;
        let CaseFile { model, dumps } = toml::from_str(&text).map_err(|e| cause(e.to_string()))?;
        if dumps.is_empty() {
            return Err(cause("no [[dump]]: nothing to check".to_owned()));
        }
        let name = folder
            .canonicalize()
            .ok()
            .and_then(|full| Some(full.file_name()?.to_string_lossy().into_owned()));
        let name = name.unwrap_or_else(|| folder.display().to_string());
        Ok(Case { name, folder: folder.to_owned(), model, dumps })
    }

    /// The path of one of its dumps.
    pub fn dump_path(&self, dump: &CaseDump) -> PathBuf {
        self.folder.join(&dump.file)
    }

    /// The model's file, made in `folder` unless a good one is there already.
    ///
    /// # Errors
    /// If the recipe names no preset or type, the model cannot be written, or it is not the one that the case was
    /// made with.
    pub fn build_model(&self, folder: &Path, progress: Progress<'_>) -> Result<PathBuf, HarnessError> {
        let ModelRecipe { preset: preset_name, seed, ty, sha256: expected } = &self.model;
        let value = |key, got: &str, expected| HarnessError::CaseValue {
            path: self.folder.join(FILE),
            key,
            got: got.to_owned(),
            expected,
        };
        let names = |list: Vec<&str>| list.join(", ");
        let preset = preset(preset_name)
            .ok_or_else(|| value("preset", preset_name, names(PRESETS.iter().map(|p| p.name).collect())))?;
        let ty_value = GgmlType::from_name(ty)
            .ok_or_else(|| value("type", ty, names(TYPES.iter().map(|t| t.name()).collect())))?;
        let short = expected.get(..SHORT_HASH).unwrap_or(expected);
        let path = folder.join(format!("{preset_name}-{seed}-{ty}-{short}.gguf"));
        if path.is_file() && sha256(&path)? == *expected {
            return Ok(path);
        }
        let cause =
            |e: std::io::Error| HarnessError::CaseFile { path: folder.to_owned(), cause: e.to_string() };
        std::fs::create_dir_all(folder).map_err(cause)?;
        write_model(preset, *seed, ty_value, &path, progress)?;
        let got = sha256(&path)?;
        if got != *expected {
            let (preset, expected) = (preset_name.clone(), expected.clone());
            return Err(HarnessError::Recipe { preset, seed: *seed, got, expected });
        }
        Ok(path)
    }
}

impl Case {
    /// The unfolded twin of the case's model, which the dumps were made from, made in `folder` unless it is there.
    ///
    /// # Errors
    /// As [`Case::build_model`].
    pub fn build_twin(&self, folder: &Path, progress: Progress<'_>) -> Result<PathBuf, HarnessError> {
        let model = self.build_model(folder, &mut |_, _| {})?;
        let twin = model.with_extension("unfolded.gguf");
        // A twin names the model it was made from, and appears only when it is complete.
        if !twin.is_file() {
            unfold(&model, &twin, progress)?;
        }
        Ok(twin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(text: &str) -> (tempfile::TempDir, Result<Case, HarnessError>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let case = Case::open(dir.path());
        (dir, case)
    }

    const MODEL: &str = "[model]\npreset = \"micro-bonsai\"\nseed = 1\ntype = \"pq2_0\"\nsha256 = \"00\"\n";

    #[test]
    fn refuses_a_case_without_dumps_and_unknown_keys() {
        assert!(matches!(write(&format!("dump = []\n{MODEL}")).1, Err(HarnessError::CaseFile { .. })));
        assert!(matches!(write(&format!("{MODEL}tolerance = 0.1\n")).1, Err(HarnessError::CaseFile { .. })));
        let absent = tempfile::tempdir().unwrap();
        assert!(matches!(Case::open(absent.path()), Err(HarnessError::CaseFile { .. })));
    }

    #[test]
    fn a_recipe_that_gives_another_model_is_refused() {
        let (dir, case) = write(&format!("{MODEL}[[dump]]\nfile = \"a.npz\"\ncommand = []\n"));
        let error = case.unwrap().build_model(dir.path(), &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, HarnessError::Recipe { .. }), "{error}");
    }
}
