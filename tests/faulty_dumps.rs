//! A dump with a fault in it never passes: what is wrong and where is said, with exit code 1 or 2.

mod common;

use std::fs;

use common::{Copy, MICRO_NODES, MICRO_PROMPT, Outcome, Payload, bytes, check_files, floats};
use lockstep::dump::{Dump, Node, runs};
use lockstep::synth::{preset, write_model};
use lockstep::tensor::{GgmlType, Layout};

/// Checks `micro-bonsai/nodes-5` after a change.
fn check_changed(change: impl FnOnce(&mut Copy)) -> Outcome {
    let mut copy = Copy::of(MICRO_NODES);
    change(&mut copy);
    copy.check(MICRO_NODES)
}

#[test]
fn an_unchanged_copy_passes() {
    for reference in [MICRO_NODES, MICRO_PROMPT] {
        let outcome = Copy::of(reference).check(reference);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}

// A tensor removed.

#[test]
fn a_removed_payload_is_refused_by_name() {
    let outcome = check_changed(|copy| {
        copy.node(1, "l_out-1").entry = None;
        copy.drop_unused();
    });
    outcome.assert_refused(&["'l_out-1' (step 1)", "was asked for", "values are missing"]);
}

#[test]
fn a_removed_payload_of_a_filtered_dump_is_refused_by_name() {
    let mut copy = Copy::of(MICRO_PROMPT);
    copy.node(0, "l_out-2").entry = None;
    copy.drop_unused();
    copy.check(MICRO_PROMPT).assert_refused(&["'l_out-2' (step 0)", "values are missing"]);
}

#[test]
fn a_removed_root_is_refused_whoever_shows_it() {
    // The delta net's result has no name of its own; attn_output-0 and new_state-0 are views of it.
    let outcome = check_changed(|copy| {
        let root = copy.node(0, "attn_output-0").view_of.clone().unwrap().name;
        copy.node(0, &root).entry = None;
        copy.drop_unused();
    });
    outcome.assert_refused(&["(step 0)", "values are missing"]);
}

#[test]
fn a_removal_cannot_be_hidden_where_there_is_no_filter() {
    let outcome = check_changed(|copy| {
        let removed = copy.node(1, "l_out-1");
        removed.entry = None;
        let removed = removed.id as usize;
        let selected: Vec<bool> = {
            let has =
                |node: &Node| copy.manifest.run.selected.iter().any(|r| (r[0]..=r[1]).contains(&node.id));
            copy.manifest.nodes.iter().map(|node| has(node) && node.id as usize != removed).collect()
        };
        copy.manifest.run.selected = runs(selected);
        copy.drop_unused();
    });
    outcome.assert_refused(&["'l_out-1' (step 1)", "run.selected leaves it out"]);
}

#[test]
fn an_entry_removed_from_the_file_is_refused_by_name() {
    let outcome = check_changed(|copy| copy.payloads.retain(|payload| payload.entry != "1/l_out-1"));
    outcome.assert_refused(&["'l_out-1' (step 1)", "entry 1/l_out-1", "not in the file"]);
}

#[test]
fn a_removed_node_is_extra() {
    // The last of the graph, so that nothing refers to it and all numbers stay right.
    let outcome = check_changed(|copy| {
        let last = copy.manifest.nodes.pop().unwrap();
        assert_eq!(last.name, "result_output");
        copy.manifest.run.selected.last_mut().unwrap()[1] -= 1;
        copy.drop_unused();
    });
    outcome.assert_differs(&["first difference: result_output (step 2): extra"]);
    assert!(outcome.last_line().contains(" 1 extra"), "{}", outcome.last_line());
}

// Values that are wrong.

#[test]
fn a_planted_nan_is_named() {
    let outcome = check_changed(|copy| {
        let payload = copy.own_payload(1, "l_out-2");
        payload.bytes[4 * 17..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    outcome
        .assert_differs(&["first difference: l_out-2 (blk.2, ADD, step 1): 1 non-finite in the reference"]);
    outcome.assert_differs(&["[17]", "reference NaN"]);
    assert!(outcome.last_line().contains(" 1 non-finite"), "{}", outcome.last_line());
}

#[test]
fn an_infinity_is_named() {
    let outcome = check_changed(|copy| {
        copy.own_payload(2, "ffn_up-0").bytes[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    });
    outcome.assert_differs(&["first difference: ffn_up-0 (blk.0, MUL_MAT, step 2): 1 non-finite"]);
}

#[test]
fn swapped_tensors_are_both_named() {
    let outcome = check_changed(|copy| {
        let first = copy.node(0, "attn_norm-1").entry.take();
        let second = std::mem::replace(&mut copy.node(0, "attn_post_norm-1").entry, first);
        copy.node(0, "attn_norm-1").entry = second;
    });
    outcome.assert_differs(&["first difference: attn_norm-1 (blk.1, MUL, step 0): relative L2"]);
    let row = |kind: &str| outcome.stdout.lines().find(|line| line.trim_start().starts_with(kind));
    for kind in ["attn_norm ", "attn_post_norm "] {
        assert!(row(kind).is_some_and(|row| row.contains("differ")), "{}", outcome.stdout);
    }
    assert!(outcome.last_line().contains(" 2 differ, "), "{}", outcome.last_line());
}

#[test]
fn swapped_steps_are_named() {
    let outcome = check_changed(|copy| {
        let first = copy.node(1, "l_out-0").entry.take();
        let second = std::mem::replace(&mut copy.node(2, "l_out-0").entry, first);
        copy.node(1, "l_out-0").entry = second;
    });
    outcome.assert_differs(&["first difference: l_out-0 (blk.0, ADD, step 1)"]);
    assert!(outcome.last_line().contains(" 2 differ, "), "{}", outcome.last_line());
}

#[test]
fn one_wrong_value_is_named_with_its_place() {
    let outcome = check_changed(|copy| {
        let payload = copy.own_payload(0, "ffn_out-1");
        let mut values = floats(&payload.bytes);
        values[256 + 7] += 10.0; // token 1, element 7
        payload.bytes = bytes(&values);
    });
    outcome.assert_differs(&["first difference: ffn_out-1 (blk.1, MUL_MAT, step 0)", "blk.1 step 0 [1,7]"]);
    assert!(outcome.last_line().contains(" 1 differ, "), "{}", outcome.last_line());
}

// Views.

/// Gives a pure view an entry of its own that holds the bytes of its root from `offset` on, as they come.
fn store_packed(copy: &mut Copy, name: &str, offset: usize) {
    let view = copy.node(0, name).clone();
    assert!(view.is_pure_view() && !view.contiguous && view.entry.is_none());
    let root = copy.node(0, &view.view_of.clone().unwrap().name).entry.clone().unwrap();
    let memory = &copy.payloads.iter().find(|payload| payload.entry == root).unwrap().bytes;
    let size = view.ne.iter().product::<u64>() as usize * 4;
    let (entry, bytes) = (format!("0/{}", name.replace(' ', "_")), memory[offset..][..size].to_vec());
    copy.node(0, name).entry = Some(entry.clone());
    copy.payloads.push(Payload { entry, bytes, ty: view.ty, ne: view.ne });
}

#[test]
fn a_view_stored_packed_is_refused_by_name() {
    let outcome = check_changed(|copy| store_packed(copy, "q_conv-0", 0));
    outcome.assert_refused(&["'q_conv-0' (step 0)", "stored as if it were packed", "conv_output_silu-0"]);
    let outcome = check_changed(|copy| store_packed(copy, "k_conv-0", 512)); // from where it starts
    outcome.assert_refused(&["'k_conv-0' (step 0)", "stored as if it were packed"]);
}

#[test]
fn a_view_stored_packed_is_refused_even_if_it_is_not_compared() {
    let outcome = check_changed(|copy| store_packed(copy, "Qcur_full-3 (view)", 0));
    outcome.assert_refused(&["'Qcur_full-3 (view)' (step 0)", "stored as if it were packed"]);
}

// The file.

#[test]
fn a_truncated_file_is_refused() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), fs::read(MICRO_NODES.path()).unwrap());
    let path = folder.path().join("short.npz");
    for length in [0, 1, whole.len() / 2, whole.len() - 1000, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let outcome = check_files(&MICRO_NODES.built().path, &path);
        outcome.assert_refused(&[path.to_str().unwrap(), "cut short"]);
    }
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let (folder, mut whole) = (tempfile::tempdir().unwrap(), fs::read(MICRO_NODES.path()).unwrap());
    let path = folder.path().join("long.npz");
    whole.extend(b"more");
    fs::write(&path, whole).unwrap();
    check_files(&MICRO_NODES.built().path, &path).assert_refused(&["end record is not the last thing"]);
}

/// Where the payload of a node lies in the committed file.
fn payload_at(file: &[u8], step: u32, name: &str) -> usize {
    let mut copy = Copy::of(MICRO_NODES);
    let payload = copy.own_payload(step, name).bytes.clone();
    file.windows(payload.len()).position(|window| window == payload).unwrap()
}

#[test]
fn a_flipped_bit_is_refused_by_entry() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), fs::read(MICRO_NODES.path()).unwrap());
    let path = folder.path().join("flipped.npz");
    // The lowest bit of a value: no limit would notice it.
    for (step, name) in [(1, "l_out-3"), (0, "model.input_embed")] {
        let mut flipped = whole.clone();
        flipped[payload_at(&whole, step, name) + 40] ^= 1;
        fs::write(&path, flipped).unwrap();
        let outcome = check_files(&MICRO_NODES.built().path, &path);
        outcome.assert_refused(&[&format!("entry {step}/{name}.npy"), "crc32 expected"]);
    }
}

