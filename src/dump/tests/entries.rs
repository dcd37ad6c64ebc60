//! `.npy` entries that do not fit the tensors that name them.

use super::*;
use crate::dump::npy;
use crate::tensor::GgmlType::{F16, F32, I32};

const EMBD: [u64; 4] = [4, 3, 1, 1];

fn npy_with_header(text: &str) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend([0; 48]);
    bytes
}

#[test]
fn rejects_what_is_not_npy() {
    assert_defect!(refused_entry("0/embd", &[b"hello"]), Defect::NpyHeader { .. });
    let mut version_2 = npy::header(F32, EMBD).unwrap();
    version_2[6] = 2;
    assert_defect!(refused_entry("0/embd", &[&version_2, &[0; 48]]), Defect::NpyHeader { .. });
    let no_shape = npy_with_header("{'descr': '<f4', 'fortran_order': False, 'form': (3, 4), }\n");
    assert_defect!(refused_entry("0/embd", &[&no_shape]), Defect::NpyHeader { .. });
}

#[test]
fn rejects_fortran_order() {
    let fortran = npy_with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }\n");
    assert_defect!(refused_entry("0/embd", &[&fortran]), Defect::FortranOrder { .. });
}

#[test]
fn rejects_another_dtype() {
    assert_defect!(refused(|_, payloads| payloads[1].2 = I32), Defect::Dtype { expected: "<f4", .. });
    let big_endian = npy_with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }\n");
    assert_defect!(refused_entry("0/embd", &[&big_endian]), Defect::Dtype { expected: "<f4", .. });
}

#[test]
fn rejects_a_shape_that_is_not_ne_reversed() {
    // As many elements, the axes in ggml's order.
    assert_defect!(refused(|_, payloads| payloads[1].3 = [3, 4, 1, 1]), Defect::Shape { .. });
    // An axis of 1 that does not belong there.
    let leading = npy_with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 4), }\n");
    assert_defect!(refused_entry("0/embd", &[&leading]), Defect::Shape { .. });
}

#[test]
fn rejects_a_payload_that_is_not_the_product_of_ne() {
    let shorten = |_: &mut Manifest, payloads: &mut Vec<Payload>| {
        payloads[1].1.truncate(32);
        payloads[1].3 = [4, 2, 1, 1];
    };
    assert_defect!(refused(shorten), Defect::PayloadSize { expected: 48, got: 32, .. });
}

#[test]
fn rejects_a_shared_entry_that_fits_only_one_of_its_nodes() {
    let share =
        |manifest: &mut Manifest, _: &mut Vec<Payload>| manifest.nodes[6].entry = Some("0/embd".into());
    assert_defect!(refused(share), Defect::PayloadSize { expected: 24, got: 48, .. });
}

#[test]
fn rejects_bytes_after_a_payload() {
    let header = npy::header(F32, EMBD).unwrap();
    let defect = refused_entry("0/embd", &[&header, &[0; 49]]);
    assert_defect!(defect, Defect::TrailingBytes { expected: 48, got: 49, .. });
}

#[test]
fn rejects_a_payload_that_was_cut_short() {
    let header = npy::header(F32, EMBD).unwrap();
    let defect = refused_entry("0/embd", &[&header, &[0; 47]]);
    assert_defect!(defect, Defect::ShortPayload { expected: 48, got: 47, .. });
}

#[test]
fn rejects_a_missing_entry() {
    assert_defect!(refused(|_, payloads| drop(payloads.remove(1))), Defect::MissingEntry { .. });
    assert_defect!(refused(|_, payloads| drop(payloads.remove(0))), Defect::MissingEntry { .. });
}

#[test]
fn rejects_an_entry_that_nothing_names() {
    let add = |_: &mut Manifest, payloads: &mut Vec<Payload>| {
        payloads.push(("0/other", vec![0; 2], F16, [1, 1, 1, 1]));
    };
    assert_defect!(refused(add), Defect::ExtraEntry { .. });
    let (_folder, path) = write(&payloads(), |mut writer| {
        writer.add_entry("README.txt", &[b"hello"]).unwrap();
        writer.finish(&manifest()).unwrap();
    });
    assert_defect!(defect(open_all(&path).map(|_| ())), Defect::ExtraEntry { .. });
}
