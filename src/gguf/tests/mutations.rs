//! Damaged files: whatever the bytes, the reader returns, and what it accepts is readable.

use super::bytes::header;
use crate::gguf::Gguf;
use proptest::collection::vec;
use proptest::prelude::*;

/// A file with keys of several types, and tensors of several types.
fn valid() -> Vec<u8> {
    let keys = header(4, 5).key_u32("general.alignment", 64).key_u32("split.count", 1);
    let keys = keys.string(b"name").u32(8).string("caf\u{e9}".as_bytes());
    let keys = keys.string(b"tokens").u32(9).u32(8).u64(3).string(b"a").string(b"").string(b"bc");
    let keys = keys.string(b"flags").u32(9).u32(7).u64(4).raw(&[1, 0, 1, 1]);
    let table = keys.tensor("a", &[128, 16], 42, 0).tensor("b", &[32, 2, 1, 1], 8, 576);
    table.tensor("c", &[3], 0, 704).tensor("d", &[128], 142, 768).data(64, 802).0
}

/// Opens the bytes and reads everything that is handed out.
fn read_all(bytes: Vec<u8>) {
    let length = bytes.len() as u64;
    let Ok(gguf) = Gguf::from_bytes(bytes) else { return };
    let mut sum = 0;
    for info in gguf.tensors() {
        let tensor = gguf.tensor(&info.name).expect("a tensor of the table");
        assert_eq!(tensor.info, info);
        assert_eq!(tensor.data.len() as u64, info.bytes);
        sum += info.bytes;
    }
    assert!(sum <= length, "tensors share bytes");
    assert_eq!(gguf.metadata().iter().filter(|(key, _)| gguf.metadata().get(key).is_none()).count(), 0);
}

#[test]
fn the_undamaged_file_is_valid() {
    assert_eq!(Gguf::from_bytes(valid()).unwrap().tensors().len(), 4);
}

#[test]
fn every_truncation_is_refused() {
    let bytes = valid();
    for length in 0..bytes.len() {
        assert!(Gguf::from_bytes(bytes[..length].to_vec()).is_err(), "accepted {length} bytes");
    }
}

#[test]
fn every_byte_set_to_extremes_never_panics() {
    let bytes = valid();
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            read_all(damaged);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn random_damage_never_panics(
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..12),
        words in vec((any::<proptest::sample::Index>(), proptest::sample::select(vec![0, 1, 1 << 32, 1 << 62, u64::MAX])), 0..3),
        length in proptest::option::weighted(0.3, any::<proptest::sample::Index>()),
    ) {
        let mut bytes = valid();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for (at, value) in words {
            let at = at.index(bytes.len() - 8);
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        read_all(bytes);
    }

    #[test]
    fn random_bytes_after_the_magic_never_panic(tail in vec(any::<u8>(), 0..200)) {
        read_all([b"GGUF\x03\0\0\0".as_slice(), &tail].concat());
    }
}
