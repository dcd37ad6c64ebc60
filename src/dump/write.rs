//! Writing a dump, payload by payload.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::error::DumpError;
use super::manifest::Manifest;
use super::{ALIGNMENT, FORMAT, MANIFEST, VERSION, npy};
use crate::gguf::Temporary;
use crate::tensor::GgmlType;

/// Entries of this many bytes and more get zip64 records.
const ZIP64_FROM: u64 = u32::MAX as u64;

/// Writes a dump: payloads one by one, then the manifest.
///
/// The file appears under its name when [`DumpWriter::finish`] returns; until then it has a temporary name
/// beside it, and is removed if the writer is dropped. Equal calls write equal bytes.
pub struct DumpWriter {
    path: PathBuf,
    zip: ZipWriter<BufWriter<File>>,
    /// The file until it has its name; dropped last.
    temporary: Temporary,
    entries: HashSet<String>,
}

/// `manifest.json`.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u64,
    #[serde(flatten)]
    manifest: &'a Manifest,
}

impl DumpWriter {
    /// Starts a dump that will replace what is at `path`.
    ///
    /// # Errors
    /// [`DumpError::Write`] if the temporary file cannot be made.
    pub fn create(path: &Path) -> Result<DumpWriter, DumpError> {
        let temporary = Temporary::beside(path).map_err(|e| write_error(path, e))?;
        let file = temporary.file().try_clone().map_err(|e| write_error(path, e))?;
        let zip = ZipWriter::new(BufWriter::new(file));
        Ok(DumpWriter { path: path.to_owned(), zip, temporary, entries: HashSet::new() })
    }

    /// Adds a payload: `ne` elements of type `ty`, contiguous, dimension 0 fastest, under an entry's name
    /// without `.npy`.
    ///
    /// # Errors
    /// If the size of the payload does not follow from `ty` and `ne`, the entry was added before, or writing
    /// fails.
    pub fn add_payload(
        &mut self,
        entry: &str,
        payload: &[u8],
        ty: GgmlType,
        ne: [u64; 4],
    ) -> Result<(), DumpError> {
        let expected = npy::payload_bytes(ty, ne);
        let header = match npy::header(ty, ne) {
            Some(header) if expected == Some(payload.len() as u64) => header,
            _ => {
                let (path, entry, got) = (self.path.clone(), entry.to_owned(), payload.len());
                return Err(DumpError::PayloadBytes { path, entry, ty, ne, expected, got });
            }
        };
        self.add_entry(&format!("{entry}.npy"), &[&header, payload])
    }

    /// Adds the manifest and moves the file to its name.
    ///
    /// The manifest is written as it is, not checked; [`Dump::open`](super::Dump::open) does that.
    ///
    /// # Errors
    /// [`DumpError::Write`] if writing fails.
    pub fn finish(self, manifest: &Manifest) -> Result<(), DumpError> {
        let document = Document { format: FORMAT, version: VERSION, manifest };
        let json = serde_json::to_vec(&document).map_err(|e| write_error(&self.path, e.into()))?;
        self.finish_with(&json)
    }

    /// Adds any bytes as the manifest and moves the file to its name.
    pub(super) fn finish_with(mut self, json: &[u8]) -> Result<(), DumpError> {
        self.add_entry(MANIFEST, &[json])?;
        let DumpWriter { path, zip, temporary, .. } = self;
        let done = zip.finish().map_err(io::Error::from).and_then(|mut file| file.flush());
        done.and_then(|()| temporary.persist(&path)).map_err(|e| write_error(&path, e))
    }

    /// Adds an entry of any content, stored and aligned.
    pub(super) fn add_entry(&mut self, name: &str, parts: &[&[u8]]) -> Result<(), DumpError> {
        if !self.entries.insert(name.to_owned()) {
            return Err(DumpError::EntryTwice { path: self.path.clone(), entry: name.to_owned() });
        }
        let zip = &mut self.zip;
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .large_file(bytes >= ZIP64_FROM)
            .with_android_alignment(ALIGNMENT);
        let started = zip.start_file(name, options).map_err(io::Error::from);
        let written = started.and_then(|()| parts.iter().try_for_each(|part| zip.write_all(part)));
        written.map_err(|e| write_error(&self.path, e))
    }
}

fn write_error(path: &Path, source: io::Error) -> DumpError {
    DumpError::Write { path: path.to_owned(), source }
}
