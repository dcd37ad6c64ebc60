//! Runs whose ubatches do not fit their nodes and leaves.

use super::*;
use crate::dump::LeafKind;

#[test]
fn rejects_ubatches_that_do_not_count_from_0() {
    let defect = refused(|m, _| m.run.ubatches[1].step = 2);
    assert_defect!(defect, Defect::UbatchStep { expected: 1, got: 2 });
}

#[test]
fn rejects_lists_of_unequal_length() {
    let positions = refused(|m, _| m.run.ubatches[0].positions.push(3));
    assert_defect!(positions, Defect::UbatchLength { step: 0, field: "positions", tokens: 3, got: 4 });
    let tokens = refused(|m, _| m.run.ubatches[1].tokens.clear());
    assert_defect!(tokens, Defect::UbatchLength { step: 1, tokens: 0, .. });
    let seq_ids = refused(|m, _| drop(m.run.ubatches[0].seq_ids.pop()));
    assert_defect!(seq_ids, Defect::UbatchLength { field: "seq_ids", .. });
    let outputs = refused(|m, _| m.run.ubatches[0].outputs.push(0));
    assert_defect!(outputs, Defect::UbatchLength { field: "outputs", .. });
}

#[test]
fn rejects_steps_without_ubatch() {
    assert_defect!(refused(|m, _| drop(m.run.ubatches.pop())), Defect::NoUbatch { n_steps: 1, .. });
    let node = refused(|m, _| {
        m.leaves[3].step = Some(0);
        m.nodes[13].sources.clear();
        m.run.ubatches.pop();
    });
    assert_defect!(node, Defect::NoUbatch { n_steps: 1, .. });
}

#[test]
fn rejects_ubatches_without_nodes() {
    let third = |m: &mut Manifest, _: &mut Vec<Payload>| {
        let mut ubatch = m.run.ubatches[1].clone();
        ubatch.step = 2;
        m.run.ubatches.push(ubatch);
    };
    assert_defect!(refused(third), Defect::EmptyStep { step: 2 });
    let skipped = |m: &mut Manifest, payloads: &mut Vec<Payload>| {
        third(m, payloads);
        m.nodes[13].step = 2;
        m.nodes[14].step = 2;
        m.leaves[3].step = Some(2);
    };
    assert_defect!(refused(skipped), Defect::EmptyStep { step: 1 });
}

#[test]
fn rejects_steps_out_of_order() {
    let swap = |m: &mut Manifest, _: &mut Vec<Payload>| {
        m.nodes[14].step = 0;
        m.nodes[14].sources.clear();
    };
    assert_defect!(refused(swap), Defect::StepOrder { previous: 1, .. });
}

#[test]
fn rejects_leaves_that_do_not_fit_their_kind() {
    assert_defect!(refused(|m, _| m.leaves[1].step = None), Defect::LeafKind { .. });
    assert_defect!(refused(|m, _| m.leaves[1].kind = LeafKind::Weight), Defect::LeafKind { .. });
    let cache = refused(|m, _| m.leaves[2].entry = Some("0/embd".into()));
    assert_defect!(cache, Defect::LeafKind { .. });
    assert_defect!(refused(|m, _| m.leaves[1].entry = None), Defect::LeafKind { .. });
}