#[test]
fn a_file_that_is_no_dump_is_refused() {
    let model = &MICRO_NODES.built().path;
    check_files(model, model).assert_refused(&[model.to_str().unwrap(), "not a zip file"]);
    check_files(model, "/no/such.npz".as_ref()).assert_refused(&["read dump /no/such.npz"]);
}

// What was run.

#[test]
fn a_dump_of_another_model_is_refused_with_both_hashes() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.gguf");
    write_model(preset("micro-bonsai").unwrap(), 2, GgmlType::PQ2_0, &other, &mut |_, _| {}).unwrap();
    let (expected, got) = (&MICRO_NODES.built().sha256, lockstep::gguf::sha256(&other).unwrap());
    let outcome = check_files(&other, &MICRO_NODES.path());
    outcome.assert_refused(&["made from another model", &format!("unfolded from {expected}"), &got]);
    // The same model in the other ternary type has the same weights, and is another file all the same.
    write_model(preset("micro-bonsai").unwrap(), 1, GgmlType::PTQ1_0, &other, &mut |_, _| {}).unwrap();
    check_files(&other, &MICRO_NODES.path()).assert_refused(&["made from another model"]);
}

#[test]
fn a_capture_that_changed_the_result_is_refused() {
    let outcome = check_changed(|copy| copy.manifest.capture.unchanged = false);
    outcome.assert_refused(&["gave other logits while it was captured"]);
}

