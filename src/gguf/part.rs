//! One file of a model: its bytes and its header.

use super::GgufError;
use super::header::Header;
use memmap2::Mmap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// One file of a model.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Part {
    /// Maps a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<Part, GgufError> {
        let file = File::open(path).map_err(GgufError::io("open", path))?;
        // SAFETY: the map is only read, and every access to it is checked against its length. As for
        // any reader of mapped models, another process must not shorten the file meanwhile.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(GgufError::io("map", path))?;
        Part::read(path, Bytes::Mapped(map))
    }

    /// Reads the header of a file that is in memory; `path` is for messages.
    pub(super) fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Part, GgufError> {
        Part::read(path, Bytes::Owned(bytes))
    }

    fn read(path: &Path, bytes: Bytes) -> Result<Part, GgufError> {
        let header = Header::read(bytes.as_slice()).map_err(|e| e.in_file(path))?;
        Ok(Part { path: path.to_path_buf(), header, bytes })
    }

    /// The whole file.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.bytes().len() as u64
    }
}
