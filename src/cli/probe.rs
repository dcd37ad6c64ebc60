//! The model that separates a question's candidates, written, and how to go on.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::question::{Probe, Question};

/// Writes the probe of a question into a folder, and says which commands come next.
pub(super) fn write(question: &Question, out: &Path) -> Result<()> {
    let Probe { tokens, schedule, because, .. } = question.probe;
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    todo!("{tokens:?} {schedule:?} {because}")
}