#[test]
fn a_token_outside_the_vocabulary_is_refused() {
    let outcome = check_changed(|copy| copy.set_token(1, 0, 512));
    outcome.assert_refused(&["token 512 at position 3", "vocabulary of 512"]);
    let outcome = check_changed(|copy| copy.set_token(1, 0, -1));
    outcome.assert_refused(&["step 1 has token id -1"]);
}

#[test]
fn another_token_differs_at_the_embedding() {
    let outcome = check_changed(|copy| copy.set_token(1, 0, 201));
    outcome.assert_differs(&["first difference: model.input_embed (GET_ROWS, step 1)"]);
}

#[test]
fn a_graph_that_read_another_token_is_refused() {
    let outcome = check_changed(|copy| copy.manifest.run.ubatches[1].tokens[0] += 1);
    outcome.assert_refused(&["'inp_tokens'", "number 0 expected 201", "got 200"]);
}

#[test]
fn sequences_that_the_run_has_not_are_refused() {
    for ids in [vec![1], vec![0, 1]] {
        let outcome = check_changed(|copy| copy.manifest.run.ubatches[0].seq_ids[2] = ids);
        outcome.assert_refused(&["step 0: sequence 1, the run has 1 (n_seq_max)"]);
    }
}

#[test]
fn positions_with_a_gap_are_refused() {
    let outcome = check_changed(|copy| copy.manifest.run.ubatches[2].positions[0] = 7);
    outcome.assert_refused(&["step 2: token 0 of sequence 0, position expected 4, got 7"]);
}

// Graphs that are not the engine's.

#[test]
fn a_tensor_that_the_engine_does_not_have_is_missing() {
    let outcome = check_changed(|copy| {
        let mut node = copy.node(2, "l_out-3").clone();
        node.id = copy.manifest.nodes.len() as u32;
        "surprise-3".clone_into(&mut node.name);
        copy.manifest.nodes.push(node);
        copy.manifest.run.selected.last_mut().unwrap()[1] += 1;
    });
    outcome
        .assert_differs(&["first difference: surprise-3 (blk.3, ADD, step 2): missing from the actual run"]);
    assert!(outcome.last_line().contains(" 1 missing"), "{}", outcome.last_line());
}

#[test]
fn a_tensor_under_another_name_is_missing_and_extra() {
    let outcome = check_changed(|copy| "result_outputs".clone_into(&mut copy.node(2, "result_output").name));
    outcome.assert_differs(&["first difference: result_outputs (MUL_MAT, step 2): missing"]);
    assert!(outcome.last_line().contains(" 1 missing, 1 extra"), "{}", outcome.last_line());
}

#[test]
fn another_shape_of_the_same_size_is_a_shape_verdict() {
    for ne in [[3, 256, 1, 1], [256, 1, 3, 1], [768, 1, 1, 1]] {
        let outcome = check_changed(|copy| {
            copy.own_payload(0, "ffn_out-3").ne = ne;
            let node = copy.node(0, "ffn_out-3");
            (node.ne, node.nb) = (ne, Layout::packed(ne, 4).unwrap().nb);
        });
        outcome.assert_differs(&["first difference: ffn_out-3 (blk.3, MUL_MAT, step 0): shape ["]);
        outcome.assert_differs(&[" in the reference, [3,256] in the actual run"]);
        assert!(outcome.last_line().contains(" 1 shape"), "{}", outcome.last_line());
    }
}

#[test]
fn a_dump_with_nothing_to_compare_is_refused() {
    let mut copy = Copy::of(MICRO_PROMPT);
    copy.manifest.run.filters = vec!["^nothing$".to_owned()];
    copy.manifest.run.selected.clear();
    copy.manifest.nodes.iter_mut().for_each(|node| node.entry = None);
    copy.drop_unused();
    let written = copy.write();
    assert!(Dump::open(&written.path).is_ok(), "as a dump it is valid");
    copy.check(MICRO_PROMPT).assert_refused(&["nothing to compare"]);
}
