//! Models that are split over several files, as `llama-gguf-split` writes them.
//!
//! Each part is a GGUF file named `<prefix>-00001-of-00003.gguf`. Its metadata holds `split.no` (which
//! part, from 0), `split.count`, and `split.tensors.count` (tensors of all parts together). The model's
//! own metadata is in the first part. A merged model may keep `split.count` as 0.
//!
//! Source: `llama_split_path` in llama.cpp, and llama-model-loader.cpp.
#![deny(clippy::indexing_slicing)]

use super::GgufError;
use super::part::Part;
use std::path::{Path, PathBuf};

pub(super) const NO_KEY: &str = "split.no";
pub(super) const COUNT_KEY: &str = "split.count";
pub(super) const TENSORS_KEY: &str = "split.tensors.count";
/// File names number the parts with five digits, llama.cpp counts them in 16 bits.
const MAX_PARTS: u64 = 65_535;

/// All parts of the model that `opened` is a part of, in order; itself alone if it is not split.
pub(super) fn open_parts(opened: Part) -> Result<Vec<Part>, GgufError> {
    let count = part_count(&opened)?;
    if count <= 1 {
        return Ok(vec![opened]);
    }
    let number = part_number(&opened)?;
    if number >= count {
        let cause = GgufError::SplitNumber { expected: count - 1, got: number };
        return Err(cause.in_file(&opened.path));
    }
    let prefix = prefix(&opened.path, number, count)?;
    let mut parts = Vec::new();
    let mut opened = Some(opened);
    for expected in 0..count {
        let part = match opened.take_if(|_| expected == number) {
            Some(part) => part,
            None => open_part(&prefix, expected, count)?,
        };
        check_part(&part, expected, count).map_err(|cause| cause.in_file(&part.path))?;
        parts.push(part);
    }
    check_tensor_count(&parts)?;
    Ok(parts)
}

fn part_count(part: &Part) -> Result<u64, GgufError> {
    let count = part.header.metadata.optional_u64(COUNT_KEY).map_err(|cause| cause.in_file(&part.path))?;
    match count.unwrap_or(0) {
        got if got > MAX_PARTS => Err(GgufError::SplitTooMany { got, limit: MAX_PARTS }.in_file(&part.path)),
        count => Ok(count),
    }
}

fn part_number(part: &Part) -> Result<u64, GgufError> {
    part.header.metadata.u64(NO_KEY).map_err(|cause| cause.in_file(&part.path))
}

/// The end of a part's file name.
fn suffix(number: u64, count: u64) -> String {
    format!("-{:05}-of-{count:05}.gguf", number + 1)
}

/// A part's path without [`suffix`].
fn prefix(path: &Path, number: u64, count: u64) -> Result<PathBuf, GgufError> {
    let expected = suffix(number, count);
    let name = path.file_name().and_then(|name| name.to_str());
    match name.and_then(|name| name.strip_suffix(&expected)).filter(|prefix| !prefix.is_empty()) {
        Some(prefix) => Ok(path.with_file_name(prefix)),
        None => Err(GgufError::SplitFileName { path: path.to_path_buf(), expected }),
    }
}

fn open_part(prefix: &Path, number: u64, count: u64) -> Result<Part, GgufError> {
    let mut path = prefix.as_os_str().to_owned();
    path.push(suffix(number, count));
    let path = PathBuf::from(path);
    match Part::open(&path) {
        Err(GgufError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(GgufError::SplitPartMissing { path, part: number + 1, count })
        }
        other => other,
    }
}

fn check_part(part: &Part, expected_number: u64, expected_count: u64) -> Result<(), GgufError> {
    let metadata = &part.header.metadata;
    let count = metadata.u64(COUNT_KEY)?;
    if count != expected_count {
        return Err(GgufError::SplitCount { expected: expected_count, got: count });
    }
    let number = metadata.u64(NO_KEY)?;
    if number != expected_number {
        return Err(GgufError::SplitNumber { expected: expected_number, got: number });
    }
    Ok(())
}

/// The first part must state the total; the others may, and must agree.
fn check_tensor_count(parts: &[Part]) -> Result<(), GgufError> {
    let got = parts.iter().map(|part| part.header.tensors.len() as u64).sum();
    for (i, part) in parts.iter().enumerate() {
        let metadata = &part.header.metadata;
        let stated = match i {
            0 => metadata.u64(TENSORS_KEY).map(Some),
            _ => metadata.optional_u64(TENSORS_KEY),
        };
        match stated.map_err(|cause| cause.in_file(&part.path))? {
            Some(expected) if expected != got => {
                return Err(GgufError::SplitTensorCount { expected, got }.in_file(&part.path));
            }
            _ => {}
        }
    }
    Ok(())
}
