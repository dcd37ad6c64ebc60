//! The zip container over a memory map: where each entry's bytes lie.

#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;
use std::fs::File;
use std::io::Cursor;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::Mmap;
use zip::{CompressionMethod, ZipArchive};

use super::error::Defect;

/// Length of a zip's end record when it carries no comment.
const END_RECORD_BYTES: usize = 22;
/// How a zip's end record starts.
const END_RECORD_MAGIC: &[u8] = b"PK\x05\x06";

/// One entry of the zip.
pub(super) struct Entry {
    /// Its name, `.npy` included.
    pub(super) name: String,
    /// The file offset of its local header.
    header_at: u64,
    /// The file offset of its data.
    pub(super) start: usize,
    /// The file offset after its data.
    end: usize,
    crc: u32,
    verified: AtomicBool,
}

/// The mapped file and its entries in order of offset.
pub(super) struct Archive {
    map: Mmap,
    pub(super) entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

/// Maps a file.
#[allow(unsafe_code)]
pub(super) fn map(path: &Path) -> std::io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the map is private to this module and only read. As with every map of a file, it is on
    // the user not to cut the file short or rewrite it while it is open; a finished dump appears by a
    // rename and is never written to again.
    unsafe { Mmap::map(&file) }
}

impl Archive {
    /// Reads the directory and checks that the entries, stored and without gaps, make up the file.
    pub(super) fn new(map: Mmap) -> Result<Archive, Defect> {
        let entries = read_directory(&map)?;
        let by_name = entries.iter().enumerate().map(|(i, entry)| (entry.name.clone(), i)).collect();
        Ok(Archive { map, entries, by_name })
    }

    /// The entry of this name.
    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).and_then(|&i| self.entries.get(i))
    }

    /// An entry's bytes, without looking at their checksum.
    pub(super) fn peek(&self, entry: &Entry) -> &[u8] {
        self.map.get(entry.start..entry.end).unwrap_or_default()
    }

    /// An entry's bytes. The first call for an entry verifies its checksum.
    pub(super) fn bytes(&self, entry: &Entry) -> Result<&[u8], Defect> {
        let bytes = self.peek(entry);
        if !entry.verified.load(Ordering::Relaxed) {
            let got = crc32fast::hash(bytes);
            if got != entry.crc {
                let (entry, offset, expected) = (entry.name.clone(), entry.start, entry.crc);
                return Err(Defect::Checksum { entry, offset, expected, got });
            }
            entry.verified.store(true, Ordering::Relaxed);
        }
        Ok(bytes)
    }
}

fn read_directory(file: &[u8]) -> Result<Vec<Entry>, Defect> {
    let broken = |e: zip::result::ZipError| Defect::NotAnArchive { detail: e.to_string() };
    let mut zip = ZipArchive::new(Cursor::new(file)).map_err(broken)?;
    let end_record = file.len().checked_sub(END_RECORD_BYTES).and_then(|at| file.get(at..));
    if !zip.comment().is_empty() || !end_record.is_some_and(|end| end.starts_with(END_RECORD_MAGIC)) {
        return Err(Defect::AfterTheEnd);
    }
    if zip.has_duplicate_names() {
        return Err(Defect::DuplicateEntryNames);
    }
    let directory_at = zip.central_directory_start();
    let mut entries = Vec::with_capacity(zip.len());
    for i in 0..zip.len() {
        entries.push(read_entry(&mut zip, i, file.len() as u64)?);
    }
    check_gaps(&mut entries, directory_at)?;
    Ok(entries)
}

/// Checks one entry's local header: stored, and within the file.
fn read_entry(zip: &mut ZipArchive<Cursor<&[u8]>>, i: usize, have: u64) -> Result<Entry, Defect> {
    let name = match zip.name_for_index(i) {
        Some(Ok(name)) => name.into_owned(),
        Some(Err(e)) => return Err(local_header(format!("number {i}"), e)),
        None => return Err(local_header(format!("number {i}"), "it has no name")),
    };
    let entry = zip.by_index_raw(i).map_err(|e| local_header(name.clone(), e))?;
    let not_stored = |how: String| Defect::NotStored { entry: name.clone(), how };
    if entry.encrypted() {
        return Err(not_stored("encrypted".into()));
    }
    if entry.compression() != CompressionMethod::Stored {
        return Err(not_stored(format!("compressed ({})", entry.compression())));
    }
    if entry.size() != entry.compressed_size() {
        return Err(not_stored(format!("{} bytes, stored in {}", entry.size(), entry.compressed_size())));
    }
    let start = entry.data_start().ok_or_else(|| local_header(name.clone(), "its data has no offset"))?;
    let end = start.saturating_add(entry.size());
    let (Ok(first), Ok(last)) = (usize::try_from(start), usize::try_from(end)) else {
        return Err(Defect::OutsideFile { entry: name, start, end, have });
    };
    if end > have {
        return Err(Defect::OutsideFile { entry: name, start, end, have });
    }
    let (header_at, crc) = (entry.header_start(), entry.crc32());
    drop(entry);
    Ok(Entry { name, header_at, start: first, end: last, crc, verified: AtomicBool::new(false) })
}

/// Checks that each entry starts where the one before it ends, and the directory after the last.
fn check_gaps(entries: &mut [Entry], directory_at: u64) -> Result<(), Defect> {
    entries.sort_by_key(|entry| entry.header_at);
    let mut expected = 0;
    for entry in entries {
        if entry.header_at != expected {
            let what = format!("entry {}", entry.name);
            return Err(Defect::Gap { what, expected, got: entry.header_at });
        }
        expected = entry.end as u64;
    }
    if directory_at != expected {
        return Err(Defect::Gap { what: "the zip's directory".into(), expected, got: directory_at });
    }
    Ok(())
}

fn local_header(entry: String, detail: impl ToString) -> Defect {
    Defect::LocalHeader { entry, detail: detail.to_string() }
}
