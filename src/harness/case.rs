//! A case: a folder with `case.toml`, a model recipe and the dumps that were made from it.
//!
//! ```toml
//! [model]
//! preset = "mini-bonsai"      # `lockstep synth --help` lists them
//! seed = 1
//! type = "pq2_0"              # or several that take turns: "q8_0,q4_K"
//! sha256 = "..."              # of the model that the recipe gives
//!
//! [[dump]]
//! file = "token-1.npz"
//! command = ["-t", "7", "--named"]   # llama-dump options, for scripts/make-references.sh
//! ```
//!
//! A dump of another build of llama.cpp has `build = "unfused"` or `build = "early-2026"` (`scripts/build-llama.sh --help`).
//!
//! In place of preset, seed and type, `fetch = "smollm2"` names a model that `scripts/real-models.sh --fetch` brings.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{HarnessError, ModelRecipe};
use crate::synth::Progress;

/// The file that makes a folder a case.
const FILE: &str = "case.toml";

/// A folder with dumps and the recipe of their model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// How the model is had.
    pub model: ModelRecipe,
    /// What was dumped from it.
    pub dumps: Vec<CaseDump>,
}

/// One dump of a case.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseDump {
    /// Its file in the case's folder.
    pub file: String,
    /// The options of `llama-dump` that made it, apart from the model and the output.
    pub command: Vec<String>,
    /// The option of `scripts/build-llama.sh` that builds the llama.cpp it was made with; none for the pinned one.
    pub build: Option<String>,
    /// Whether it lies in the repository; else `scripts/make-references.sh CASE` makes it.
    #[serde(default = "is_committed")]
    pub committed: bool,
}

fn is_committed() -> bool {
    true
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

    /// That every dump is there.
    ///
    /// # Errors
    /// If one that is to be made has not been made.
    pub fn check_made(&self) -> Result<(), HarnessError> {
        let is_missing = |dump: &&CaseDump| !dump.committed && !self.dump_path(dump).exists();
        match self.dumps.iter().find(is_missing) {
            Some(dump) => Err(HarnessError::NotMade { case: self.name.clone(), path: self.dump_path(dump) }),
            None => Ok(()),
        }
    }

    /// The file of the model that an engine is checked with, in the folder `cache`, made unless a good one is there.
    ///
    /// # Errors
    /// If the recipe names no preset or type, the model cannot be written or was not fetched, or it is not the one that the
    /// case was made with.
    pub fn build_model(&self, cache: &Path, progress: Progress<'_>) -> Result<PathBuf, HarnessError> {
        self.model.build(&self.folder.join(FILE), cache, progress)
    }

    /// The file of the model that the dumps were made from: the unfolded twin of a folded model, else the model itself.
    ///
    /// # Errors
    /// As [`Case::build_model`].
    pub fn build_twin(&self, cache: &Path, progress: Progress<'_>) -> Result<PathBuf, HarnessError> {
        self.model.build_twin(&self.folder.join(FILE), cache, progress)
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

    #[test]
    fn a_dump_that_is_to_be_made_is_missing_until_it_is() {
        let (dir, case) =
            write(&format!("{MODEL}[[dump]]\nfile = \"a.npz\"\ncommand = []\ncommitted = false\n"));
        let case = case.unwrap();
        assert!(matches!(case.check_made(), Err(HarnessError::NotMade { .. })));
        std::fs::write(dir.path().join("a.npz"), "").unwrap();
        case.check_made().unwrap();
        let (_dir, committed) = write(&format!("{MODEL}[[dump]]\nfile = \"a.npz\"\ncommand = []\n"));
        committed.unwrap().check_made().unwrap();
    }

    const MODEL: &str = "[model]\npreset = \"micro-bonsai\"\nseed = 1\ntype = \"pq2_0\"\nsha256 = \"00\"\n";

    #[test]
    fn a_dump_may_be_of_another_build() {
        let dumps = "[[dump]]\nfile = \"a.npz\"\ncommand = []\nbuild = \"unfused\"\n[[dump]]\nfile = \"b.npz\"\ncommand = []\n";
        let case = write(&format!("{MODEL}{dumps}")).1.unwrap();
        let builds: Vec<_> = case.dumps.iter().map(|dump| dump.build.as_deref()).collect();
        assert_eq!(builds, [Some("unfused"), None]);
    }

    #[test]
    fn refuses_a_case_without_dumps_and_unknown_keys() {
        assert!(matches!(write(&format!("dump = []\n{MODEL}")).1, Err(HarnessError::CaseFile { .. })));
        assert!(matches!(write(&format!("{MODEL}tolerance = 0.1\n")).1, Err(HarnessError::CaseFile { .. })));
        let absent = tempfile::tempdir().unwrap();
        assert!(matches!(Case::open(absent.path()), Err(HarnessError::CaseFile { .. })));
    }
}
