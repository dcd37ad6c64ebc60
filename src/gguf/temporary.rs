//! A file that gets its name when it is complete.
//!
//! Whatever fails, the file is removed again. What a killed process left is removed by the next one that writes the same
//! target: a writer holds a lock on its file, so an unlocked one has no owner.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file beside its target; removed when dropped, unless it was given the target's name.
pub(crate) struct Temporary {
    path: PathBuf,
    file: File,
    persisted: bool,
}

impl Temporary {
    /// Creates `.name.<pid>-<n>.tmp` in the folder of `target`.
    pub(crate) fn beside(target: &Path) -> io::Result<Temporary> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        let mut prefix = OsString::from(".");
        prefix.push(target.file_name().ok_or_else(no_name)?);
        prefix.push(".");
        sweep(target, &prefix);
        for n in 0u32.. {
            let mut hidden = prefix.clone();
            hidden.push(format!("{}-{n}{SUFFIX}", std::process::id()));
            let path = target.with_file_name(hidden);
            match File::create_new(&path) {
                Ok(file) => {
                    // Where files cannot be locked, nothing is ever swept either.
                    let _ = file.try_lock();
                    return Ok(Temporary { path, file, persisted: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file the name of its target.
    pub(crate) fn persist(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)?;
        self.persisted = true;
        Ok(())
    }
}

const SUFFIX: &str = ".tmp";

/// Removes what killed processes left of the same target; failing to is no reason not to write.
fn sweep(target: &Path, prefix: &OsStr) {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        let is_ours = bytes.starts_with(prefix.as_encoded_bytes()) && bytes.ends_with(SUFFIX.as_bytes());
        if is_ours && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.persisted {
            // A drop cannot report; what is left is a hidden file named as temporary.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_what_nobody_holds_and_leaves_a_living_writer_alone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model.gguf");
        let names = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        fs::write(dir.path().join(".model.gguf.99-0.tmp"), "left by a killed process").unwrap();
        fs::write(dir.path().join(".other.gguf.99-0.tmp"), "another target's").unwrap();
        let living = Temporary::beside(&target).unwrap();
        assert_eq!(names().len(), 2, "{:?}", names());
        let second = Temporary::beside(&target).unwrap();
        assert!(living.path.exists() && second.path.exists());
        second.persist(&target).unwrap();
        drop(living);
        let mut left = names();
        left.sort();
        assert_eq!(left, [".other.gguf.99-0.tmp", "model.gguf"]);
    }
}
