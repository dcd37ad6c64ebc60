//! Values that are written come back, views are derived, views that lie are refused.

use std::borrow::Cow;
use std::fs;

use super::*;
use crate::dump::{Dump, DumpWriter, Origin};
use crate::tensor::{GgmlType, TensorId};

fn f32s<'a>(dump: &'a Dump, name: &str, occurrence: u32) -> Option<Cow<'a, [f32]>> {
    let id = TensorId { step: 0, name: name.into(), occurrence };
    let node = dump.find(&id).unwrap();
    let values = dump.f32(node).unwrap();
    assert_eq!(values.is_some(), dump.has_values(node), "{name}");
    values
}

#[test]
fn a_dump_that_is_written_is_read() {
    let (_folder, path) = sample();
    let dump = open_all(&path).unwrap();
    assert_eq!(dump.manifest(), &manifest());
    assert_eq!((dump.n_steps(), dump.step_nodes(0).len(), dump.step_nodes(1).len()), (2, 13, 2));
    assert!(dump.step_nodes(2).is_empty());
    let values = f32s(&dump, "embd", 0).unwrap();
    assert!(matches!(values, Cow::Borrowed(_)), "stored values are not copied");
    assert_eq!(*values, super::super::sample::embd());
    let tokens = dump.leaf_bytes(dump.leaf(1).unwrap()).unwrap().unwrap();
    assert_eq!(*tokens, *payloads()[0].1);
    assert_eq!(dump.leaf_bytes(dump.leaf(0).unwrap()).unwrap(), None);
    assert_eq!(*dump.bytes(dump.node(14).unwrap()).unwrap().unwrap(), *payloads()[8].1);
    let as_f32 = dump.f32(dump.node(14).unwrap());
    assert!(matches!(as_f32, Err(DumpError::NotF32 { ty: GgmlType::BF16, .. })));
}

#[test]
fn views_are_derived_from_what_they_view() {
    let (_folder, path) = sample();
    let dump = Dump::open(&path).unwrap();
    assert_eq!(*f32s(&dump, "embd (view)", 0).unwrap(), [2.0, 3.0, 6.0, 7.0, 10.0, 11.0]);
    let reshaped = f32s(&dump, "q", 1).unwrap();
    assert!(matches!(reshaped, Cow::Borrowed(_)), "packed views are not copied");
    assert_eq!(*reshaped, [2.0, 3.0, 6.0, 7.0, 10.0, 11.0]);
    // Entries shared by a root and a view that covers it, and by two nodes with equal bytes.
    assert_eq!(f32s(&dump, "node_4", 0), f32s(&dump, "new_state", 0));
    assert_eq!(*f32s(&dump, "gate", 0).unwrap(), *reshaped);
    assert_eq!(f32s(&dump, "cache_k_l0 (view)", 0), None);
    assert_eq!(f32s(&dump, "k_store", 0), None);
}

#[test]
fn views_see_what_was_written_in_place() {
    let (_folder, path) = sample();
    let dump = Dump::open(&path).unwrap();
    // `out` views the result of SET in the memory of `q`: the values are SET's, not those of `q`.
    assert_eq!(*f32s(&dump, "out", 0).unwrap(), [-3.0, -4.0, -5.0, -6.0]);
    // `stale` views `q` after SET wrote into it: no payload holds what it saw.
    assert_eq!(f32s(&dump, "stale", 0), None);
}

#[test]
fn views_are_traced_to_their_operator() {
    let (_folder, path) = sample();
    let dump = Dump::open(&path).unwrap();
    let op = |id| dump.root_op(dump.node(id).unwrap());
    assert_eq!((op(5), op(11), op(0), op(7)), ("GATED_DELTA_NET", "SET", "GET_ROWS", "VIEW"));
    assert_eq!(dump.computed_by(dump.node(7).unwrap()), Origin::Leaf(2));
    let cache_views: Vec<u32> = dump.nodes().iter().filter(|n| n.is_cache_view()).map(|n| n.id).collect();
    assert_eq!(cache_views, [7]);
}

#[test]
fn equal_dumps_have_equal_bytes() {
    let ((_a, a), (_b, b)) = (sample(), sample());
    assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap());
}

#[test]
fn data_is_aligned_in_the_file() {
    let (_folder, path) = sample();
    let bytes = fs::read(path).unwrap();
    let npy: Vec<usize> = (0..bytes.len() - 6).filter(|&at| &bytes[at..at + 6] == b"\x93NUMPY").collect();
    assert_eq!(npy.len(), payloads().len());
    assert!(npy.iter().all(|at| at % 64 == 0));
}

#[test]
fn an_unfinished_dump_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = DumpWriter::create(&folder.path().join("d.npz")).unwrap();
    writer.add_payload("0/x", &[0; 8], GgmlType::F32, [2, 1, 1, 1]).unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_writer_refuses_wrong_sizes_and_repeated_entries() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = DumpWriter::create(&folder.path().join("d.npz")).unwrap();
    let short = writer.add_payload("0/x", &[0; 7], GgmlType::F32, [2, 1, 1, 1]);
    assert!(matches!(short, Err(DumpError::PayloadBytes { expected: Some(8), got: 7, .. })));
    writer.add_payload("0/x", &[0; 8], GgmlType::F32, [2, 1, 1, 1]).unwrap();
    let twice = writer.add_payload("0/x", &[0; 8], GgmlType::F32, [2, 1, 1, 1]);
    assert!(matches!(twice, Err(DumpError::EntryTwice { .. })));
}

#[test]
fn rejects_a_strided_view_stored_as_if_it_were_packed() {
    // embd_t is embd transposed; here it holds the bytes of embd as they come.
    let defect = refused(|_, payloads| payloads[4].1 = payloads[1].1.clone());
    assert_defect!(&defect, Defect::PackedView { nb: [16, 4, 48, 48], .. });
    assert!(defect.to_string().contains("stored as if it were packed"), "{defect}");
}

#[test]
fn rejects_a_stored_view_that_disagrees_with_its_root() {
    let defect = refused(|_, payloads| payloads[4].1[20] ^= 1);
    assert_defect!(defect, Defect::ViewDisagrees { at: 20, .. });
}

#[test]
fn reads_entries_that_are_not_aligned() {
    // An entry without padding, as other writers make them: copied, not refused.
    let (_folder, path) = sample();
    let file = fs::File::create(&path).unwrap();
    let mut zip = zip::ZipWriter::new(file);
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (entry, bytes, ty, ne) in payloads() {
        use std::io::Write;
        zip.start_file(format!("{entry}.npy"), stored).unwrap();
        zip.write_all(&super::super::npy::header(ty, ne).unwrap()).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.start_file("manifest.json", stored).unwrap();
    serde_json::to_writer(&mut zip, &sample_json()).unwrap();
    zip.finish().unwrap();
    let dump = open_all(&path).unwrap();
    assert_eq!(*f32s(&dump, "embd", 0).unwrap(), super::super::sample::embd());
    let copied = |node| matches!(dump.f32(node), Ok(Some(Cow::Owned(_))));
    assert!(dump.nodes().iter().filter(|node| node.contiguous && node.ty == GgmlType::F32).any(copied));
}
