//! What a command works on: case folders, or one model with one dump.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

use super::{cache, progress};
use crate::harness::Case;

/// Case folders, or a model with a dump.
#[derive(ClapArgs, Debug)]
pub(super) struct SubjectArgs {
    /// Case folders (with a case.toml)
    #[arg(value_name = "CASE", required_unless_present = "model", conflicts_with_all = ["model", "dump"])]
    cases: Vec<PathBuf>,
    /// The model: a GGUF file, or the first part of a split one
    #[arg(long, value_name = "M", requires = "dump")]
    model: Option<PathBuf>,
    /// What llama.cpp computed from it
    #[arg(long, value_name = "D", requires = "model")]
    dump: Option<PathBuf>,
}

/// Which of a case's two models is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    /// The one that the recipe gives.
    Folded,
    /// Its unfolded twin, which llama.cpp ran.
    Twin,
}

/// A model with the dumps to look at, each with a name for the report.
pub(super) struct Subject {
    pub(super) model: PathBuf,
    /// The unfolded twin of a folded model, which llama.cpp ran; none if it is the model itself, or not known.
    pub(super) twin: Option<PathBuf>,
    pub(super) dumps: Vec<(String, PathBuf)>,
}

impl SubjectArgs {
    /// The subjects, with the models of cases built.
    ///
    /// # Errors
    /// If nothing is named, or a case's model cannot be built.
    pub(super) fn resolve(&self, which: Which) -> Result<Vec<Subject>> {
        if let (Some(model), Some(dump)) = (&self.model, &self.dump) {
            let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = format!("{} / {}", stem(model), stem(dump));
            return Ok(vec![Subject { model: model.clone(), twin: None, dumps: vec![(name, dump.clone())] }]);
        }
        if self.cases.is_empty() {
            bail!("nothing to look at: name a case folder, or --model and --dump");
        }
        self.cases.iter().map(|folder| of_case(&Case::open(folder)?, which)).collect()
    }
}

fn of_case(case: &Case, which: Which) -> Result<Subject> {
    let bar = progress::bar(&format!("building {}", case.model.preset));
    let models = cache::models();
    let twin = case.build_twin(&models, &mut progress::callback(&bar));
    bar.finish_and_clear();
    let twin = twin?;
    let (model, twin) = match which {
        Which::Folded => (case.build_model(&models, &mut |_, _| {})?, Some(twin)),
        Which::Twin => (twin, None),
    };
    let dumps = case.dumps.iter().map(|dump| {
        let stem = dump.file.strip_suffix(".npz").unwrap_or(&dump.file);
        (format!("{} / {stem}", case.name), case.dump_path(dump))
    });
    Ok(Subject { model, twin, dumps: dumps.collect() })
}
