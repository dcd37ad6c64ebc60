//! Models in several files.

use super::bytes::{Bytes, header};
use crate::gguf::{Gguf, GgufError};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a part says about itself, beside its one tensor.
#[derive(Clone, Copy)]
struct Part {
    no: u32,
    count: u32,
    tensors: u32,
    name: &'static str,
}

impl Part {
    fn bytes(self) -> Vec<u8> {
        let keys = header(1, 4).key_u32("qwen35.block_count", 2).key_u32("split.no", self.no);
        let keys = keys.key_u32("split.count", self.count).key_u32("split.tensors.count", self.tensors);
        let mut bytes = keys.tensor(self.name, &[2], 0, 0).data(32, 8).0;
        *bytes.last_mut().unwrap() = self.no as u8;
        bytes
    }
}

const GOOD: [Part; 3] = [
    Part { no: 0, count: 3, tensors: 3, name: "token_embd.weight" },
    Part { no: 1, count: 3, tensors: 3, name: "blk.0.attn_norm.weight" },
    Part { no: 2, count: 3, tensors: 3, name: "output.weight" },
];

fn part_path(folder: &Path, part: usize) -> PathBuf {
    folder.join(format!("model-{part:05}-of-00003.gguf"))
}

fn written(parts: &[Part; 3]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (i, part) in parts.iter().enumerate() {
        fs::write(part_path(folder.path(), i + 1), part.bytes()).unwrap();
    }
    folder
}

/// The error of opening the first of three parts, one of them changed.
fn refused(change: impl FnOnce(&mut [Part; 3])) -> GgufError {
    let mut parts = GOOD;
    change(&mut parts);
    let folder = written(&parts);
    Gguf::open(&part_path(folder.path(), 1)).unwrap_err()
}

#[test]
fn any_part_opens_the_whole_model() {
    let folder = written(&GOOD);
    for opened in 1..=3 {
        let gguf = Gguf::open(&part_path(folder.path(), opened)).unwrap();
        assert_eq!(gguf.path(), part_path(folder.path(), opened));
        assert_eq!(gguf.paths().count(), 3);
        let names: Vec<_> = gguf.tensors().iter().map(|t| (t.name.as_str(), t.part)).collect();
        assert_eq!(names, [("token_embd.weight", 0), ("blk.0.attn_norm.weight", 1), ("output.weight", 2)]);
        assert_eq!(gguf.tensor("output.weight").unwrap().data, [0, 0, 0, 0, 0, 0, 0, 2]);
        // A copy of this metadata into one file must not claim to be a part.
        assert_eq!(gguf.metadata().iter().map(|(key, _)| key).collect::<Vec<_>>(), ["qwen35.block_count"]);
        assert_eq!(gguf.metadata().u32("qwen35.block_count").unwrap(), 2);
    }
}

#[test]
fn a_merged_model_is_one_file() {
    let gguf = Bytes(Part { no: 0, count: 0, tensors: 9, name: "a" }.bytes()).accepted();
    assert_eq!(gguf.paths().count(), 1);
}

#[test]
fn rejects_a_missing_part() {
    let folder = written(&GOOD);
    fs::remove_file(part_path(folder.path(), 2)).unwrap();
    let error = Gguf::open(&part_path(folder.path(), 1)).unwrap_err();
    let missing = part_path(folder.path(), 2);
    assert!(
        matches!(&error, GgufError::SplitPartMissing { path, part: 2, count: 3 } if *path == missing),
        "{error:?}"
    );
}

#[test]
fn rejects_a_part_in_anothers_place() {
    let error = refused(|parts| parts[1].no = 2);
    assert!(matches!(error.cause(), GgufError::SplitNumber { expected: 1, got: 2 }), "{error:?}");
    let error = refused(|parts| parts[0].no = 3);
    assert!(matches!(error.cause(), GgufError::SplitNumber { expected: 2, got: 3 }), "{error:?}");
}

#[test]
fn rejects_parts_of_different_counts() {
    let error = refused(|parts| parts[2].count = 4);
    assert!(matches!(error.cause(), GgufError::SplitCount { expected: 3, got: 4 }), "{error:?}");
}

#[test]
fn rejects_a_wrong_total_of_tensors() {
    let error = refused(|parts| parts[0].tensors = 1);
    assert!(matches!(error.cause(), GgufError::SplitTensorCount { expected: 1, got: 3 }), "{error:?}");
    let error = refused(|parts| parts[2].tensors = 4);
    assert!(matches!(error.cause(), GgufError::SplitTensorCount { expected: 4, got: 3 }), "{error:?}");
}

#[test]
fn rejects_more_parts_than_names_can_number() {
    let error = refused(|parts| parts[0].count = 65_536);
    assert!(matches!(error.cause(), GgufError::SplitTooMany { got: 65_536, .. }), "{error:?}");
}

#[test]
fn rejects_a_part_that_was_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, GOOD[1].bytes()).unwrap();
    let error = Gguf::open(&path).unwrap_err();
    assert!(
        matches!(&error, GgufError::SplitFileName { expected, .. } if expected == "-00002-of-00003.gguf"),
        "{error:?}"
    );
}

#[test]
fn rejects_a_part_without_its_number() {
    let error = header(0, 1).key_u32("split.count", 2).refused();
    assert!(matches!(&error, GgufError::MissingKey { key, .. } if key == "split.no"), "{error:?}");
}

#[test]
fn rejects_a_tensor_in_two_parts() {
    let error = refused(|parts| parts[2].name = parts[0].name);
    assert!(
        matches!(error.cause(), GgufError::DuplicateTensor { name } if name == "token_embd.weight"),
        "{error:?}"
    );
}
