//! Whatever the bytes of a file are, reading it gives values or an error, never a panic.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::dump::npy;
use crate::tensor::GgmlType::F32;

/// Applies changes `(where, what)` to bytes: overwrite, insert, remove or repeat a piece.
fn mutate(bytes: &mut Vec<u8>, changes: &[(usize, u8, u8)]) {
    for &(at, kind, byte) in changes {
        if bytes.is_empty() {
            return;
        }
        let at = at % bytes.len();
        match kind % 6 {
            0 | 1 => bytes[at] = byte,
            2 => bytes[at] = b"0123456789-[]{},:\"e."[byte as usize % 20],
            3 => bytes.insert(at, byte),
            4 => drop(bytes.drain(at..(at + byte as usize).min(bytes.len()))),
            _ => {
                let piece = bytes[at..(at + byte as usize).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8, u8)>> {
    prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..4)
}

/// Reads everything; an error must have a message.
fn read(path: &std::path::Path) {
    if let Err(e) = open_all(path) {
        assert!(!e.to_string().is_empty());
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..Default::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_file_is_read_or_refused(changes in changes()) {
        let (_folder, path) = sample();
        let mut bytes = fs::read(&path).unwrap();
        mutate(&mut bytes, &changes);
        fs::write(&path, bytes).unwrap();
        read(&path);
    }

    #[test]
    fn any_manifest_is_read_or_refused(changes in changes()) {
        let mut json = serde_json::to_vec(&sample_json()).unwrap();
        mutate(&mut json, &changes);
        let (_folder, path) = write(&payloads(), |writer| writer.finish_with(&json).unwrap());
        read(&path);
    }

    #[test]
    fn any_number_in_a_manifest_is_read_or_refused(
        node in 0..15usize, field in 0..6usize, at in 0..4usize, n in any::<i64>(), shift in 0..63u32,
    ) {
        let mut json = sample_json();
        let field = ["ne", "nb", "id", "step", "occurrence", "view_of"][field];
        let value = match &mut json["nodes"][node][field] {
            Value::Array(numbers) => &mut numbers[at],
            Value::Object(view) => &mut view["offset"],
            value => value,
        };
        *value = (n >> shift).into();
        let json = serde_json::to_vec(&json).unwrap();
        let (_folder, path) = write(&payloads(), |writer| writer.finish_with(&json).unwrap());
        read(&path);
    }

    #[test]
    fn any_npy_header_is_read_or_refused(changes in changes()) {
        let mut header = npy::header(F32, [4, 3, 1, 1]).unwrap();
        mutate(&mut header, &changes);
        let _ = npy::Reader::default().read("e", 0, &header).map(|header| header.payload_bytes);
    }
}
