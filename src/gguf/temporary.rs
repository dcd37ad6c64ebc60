//! A file that gets its name when it is complete.

use super::GgufError;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file beside its target; removed when dropped, unless it was given the target's name.
pub(super) struct Temporary {
    path: PathBuf,
    file: File,
    persisted: bool,
}

impl Temporary {
    /// Creates `.name.<pid>-<n>.tmp` in the folder of `target`.
    pub(super) fn beside(target: &Path) -> Result<Temporary, GgufError> {
        let Some(name) = target.file_name() else {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
            return Err(GgufError::io("create", target)(source));
        };
        for n in 0u32.. {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{n}.tmp", std::process::id()));
            let path = target.with_file_name(hidden);
            match File::create_new(&path) {
                Ok(file) => return Ok(Temporary { path, file, persisted: false }),
                Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(GgufError::io("create", &path)(source)),
            }
        }
        let source = io::Error::from(io::ErrorKind::AlreadyExists);
        Err(GgufError::io("create", target)(source))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file the name of its target.
    pub(super) fn persist(mut self, target: &Path) -> Result<(), GgufError> {
        self.file.sync_all().map_err(GgufError::io("sync", &self.path))?;
        fs::rename(&self.path, target).map_err(GgufError::io("rename a temporary file to", target))?;
        self.persisted = true;
        Ok(())
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
