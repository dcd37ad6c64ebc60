//! Files that are not whole zips, or zips with more or less in them than a dump.

use super::*;

/// Central directory records start so; the entry's name follows 46 bytes after.
const RECORD: &[u8] = b"PK\x01\x02";

/// Where an entry's record in the directory starts.
fn record(bytes: &[u8], entry: &str) -> usize {
    let directory = find(bytes, RECORD);
    directory + find(&bytes[directory..], entry.as_bytes()) - 46
}

#[test]
fn rejects_what_is_not_a_zip() {
    assert_defect!(refused_bytes(|bytes| bytes.fill(b'x')), Defect::NotAnArchive { .. });
    assert_defect!(refused_bytes(|bytes| bytes.clear()), Defect::NotAnArchive { .. });
}

#[test]
fn rejects_a_file_that_was_cut_short_anywhere() {
    let (_folder, path) = sample();
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        assert_defect!(refused_bytes(|bytes| bytes.truncate(length)), Defect::NotAnArchive { .. });
    }
}

#[test]
fn rejects_bytes_after_the_end() {
    assert_defect!(refused_bytes(|bytes| bytes.push(0)), Defect::AfterTheEnd);
    let with_comment = |bytes: &mut Vec<u8>| {
        let length = bytes.len();
        bytes[length - 2] = 3; // the comment's length
        bytes.extend(b"abc");
    };
    assert_defect!(refused_bytes(with_comment), Defect::AfterTheEnd);
}

#[test]
fn rejects_bytes_before_the_start() {
    let prepend = |bytes: &mut Vec<u8>| drop(bytes.splice(0..0, [0; 64]));
    assert_defect!(refused_bytes(prepend), Defect::Gap { expected: 0, got: 64, .. });
}

#[test]
fn rejects_bytes_between_entries() {
    let shrink = |bytes: &mut Vec<u8>| {
        let record = record(bytes, "0/embd.npy");
        bytes[record + 20] -= 4; // compressed size
        bytes[record + 24] -= 4; // size
    };
    assert_defect!(refused_bytes(shrink), Defect::Gap { .. });
}

#[test]
fn rejects_an_entry_that_reaches_beyond_the_file() {
    let grow = |bytes: &mut Vec<u8>| {
        let record = record(bytes, "0/embd.npy");
        bytes[record + 23] = 0x7f;
        bytes[record + 27] = 0x7f;
    };
    assert_defect!(refused_bytes(grow), Defect::OutsideFile { .. });
}

#[test]
fn rejects_a_damaged_local_header() {
    let damage = |bytes: &mut Vec<u8>| bytes[0] = b'X';
    assert_defect!(refused_bytes(damage), Defect::LocalHeader { .. });
}

#[test]
fn rejects_a_damaged_payload() {
    for name in ["0/embd.npy", "0/inp_tokens.npy", "0/new_state.npy"] {
        let flip = |bytes: &mut Vec<u8>| {
            let npy = find(bytes, name.as_bytes());
            let payload = npy + find(&bytes[npy..], b"\n") + 1;
            bytes[payload + 5] ^= 0x10;
        };
        assert_defect!(refused_bytes(flip), Defect::Checksum { .. });
    }
}

#[test]
fn rejects_a_damaged_manifest() {
    let damage = |bytes: &mut Vec<u8>| {
        let at = find(bytes, b"qwen35");
        bytes[at] = b'Q';
    };
    assert_defect!(refused_bytes(damage), Defect::Checksum { .. });
}

#[test]
fn rejects_compressed_entries() {
    let deflated = |bytes: &mut Vec<u8>| {
        let record = record(bytes, "0/embd.npy");
        bytes[record + 10] = 8;
    };
    assert_defect!(refused_bytes(deflated), Defect::NotStored { .. });
    let smaller = |bytes: &mut Vec<u8>| {
        let record = record(bytes, "0/embd.npy");
        bytes[record + 20] -= 4;
    };
    assert_defect!(refused_bytes(smaller), Defect::NotStored { .. });
}

#[test]
fn rejects_encrypted_entries() {
    let encrypted = |bytes: &mut Vec<u8>| {
        let record = record(bytes, "0/embd.npy");
        bytes[record + 8] |= 1;
    };
    let defect = refused_bytes(encrypted);
    assert!(matches!(&defect, Defect::NotStored { how, .. } if how == "encrypted"), "{defect:?}");
}

#[test]
fn rejects_two_entries_of_one_name() {
    let rename = |bytes: &mut Vec<u8>| {
        let record = record(bytes, "1/embd.npy");
        bytes[record + 46] = b'0';
    };
    assert_defect!(refused_bytes(rename), Defect::DuplicateEntryNames);
}

#[test]
fn rejects_a_zip_without_manifest() {
    let rename = |bytes: &mut Vec<u8>| {
        let record = record(bytes, "manifest.json");
        bytes[record + 46] = b'M';
    };
    assert_defect!(refused_bytes(rename), Defect::NoManifest);
}

#[test]
fn a_file_that_is_not_there_is_an_io_error() {
    let missing = crate::dump::Dump::open("no/such/dump.npz".as_ref());
    assert!(matches!(missing, Err(DumpError::Io { .. })));
}
