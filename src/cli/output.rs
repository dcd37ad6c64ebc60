//! Files that a command writes its results to.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::gguf::Temporary;

/// Says that a result cannot be written before the work is done, not after.
pub(super) fn require_folder(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            bail!("write {}: there is no folder {}", path.display(), folder.display())
        }
        _ => Ok(()),
    }
}

/// Writes a result in one step: a reader finds the old file or the whole new one.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let persist = || {
        if path.exists() && !path.is_file() {
            return std::fs::write(path, text); // a pipe or a terminal cannot be replaced
        }
        let temporary = Temporary::beside(path)?;
        temporary.file().write_all(text.as_bytes())?;
        temporary.persist(path)
    };
    persist().with_context(|| format!("write {}", path.display()))
}
