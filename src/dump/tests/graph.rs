//! Graphs whose identities, sources or views contradict themselves.

use super::*;
use crate::dump::{Origin, Source, ViewOf};
use crate::tensor::GgmlType::Q8_0;

fn source(from: Origin, name: &str) -> Option<Source> {
    Some(Source { from, name: name.into() })
}

#[test]
fn rejects_duplicate_ids() {
    assert_defect!(refused(|m, _| m.nodes[3].id = 2), Defect::DuplicateId { .. });
    assert_defect!(refused(|m, _| m.leaves[3].id = 0), Defect::DuplicateId { .. });
}

#[test]
fn rejects_ids_out_of_order() {
    assert_defect!(refused(|m, _| m.nodes[14].id = 20), Defect::IdOrder { expected: 14, .. });
    assert_defect!(refused(|m, _| m.leaves.swap(0, 2)), Defect::IdOrder { expected: 0, .. });
}

#[test]
fn rejects_two_nodes_of_one_identity() {
    let defect = refused(|m, _| m.nodes[3].occurrence = 0);
    assert_defect!(&defect, Defect::DuplicateTensor { first: 2, second: 3, .. });
    assert!(defect.to_string().contains("q (step 0)"), "{defect}");
}

#[test]
fn rejects_occurrences_that_do_not_count() {
    assert_defect!(refused(|m, _| m.nodes[3].occurrence = 2), Defect::Occurrence { expected: 1, got: 2, .. });
    let swapped = refused(|m, _| {
        m.nodes[2].occurrence = 1;
        m.nodes[3].occurrence = 0;
    });
    assert_defect!(swapped, Defect::Occurrence { expected: 0, got: 1, .. });
}

#[test]
fn rejects_extents_that_overflow_or_split_blocks() {
    assert_defect!(refused(|m, _| m.nodes[8].ne = [1 << 40, 1 << 40, 1, 1]), Defect::Extents { .. });
    assert_defect!(refused(|m, _| m.leaves[0].ne = [1 << 61, 1, 1, 1]), Defect::Extents { .. });
    assert_defect!(refused(|m, _| m.leaves[0].ty = Q8_0), Defect::Extents { .. });
}

#[test]
fn rejects_a_contiguous_flag_that_contradicts_the_strides() {
    let strided = refused(|m, _| m.nodes[1].contiguous = true);
    assert_defect!(strided, Defect::Contiguous { expected: false, got: true, .. });
    let packed = refused(|m, _| m.nodes[0].contiguous = false);
    assert_defect!(packed, Defect::Contiguous { expected: true, got: false, .. });
}

#[test]
fn rejects_variants_that_do_not_fit_the_operator() {
    assert_defect!(refused(|m, _| m.nodes[6].variant = None), Defect::Variant { expected: true, .. });
    assert_defect!(refused(|m, _| m.nodes[0].variant = Some("SILU".into())), Defect::Variant { .. });
}

#[test]
fn rejects_sources_and_roots_that_do_not_exist() {
    let node = refused(|m, _| m.nodes[2].sources = vec![None, source(Origin::Node(99), "x")]);
    assert_defect!(node, Defect::Dangling { .. });
    let leaf = refused(|m, _| m.nodes[0].sources[0] = source(Origin::Leaf(4), "x"));
    assert_defect!(leaf, Defect::Dangling { .. });
    let root = |root| Some(ViewOf { root, name: "x".into(), offset: 0 });
    assert_defect!(refused(|m, _| m.nodes[1].view_of = root(Origin::Node(99))), Defect::Dangling { .. });
    assert_defect!(refused(|m, _| m.nodes[1].view_of = root(Origin::Leaf(99))), Defect::Dangling { .. });
}

#[test]
fn rejects_sources_and_roots_that_come_later() {
    let later = refused(|m, _| m.nodes[0].sources[0] = source(Origin::Node(4), "node_4"));
    assert_defect!(later, Defect::Later { .. });
    let itself = refused(|m, _| m.nodes[0].sources[0] = source(Origin::Node(0), "embd"));
    assert_defect!(itself, Defect::Later { .. });
    let root = ViewOf { root: Origin::Node(4), name: "node_4".into(), offset: 0 };
    assert_defect!(refused(|m, _| m.nodes[1].view_of = Some(root)), Defect::Later { .. });
}

#[test]
fn rejects_sources_of_another_step() {
    let node = refused(|m, _| m.nodes[14].sources[0] = source(Origin::Node(0), "embd"));
    assert_defect!(node, Defect::OtherStep { .. });
    let leaf = refused(|m, _| m.nodes[13].sources[1] = source(Origin::Leaf(1), "inp_tokens"));
    assert_defect!(leaf, Defect::OtherStep { .. });
}

#[test]
fn rejects_sources_and_roots_under_another_name() {
    let of_source = refused(|m, _| m.nodes[2].sources[0] = source(Origin::Node(1), "embd"));
    assert_defect!(of_source, Defect::OtherName { .. });
    let of_root = refused(|m, _| m.nodes[1].view_of.as_mut().unwrap().name = "q".into());
    assert_defect!(of_root, Defect::OtherName { .. });
}

#[test]
fn rejects_a_root_that_is_a_view() {
    let root = ViewOf { root: Origin::Node(1), name: "embd (view)".into(), offset: 0 };
    assert_defect!(refused(|m, _| m.nodes[3].view_of = Some(root)), Defect::RootIsView { .. });
}

#[test]
fn rejects_a_root_that_is_not_contiguous() {
    let stretch = |m: &mut Manifest, _: &mut Vec<Payload>| {
        m.nodes[2].nb = [4, 32, 96, 96];
        m.nodes[2].contiguous = false;
    };
    assert_defect!(refused(stretch), Defect::RootNotContiguous { .. });
}

#[test]
fn rejects_pure_views_without_root() {
    assert_defect!(refused(|m, _| m.nodes[1].view_of = None), Defect::NoRoot { .. });
    assert_defect!(refused(|m, _| m.nodes[1].sources.clear()), Defect::NoRoot { .. });
}

#[test]
fn rejects_a_root_that_is_not_that_of_the_source() {
    let defect = refused(|m, _| m.nodes[3].sources[0] = source(Origin::Node(0), "embd"));
    assert_defect!(defect, Defect::OtherRoot { .. });
}

#[test]
fn rejects_views_beyond_their_root() {
    let offset = |offset| refused(|m, _| m.nodes[1].view_of.as_mut().unwrap().offset = offset);
    assert_defect!(offset(12), Defect::ViewOutside { .. });
    assert_defect!(offset(i64::MAX as u64), Defect::ViewOutside { .. });
    assert_defect!(refused(|m, _| m.nodes[1].nb[1] = i64::MAX as u64), Defect::ViewOutside { .. });
    let leaf = refused(|m, _| m.nodes[7].view_of.as_mut().unwrap().offset = 96);
    assert_defect!(leaf, Defect::ViewOutside { .. });
}
