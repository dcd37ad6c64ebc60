//! Type id 42, which two layouts have used.

use super::bytes::{Bytes, header};
use crate::gguf::GgufError;
use crate::tensor::GgmlType;

/// Two tensors of id 42, of 128 x 64 and 128 x 2 elements, the first with room for `first` bytes and the
/// second with `last`.
fn file(first: u64, last: usize) -> Bytes {
    let table = header(2, 0).tensor("a", &[128, 64], 42, 0).tensor("b", &[128, 2], 42, first);
    table.data(32, first as usize + last)
}

#[test]
fn blocks_of_64_are_q2_0() {
    let gguf = file(64 * 36, 96).accepted();
    let types: Vec<_> = gguf.tensors().iter().map(|t| (t.ty, t.bytes)).collect();
    assert_eq!(types, [(GgmlType::Q2_0, 64 * 36), (GgmlType::Q2_0, 2 * 36)]);
    assert!(gguf.notes().is_empty());
}

#[test]
fn blocks_of_128_are_pq2_0_also_where_padding_hides_it() {
    for last in [68, 96] {
        let gguf = file(64 * 34, last).accepted();
        let types: Vec<_> = gguf.tensors().iter().map(|t| (t.ty, t.bytes)).collect();
        assert_eq!(types, [(GgmlType::PQ2_0, 64 * 34), (GgmlType::PQ2_0, 2 * 34)]);
        assert_eq!(gguf.tensor("b").unwrap().data.len(), 68);
        assert!(
            gguf.notes()[0].starts_with("2 tensors of type id 42 have blocks of 128"),
            "{:?}",
            gguf.notes()
        );
    }
}

#[test]
fn small_tensors_alone_are_read_as_upstream_does_with_a_note() {
    let gguf = header(1, 0).tensor("b", &[128, 2], 42, 0).data(32, 96).accepted();
    assert_eq!(gguf.tensors()[0].ty, GgmlType::Q2_0);
    assert!(gguf.notes()[0].contains("read as q2_0"), "{:?}", gguf.notes());
}

#[test]
fn rows_of_whole_64_blocks_only_are_q2_0() {
    let gguf = header(1, 0).tensor("b", &[64, 2], 42, 0).data(32, 64).accepted();
    assert_eq!((gguf.tensors()[0].ty, gguf.tensors()[0].bytes), (GgmlType::Q2_0, 36));
    assert!(gguf.notes().is_empty());
}

#[test]
fn rejects_room_that_suits_neither_layout() {
    let error = file(64 * 35, 96).refused();
    assert!(
        matches!(&error, GgufError::Id42 { name, got: 2240, upstream: 2304, prism: 2176 } if name == "a"),
        "{error:?}"
    );
}

#[test]
fn rejects_tensors_that_suit_different_layouts() {
    let table = header(2, 0).tensor("a", &[128, 64], 42, 0).tensor("b", &[128, 64], 42, 64 * 36);
    let error = table.data(32, 64 * 36 + 64 * 34).refused();
    assert!(matches!(&error, GgufError::Id42 { name, got: 2176, .. } if name == "b"), "{error:?}");
}

#[test]
fn rejects_a_truncated_file_that_would_be_over_read() {
    let error = file(64 * 36, 40).refused();
    assert!(matches!(&error, GgufError::Id42 { name, got: 40, .. } if name == "b"), "{error:?}");
}
