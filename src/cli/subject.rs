//! What a command works on: case folders, or one model with one dump.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

use super::{cache, progress};
use crate::harness::{Case, HarnessError};

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
    /// The one that llama.cpp ran: its unfolded twin, or the same if it is not folded.
    Twin,
}

/// A model with the dumps to look at, each with a name for the report.
pub(super) struct Subject {
    pub(super) model: PathBuf,
    /// The unfolded twin of a folded model, which llama.cpp ran; none if it is the model itself, or not known.
    pub(super) twin: Option<PathBuf>,
    pub(super) dumps: Vec<(String, PathBuf)>,
}

/// The subjects that can be looked at, and why others cannot.
pub(super) struct Subjects {
    ready: Vec<Subject>,
    /// Cases whose weights were not fetched or whose dumps were not made, by name.
    pub(super) skipped: Vec<String>,
}

impl IntoIterator for Subjects {
    type Item = Subject;
    type IntoIter = std::vec::IntoIter<Subject>;

    fn into_iter(self) -> Self::IntoIter {
        self.ready.into_iter()
    }
}

impl SubjectArgs {
    /// For a command whose positional arguments are not all case folders.
    pub(super) fn new(cases: Vec<PathBuf>, model: Option<PathBuf>, dump: Option<PathBuf>) -> SubjectArgs {
        SubjectArgs { cases, model, dump }
    }

    /// The subjects, with the models of cases built. A case whose weights were not fetched, or whose dumps were not
    /// made, is printed as skipped.
    ///
    /// # Errors
    /// If nothing is named, a case's model cannot be built, or every case is skipped.
    pub(super) fn resolve(&self, which: Which) -> Result<Subjects> {
        let mut subjects = Subjects { ready: Vec::new(), skipped: Vec::new() };
        if let (Some(model), Some(dump)) = (&self.model, &self.dump) {
            let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = format!("{} / {}", stem(model), stem(dump));
            subjects.ready.push(Subject {
                model: model.clone(),
                twin: None,
                dumps: vec![(name, dump.clone())],
            });
            return Ok(subjects);
        }
        if self.cases.is_empty() {
            bail!("nothing to look at: name a case folder, or --model and --dump");
        }
        let mut reasons = Vec::new();
        for folder in &self.cases {
            let case = Case::open(folder)?;
            match of_case(&case, which) {
                Ok(subject) => subjects.ready.push(subject),
                Err(reason @ (HarnessError::NotFetched { .. } | HarnessError::NotMade { .. })) => {
                    reasons.push(format!("{} SKIPPED: {reason}", case.name));
                    subjects.skipped.push(case.name);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if subjects.ready.is_empty() {
            bail!("nothing was compared: {}", reasons.join("; "));
        }
        reasons.iter().for_each(|reason| println!("{reason}\n"));
        Ok(subjects)
    }
}

fn of_case(case: &Case, which: Which) -> Result<Subject, HarnessError> {
    case.check_made()?;
    let bar = progress::bar(&format!("building {}", case.model.name()));
    let cache = cache::root();
    let model = case.build_model(&cache, &mut |_, _| {});
    let twin = case.build_twin(&cache, &mut progress::callback(&bar));
    bar.finish_and_clear();
    let (model, twin) = (model?, twin?);
    let (model, twin) = match which {
        Which::Folded => {
            let other = Some(twin).filter(|twin| *twin != model);
            (model, other)
        }
        Which::Twin => (twin, None),
    };
    let dumps = case.dumps.iter().map(|dump| {
        let stem = dump.file.strip_suffix(".npz").unwrap_or(&dump.file);
        (format!("{} / {stem}", case.name), case.dump_path(dump))
    });
    Ok(Subject { model, twin, dumps: dumps.collect() })
}
