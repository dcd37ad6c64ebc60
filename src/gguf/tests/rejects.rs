//! One broken file for each cause that a single file can be refused for.

use super::bytes::{Bytes, header};
use crate::gguf::{Gguf, GgufError};
use std::path::Path;

const F32: u32 = 0;
const Q8_0: u32 = 8;

macro_rules! rejects {
    ($($name:ident: $bytes:expr => $pattern:pat $(if $guard:expr)?,)*) => {$(
        #[test]
        fn $name() {
            let error = $bytes.refused();
            assert!(matches!(&error, $pattern $(if $guard)?), "{error:?}");
        }
    )*};
}

/// One tensor of two f32 at `offset`, with 8 bytes of data.
fn one_tensor(ne: &[u64], type_id: u32, offset: u64) -> Bytes {
    header(1, 0).tensor("t", ne, type_id, offset).data(32, 8)
}

fn two_tensors(second: &str, offset: u64) -> Bytes {
    header(2, 0).tensor("t", &[10], F32, 0).tensor(second, &[2], F32, offset).data(32, 72)
}

rejects! {
    rejects_another_magic: Bytes::default().raw(b"version https://git-lfs")
        => GgufError::Magic { got } if got == b"vers",
    rejects_big_endian: Bytes::default().raw(b"GGUF").raw(&3u32.to_be_bytes()).data(1, 64)
        => GgufError::BigEndian,
    rejects_a_reversed_magic: Bytes::default().raw(b"FUGG").data(1, 64) => GgufError::BigEndian,
    rejects_version_1: Bytes::default().raw(b"GGUF").u32(1).data(1, 64) => GgufError::Version1,
    rejects_version_4: Bytes::default().raw(b"GGUF").u32(4).data(1, 64) => GgufError::Version { got: 4 },
    rejects_version_0: Bytes::default().raw(b"GGUF").u32(0).data(1, 64) => GgufError::Version { got: 0 },

    rejects_an_empty_file: Bytes::default()
        => GgufError::Truncated { what: "magic", offset: 0, needed: 4, remaining: 0 },
    rejects_a_header_cut_short: Bytes::default().raw(b"GGUF").u32(3).u64(0).u32(0)
        => GgufError::Truncated { what: "key count", offset: 16, needed: 8, remaining: 4 },
    rejects_too_many_tensors: header(u64::MAX, 0).data(1, 64)
        => GgufError::CountAboveLimit { what: "tensors", got: u64::MAX, .. },
    rejects_too_many_keys: header(0, 1 << 40).data(1, 64)
        => GgufError::CountAboveLimit { what: "metadata keys", .. },
    rejects_tensors_that_cannot_fit: header(1000, 0).data(1, 64)
        => GgufError::CountBeyondFile { what: "tensors", got: 1000, needed: 33000, remaining: 64 },
    rejects_keys_that_cannot_fit: header(0, 5).data(1, 64)
        => GgufError::CountBeyondFile { what: "metadata keys", got: 5, needed: 70, remaining: 64 },
    rejects_an_array_that_cannot_fit: header(0, 1).string(b"k").u32(9).u32(8).u64(1 << 20).data(1, 64)
        => GgufError::CountBeyondFile { what: "array elements", got: 0x100000, .. },
    rejects_an_array_whose_size_wraps: header(0, 1).string(b"k").u32(9).u32(10).u64(1 << 61).data(1, 64)
        => GgufError::CountAboveLimit { what: "array elements", .. },

    rejects_a_string_of_1_gib: header(0, 1).string(b"k").u32(8).u64(1 << 30).data(1, 64)
        => GgufError::StringTooLong { what: "string value", offset: 37, got: 0x4000_0000, .. },
    rejects_a_string_beyond_the_file: header(0, 1).string(b"k").u32(8).u64(65).data(1, 64)
        => GgufError::Truncated { what: "string value", needed: 65, .. },
    rejects_a_long_key: header(0, 1).u64(1 << 16).data(1, 1 << 17)
        => GgufError::StringTooLong { what: "metadata key", limit: 65535, .. },
    rejects_a_long_tensor_name: header(1, 0).tensor(&"x".repeat(64), &[2], F32, 0).data(32, 8)
        => GgufError::StringTooLong { what: "tensor name", got: 64, limit: 63, .. },
    rejects_a_tensor_name_of_other_bytes: header(1, 0).string(b"ab\xff").data(1, 64)
        => GgufError::NotUtf8 { what: "tensor name", offset: 24, valid: 2 },
    rejects_a_key_of_other_bytes: header(0, 1).string(b"\xc3").u32(0).raw(&[1])
        => GgufError::NotUtf8 { what: "metadata key", valid: 0, .. },

    rejects_an_empty_key: header(0, 1).key_u32("", 1) => GgufError::EmptyKey,
    rejects_a_key_twice: header(0, 2).key_u32("k", 1).key_u32("k", 1)
        => GgufError::DuplicateKey { key } if key == "k",
    rejects_an_unknown_value_type: header(0, 1).string(b"k").u32(13).u32(0)
        => GgufError::UnknownValueType { got: 13, .. },
    rejects_an_unknown_array_type: header(0, 1).string(b"k").u32(9).u32(99).u64(0)
        => GgufError::UnknownValueType { got: 99, .. },
    rejects_an_array_of_arrays: header(0, 1).string(b"k").u32(9).u32(9).u64(1).u32(4).u64(0)
        => GgufError::NestedArray { key } if key == "k",
    rejects_a_bool_of_2: header(0, 1).string(b"k").u32(7).raw(&[2])
        => GgufError::BoolByte { offset: 37, got: 2 },

    rejects_alignment_0: header(0, 1).key_u32("general.alignment", 0) => GgufError::Alignment { got: 0 },
    rejects_alignment_48: header(0, 1).key_u32("general.alignment", 48) => GgufError::Alignment { got: 48 },
    rejects_alignment_1_gib: header(0, 1).key_u32("general.alignment", 1 << 30)
        => GgufError::Alignment { got: 0x4000_0000 },
    rejects_an_alignment_of_type_u64: header(0, 1).string(b"general.alignment").u32(10).u64(32)
        => GgufError::KeyType { expected: "u32", got, .. } if got == "u64",

    rejects_an_empty_tensor_name: header(1, 0).tensor("", &[2], F32, 0).data(32, 8)
        => GgufError::EmptyTensorName,
    rejects_0_dimensions: header(1, 0).tensor("t", &[], F32, 0).data(32, 8)
        => GgufError::DimensionCount { got: 0, .. },
    rejects_5_dimensions: one_tensor(&[2, 1, 1, 1, 1], F32, 0) => GgufError::DimensionCount { got: 5, .. },
    rejects_4294967295_dimensions: header(1, 0).string(b"t").u32(u32::MAX).data(32, 64)
        => GgufError::DimensionCount { got: u32::MAX, .. },
    rejects_an_extent_of_0: one_tensor(&[2, 0], F32, 0) => GgufError::ZeroDimension { dimension: 1, .. },
    rejects_a_removed_type: one_tensor(&[32], 4, 0) => GgufError::UnknownType { got: 4, .. },
    rejects_an_unknown_type: one_tensor(&[2], u32::MAX, 0) => GgufError::UnknownType { got: u32::MAX, .. },
    rejects_half_a_block: one_tensor(&[48], Q8_0, 0) => GgufError::PartialBlock { expected: 32, got: 48, .. },
    rejects_a_row_whose_size_wraps: one_tensor(&[1 << 62], F32, 0) => GgufError::SizeOverflow { .. },
    rejects_extents_whose_product_wraps: one_tensor(&[2, 1 << 32, 1 << 32], F32, 0)
        => GgufError::SizeOverflow { ne: [2, _, _, 1], .. },
    rejects_an_offset_off_the_alignment: one_tensor(&[2], F32, 8)
        => GgufError::Misaligned { offset: 8, alignment: 32, .. },
    rejects_an_offset_that_wraps: one_tensor(&[2], F32, u64::MAX - 31) => GgufError::OffsetOverflow { .. },
    rejects_an_end_that_wraps: one_tensor(&[1 << 60], F32, u64::MAX - (1 << 62) - 31)
        => GgufError::OffsetOverflow { .. },
    rejects_a_tensor_beyond_the_file: one_tensor(&[3], F32, 0)
        => GgufError::BeyondFile { end: 76, file_bytes: 72, .. },
    rejects_an_offset_beyond_the_file: one_tensor(&[2], F32, 32) => GgufError::BeyondFile { .. },
    rejects_tensors_that_overlap: two_tensors("u", 32)
        => GgufError::Overlap { first, second, .. } if first == "t" && second == "u",
    rejects_tensors_at_one_place: two_tensors("u", 0) => GgufError::Overlap { .. },
    rejects_a_tensor_twice: two_tensors("t", 64) => GgufError::DuplicateTensor { name } if name == "t",
}

