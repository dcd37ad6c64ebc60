//! Tests of the dump as a whole: what is written is read, and each defect is refused by its own error.

mod container;
mod entries;
mod graph;
mod json;
mod mutations;
mod schedule;
mod selection;
mod values;

use std::fs;

use serde_json::Value;

use super::sample::{Payload, manifest, open_all, payloads, sample, write};
use super::{Defect, DumpError, Manifest};

/// The defect found in the sample after a change of its manifest or payloads.
fn refused(change: impl FnOnce(&mut Manifest, &mut Vec<Payload>)) -> Defect {
    let (mut manifest, mut payloads) = (manifest(), payloads());
    change(&mut manifest, &mut payloads);
    let (_folder, path) = write(&payloads, |writer| writer.finish(&manifest).unwrap());
    defect(open_all(&path).map(|_| ()))
}

/// The defect found in the sample after a change of its manifest's JSON.
fn refused_json(change: impl FnOnce(&mut Value)) -> Defect {
    let mut json = sample_json();
    change(&mut json);
    let json = serde_json::to_vec(&json).unwrap();
    let (_folder, path) = write(&payloads(), |writer| writer.finish_with(&json).unwrap());
    defect(open_all(&path).map(|_| ()))
}

/// The defect found in the sample with any bytes as the entry of one of its payloads.
fn refused_entry(entry: &str, parts: &[&[u8]]) -> Defect {
    let mut payloads = payloads();
    payloads.retain(|payload| payload.0 != entry);
    let (_folder, path) = write(&payloads, |mut writer| {
        writer.add_entry(&format!("{entry}.npy"), parts).unwrap();
        writer.finish(&manifest()).unwrap();
    });
    defect(open_all(&path).map(|_| ()))
}

/// The defect found in the sample after a change of the file's bytes.
fn refused_bytes(change: impl FnOnce(&mut Vec<u8>)) -> Defect {
    let (_folder, path) = sample();
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    defect(open_all(&path).map(|_| ()))
}

fn defect(result: Result<(), DumpError>) -> Defect {
    match result {
        Err(DumpError::Refused { defect, path }) => {
            let message = DumpError::Refused { path, defect: defect.clone() }.to_string();
            assert!(message.starts_with("read dump ") && message.len() > 40, "{message}");
            *defect
        }
        other => panic!("expected a defect, got {other:?}"),
    }
}

/// The sample's manifest as JSON.
fn sample_json() -> Value {
    let (_folder, path) = sample();
    let bytes = fs::read(path).unwrap();
    let at = find(&bytes, b"{\"format\"");
    let end = find(&bytes, b"PK\x01\x02"); // the directory follows the manifest
    serde_json::from_slice(&bytes[at..end]).unwrap()
}

/// Where a string of bytes starts.
fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

/// Asserts that a defect is of a variant, and shows it if not.
macro_rules! assert_defect {
    ($defect:expr, $pattern:pat) => {{
        let defect = $defect;
        assert!(matches!(&defect, $pattern), "{defect:?}");
    }};
}
use assert_defect;
