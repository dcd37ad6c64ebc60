//! Writing a dump, payload by payload.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::error::DumpError;
use super::manifest::Manifest;
use super::{ALIGNMENT, FORMAT, MANIFEST, VERSION, npy};
use crate::tensor::GgmlType;

/// Entries of this many bytes and more get zip64 records.
const ZIP64_FROM: u64 = u32::MAX as u64;

/// Writes a dump: payloads one by one, then the manifest.
///
/// The file appears under its name when [`DumpWriter::finish`] returns; until then it has a temporary name
/// beside it, and is removed if the writer is dropped. Equal calls write equal bytes.
pub struct DumpWriter {
    path: PathBuf,
    /// Where the file is until it has its name.
    partial: Option<PathBuf>,
    zip: Option<ZipWriter<BufWriter<File>>>,
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
        let (partial, file) = create_partial(path).map_err(|source| write_error(path, source))?;
        let zip = Some(ZipWriter::new(BufWriter::new(file)));
        Ok(DumpWriter { path: path.to_owned(), partial: Some(partial), zip, entries: HashSet::new() })
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
        let zip = self.zip.take().expect("only this method takes it, and consumes the writer");
        let done = zip.finish().map_err(io::Error::from).and_then(|mut file| file.flush());
        done.map_err(|e| write_error(&self.path, e))?;
        let partial = self.partial.as_ref().expect("only this method clears it, and consumes the writer");
        fs::rename(partial, &self.path).map_err(|e| write_error(&self.path, e))?;
        self.partial = None;
        Ok(())
    }

    /// Adds an entry of any content, stored and aligned.
    pub(super) fn add_entry(&mut self, name: &str, parts: &[&[u8]]) -> Result<(), DumpError> {
        if !self.entries.insert(name.to_owned()) {
            return Err(DumpError::EntryTwice { path: self.path.clone(), entry: name.to_owned() });
        }
        let zip = self.zip.as_mut().expect("it is taken only by finish_with, which consumes the writer");
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

impl Drop for DumpWriter {
    fn drop(&mut self) {
        self.zip = None; // closes the file
        if let Some(partial) = &self.partial {
            let _ = fs::remove_file(partial); // nothing more can be done about a file that stays
        }
    }
}

/// Makes a new file beside `path`, under a name that no other writer uses.
fn create_partial(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "not a file name"))?;
    let mut number = 0u32;
    loop {
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(format!(".partial-{}-{number}", std::process::id()));
        let partial = path.with_file_name(partial);
        match File::create_new(&partial) {
            Ok(file) => return Ok((partial, file)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(e),
        }
    }
}

fn write_error(path: &Path, source: io::Error) -> DumpError {
    DumpError::Write { path: path.to_owned(), source }
}