#[test]
fn accepts_what_the_broken_files_were_made_from() {
    let gguf = two_tensors("u", 64).accepted();
    let names: Vec<_> = gguf.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["t", "u"]);
    let second = gguf.tensor("u").unwrap();
    assert_eq!((second.info.ne, second.data.len()), ([2, 1, 1, 1], 8));
    assert!(gguf.tensor("v").is_none());
    assert!(gguf.notes().is_empty());
    one_tensor(&[2], F32, 0).accepted();
}

#[test]
fn accepts_version_2_and_an_alignment_of_64() {
    let file = Bytes::default().raw(b"GGUF").u32(2).u64(2).u64(1).key_u32("general.alignment", 64);
    let file = file.tensor("t", &[2], F32, 64).tensor("u", &[2], F32, 0).data(64, 72);
    let gguf = file.accepted();
    assert_eq!((gguf.version(), gguf.alignment()), (2, 64));
    assert_eq!(gguf.tensor("t").unwrap().data.len(), 8);
}

#[test]
fn accepts_a_file_without_tensors_or_padding() {
    let gguf = header(0, 1).key_u32("k", 7).accepted();
    assert_eq!(gguf.metadata().u64("k").unwrap(), 7);
    assert_eq!(gguf.file_bytes(), 41);
}

#[test]
fn rejects_a_file_that_is_not_there() {
    let error = Gguf::open(Path::new("/nowhere/model.gguf")).unwrap_err();
    assert!(matches!(error, GgufError::Io { operation: "open", .. }), "{error:?}");
    assert!(error.to_string().starts_with("open /nowhere/model.gguf: "), "{error}");
}

#[test]
fn an_error_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, one_tensor(&[48], Q8_0, 0).0).unwrap();
    let error = Gguf::open(&path).unwrap_err();
    assert!(matches!(&error, GgufError::InFile { path: named, .. } if *named == path));
    assert!(matches!(error.cause(), GgufError::PartialBlock { .. }));
    let cause = "tensor `t`: rows of 48 elements, expected a multiple of 32, the block of q8_0";
    assert_eq!(error.to_string(), format!("{}: {cause}", path.display()));
}
