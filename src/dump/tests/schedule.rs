//! Runs whose ubatches do not fit their nodes and leaves.

use super::*;
use crate::dump::{LeafKind, MemoryChange};

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

/// The defect after changes of the memory before the second step of the sample, whose token says `position`.
fn after(before: &[MemoryChange], position: i32) -> Result<(), Defect> {
    let (mut manifest, payloads) = (manifest(), payloads());
    manifest.run.n_seq_max = 2;
    manifest.run.ubatches[1].before = before.to_vec();
    manifest.run.ubatches[1].positions = vec![position];
    let (_folder, path) = write(&payloads, |writer| writer.finish(&manifest).unwrap());
    match open_all(&path) {
        Ok(_) => Ok(()),
        Err(DumpError::Refused { defect, .. }) => Err(*defect),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn sequences_go_on_where_the_memory_left_them() {
    assert_eq!(after(&[], 3), Ok(()));
    assert_eq!(after(&[MemoryChange::Clear], 0), Ok(()));
    assert_eq!(after(&[MemoryChange::SeqRm { seq_id: 0, p0: 2 }], 2), Ok(()));
    let copied = [MemoryChange::SeqCp { seq_id_src: 1, seq_id_dst: 0 }];
    assert_eq!(after(&copied, 0), Ok(()));
    let defect = |expected, got| Err(Defect::Position { step: 1, token: 0, seq_id: 0, expected, got });
    assert_eq!(after(&[], 4), defect(3, 4));
    assert_eq!(after(&[MemoryChange::Clear], 3), defect(0, 3));
    assert_eq!(after(&[MemoryChange::SeqRm { seq_id: 0, p0: 2 }], 3), defect(2, 3));
    assert_eq!(after(&copied, 3), defect(0, 3));
    assert_defect!(refused(|m, _| m.run.ubatches[0].positions[1] = 2), Defect::Position { token: 1, .. });
    assert_defect!(refused(|m, _| m.run.ubatches[0].positions[0] = -1), Defect::Position { got: -1, .. });
}

#[test]
fn rejects_sequences_that_the_run_does_not_have() {
    let unknown = |change: fn(&mut Manifest)| refused(|m, _| change(m));
    let token = unknown(|m| m.run.ubatches[1].seq_ids[0] = vec![1]);
    assert_defect!(token, Defect::UnknownSequence { step: 1, seq_id: 1, n_seq_max: 1 });
    assert_defect!(unknown(|m| m.run.ubatches[1].seq_ids[0] = vec![-1]), Defect::UnknownSequence { .. });
    assert_defect!(
        unknown(|m| m.run.ubatches[1].seq_ids[0].clear()),
        Defect::NoSequence { step: 1, token: 0 }
    );
    let removed = after(&[MemoryChange::SeqRm { seq_id: 2, p0: 0 }], 3).unwrap_err();
    assert_defect!(removed, Defect::UnknownSequence { seq_id: 2, .. });
    let copied = after(&[MemoryChange::SeqCp { seq_id_src: 0, seq_id_dst: 7 }], 3).unwrap_err();
    assert_defect!(copied, Defect::UnknownSequence { seq_id: 7, .. });
}

#[test]
fn rejects_the_removal_of_positions_that_are_not_there() {
    for p0 in [4, -1] {
        let removed = after(&[MemoryChange::SeqRm { seq_id: 0, p0 }], 3).unwrap_err();
        assert_defect!(removed, Defect::RemovedPosition { step: 1, seq_id: 0, next: 3, .. });
    }
}

#[test]
fn rejects_graphs_that_read_other_tokens() {
    let tokens = refused(|m, _| m.run.ubatches[0].tokens[2] = 7);
    assert_defect!(tokens, Defect::Input { token: 2, expected: 7, got: 3, .. });
    let longer = |m: &mut Manifest, _: &mut Vec<Payload>| {
        let ubatch = &mut m.run.ubatches[1];
        (ubatch.tokens, ubatch.positions) = (vec![4, 5], vec![3, 4]);
        (ubatch.seq_ids, ubatch.outputs) = (vec![vec![0]; 2], vec![1; 2]);
    };
    assert_defect!(refused(longer), Defect::InputLength { tokens: 2, got: 1, .. });
}

#[test]
fn rejects_graphs_that_read_other_positions() {
    // The leaves hold 1 2 3, then 4: as positions they would lack the sequence's first token.
    let rename = |m: &mut Manifest, _: &mut Vec<Payload>| {
        let leaves = m.leaves.iter_mut().map(|leaf| &mut leaf.name);
        let sources = m.nodes.iter_mut().flat_map(|node| node.sources.iter_mut().flatten());
        for name in leaves.chain(sources.map(|source| &mut source.name)).filter(|name| *name == "inp_tokens")
        {
            *name = "inp_pos".into();
        }
    };
    let defect = refused(rename);
    assert_defect!(defect, Defect::Input { token: 0, expected: 0, got: 1, .. });
}
