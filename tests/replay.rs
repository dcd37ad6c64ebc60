//! Replaying the reference's graph: everything is within its budget, and a planted error is found at the node it is in.

mod common;

use std::collections::BTreeMap;

use common::{
    Copy, MICRO_NODES, MINI_PROMPT, MINI_TOKEN, Outcome as Program, Reference, cache, case_folder, lockstep,
};
use lockstep::dump::Dump;
use lockstep::gguf::{Gguf, sha256};
use lockstep::harness::Case;
use lockstep::replay::{NodeResult, Outcome, Replay, ReplayError, replay};

/// Replays a dump against the twin of a case's model.
fn replay_against(case: &str, dump: &Dump) -> Replay {
    let twin = Case::open(&case_folder(case)).unwrap().build_twin(&cache(), &mut |_, _| {}).unwrap();
    replay(&Gguf::open(&twin).unwrap(), &sha256(&twin).unwrap(), dump, &mut |_, _| {}).unwrap()
}

fn replay_of(reference: Reference) -> Replay {
    replay_against(reference.case, &reference.open())
}

/// Replays `micro-bonsai/nodes-5` after a change.
fn replay_changed(change: impl FnOnce(&mut Copy)) -> Replay {
    let mut copy = Copy::of(MICRO_NODES);
    change(&mut copy);
    let written = copy.write();
    replay_against(MICRO_NODES.case, &Dump::open(&written.path).unwrap())
}

fn bad(replay: &Replay) -> Vec<String> {
    let bad = replay.results.iter().filter(|r| matches!(r.outcome, Outcome::Over | Outcome::NonFinite));
    bad.map(|r| r.id.to_string()).collect()
}

#[test]
fn every_node_of_the_micro_dump_is_known_and_within_its_budget() {
    let replay = replay_of(MICRO_NODES);
    let s = replay.summary();
    assert_eq!((s.skipped, replay.not_held, bad(&replay)), (0, 0, vec![]));
    assert!(replay.is_pass() && s.coverage() == 1.0 && s.compared > 400, "{s:?}");
    let ops: BTreeMap<&str, u64> = replay.results.iter().fold(BTreeMap::new(), |mut ops, r| {
        *ops.entry(r.op.split(' ').next().unwrap()).or_default() += 1;
        ops
    });
    let expected = [
        "ADD",
        "CONCAT",
        "CONT",
        "CPY",
        "GATED_DELTA_NET",
        "GET_ROWS",
        "GLU",
        "MUL",
        "MUL_MAT",
        "RMS_NORM",
        "ROPE",
        "SCALE",
        "SET_ROWS",
        "SOFT_MAX",
        "SSM_CONV",
        "UNARY",
    ];
    assert_eq!(ops.keys().copied().collect::<Vec<_>>(), expected);
}

#[test]
fn the_delta_net_of_all_48_layers_is_judged_in_both_mini_dumps() {
    for reference in [MINI_TOKEN, MINI_PROMPT] {
        let replay = replay_of(reference);
        assert_eq!(bad(&replay), [""; 0]);
        for kind in ["new_state", "attn_output"] {
            let judged = |r: &&NodeResult| {
                r.op == "GATED_DELTA_NET" && r.id.kind() == kind && r.outcome == Outcome::Within
            };
            assert_eq!(replay.results.iter().filter(judged).count(), 48, "{kind} of {}", reference.file);
        }
    }
}

#[test]
fn what_is_computed_from_unnamed_nodes_is_judged_through_them() {
    let replay = replay_of(MINI_TOKEN);
    let s = replay.summary();
    assert_eq!((s.skipped, bad(&replay)), (0, vec![]));
    // softplus of an unnamed sum, the scaled norm of q: an error of 1e-4 still shows.
    for name in ["a_softplus-5", "q_conv_predelta-9"] {
        let mut copy = Copy::of(MINI_TOKEN);
        plant(&mut copy, 0, name);
        let written = copy.write();
        let replay = replay_against(MINI_TOKEN.case, &Dump::open(&written.path).unwrap());
        assert_eq!(bad(&replay).first(), Some(&format!("{name} (step 0)")));
    }
}

/// The largest element of a node's payload, changed by one part in ten thousand.
fn plant(copy: &mut Copy, step: u32, name: &str) {
    let payload = copy.own_payload(step, name);
    let values = payload.bytes.as_chunks_mut::<4>().0;
    let size = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes).abs();
    let largest = values.iter_mut().max_by(|a, b| size(a).total_cmp(&size(b))).unwrap();
    *largest = (f32::from_le_bytes(*largest) * 1.0001).to_le_bytes();
}

#[test]
fn a_planted_error_is_found_at_its_node_and_nowhere_before() {
    // One tensor of each operator that computes or moves something.
    for (name, step) in [
        ("model.input_embed", 0),
        ("norm-1", 0),
        ("attn_norm-2", 1),
        ("conv_input-1", 0),
        ("conv_output_raw-0", 2),
        ("conv_output_silu-0", 0),
        ("q_conv_predelta-1", 1),
        ("a_softplus-2", 0),
        ("beta_sigmoid-0", 1),
        ("gate-0", 0),
        ("linear_attn_out-2", 0),
        ("attn_residual-0", 2),
        ("ffn_swiglu-3", 0),
        ("Qcur-3", 1),
        ("kq-3", 0),
        ("kq_soft_max-3", 1),
        ("attn_pregate-3", 0),
        ("result_output", 2),
    ] {
        let replay = replay_changed(|copy| plant(copy, step, name));
        assert_eq!(bad(&replay).first(), Some(&format!("{name} (step {step})")), "{:?}", bad(&replay));
        // What reads it is computed from what it was before, so a few more nodes differ, all of them its readers.
        assert!(bad(&replay).len() <= 6, "{name}: {:?}", bad(&replay));
    }
}

#[test]
fn a_planted_error_in_the_state_is_found() {
    let root = Copy::of(MICRO_NODES).node(1, "new_state-1").view_of.clone().unwrap().name;
    let replay = replay_changed(|copy| plant(copy, 1, &root));
    assert_eq!(bad(&replay).first(), Some(&format!("{root} (step 1)")));
}

#[test]
fn a_changed_parameter_is_found_at_its_node() {
    let replay = replay_changed(|copy| copy.node(0, "norm-2").params = vec![1e-3f32.to_bits() as i32]);
    assert_eq!(bad(&replay), ["norm-2 (step 0)"]);
}

#[test]
fn a_value_that_is_not_finite_is_found() {
    let replay = replay_changed(|copy| {
        copy.own_payload(0, "ffn_out-1").bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    let first = replay.results.iter().find(|r| r.outcome == Outcome::NonFinite).unwrap();
    assert_eq!((first.id.to_string().as_str(), first.worst_index), ("ffn_out-1 (step 0)", 0));
    assert!(!replay.is_pass());
}

#[test]
fn an_unknown_operator_is_skipped_by_name_and_lowers_the_coverage() {
    let replay = replay_changed(|copy| copy.node(1, "attn_residual-1").op = "WIGGLE".to_owned());
    let s = replay.summary();
    assert_eq!((s.skipped, s.within), (1, s.compared));
    assert!(s.coverage() < 1.0);
    let skipped = replay.results.iter().find(|r| r.id.name == "attn_residual-1" && r.id.step == 1).unwrap();
    assert_eq!(skipped.outcome, Outcome::Skipped("operator WIGGLE not known".into()));
}

#[test]
fn only_the_file_that_llama_cpp_ran_will_do() {
    let folded = MICRO_NODES.built();
    let gguf = Gguf::open(&folded.path).unwrap();
    let refused = replay(&gguf, &folded.sha256, &MICRO_NODES.open(), &mut |_, _| {});
    assert!(matches!(refused, Err(ReplayError::OtherModel { .. })), "{refused:?}");
}

#[test]
fn the_program_prints_a_table_and_exits_by_the_result() {
    let outcome = lockstep([std::ffi::OsStr::new("replay"), case_folder("micro-bonsai").as_os_str()]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.stdout.contains("423 nodes compared: 423 within budget, 0 over, 0 skipped; coverage 100%")
    );

    let mut copy = Copy::of(MICRO_NODES);
    plant(&mut copy, 0, "ffn_out-2");
    let outcome = replay_file(&copy);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stdout.contains("over its budget: ffn_out-2 (step 0, MUL_MAT f32 x f32)"), "{outcome:?}");
}

/// `lockstep replay` of a copy of a micro dump.
fn replay_file(copy: &Copy) -> Program {
    let written = copy.write();
    let twin = Case::open(&case_folder("micro-bonsai")).unwrap();
    let twin = twin.build_twin(&cache().join("models"), &mut |_, _| {}).unwrap();
    let (replay, m, d) = ("replay".as_ref(), "--model".as_ref(), "--dump".as_ref());
    lockstep::<&std::ffi::OsStr>([replay, m, twin.as_os_str(), d, written.path.as_os_str()])
}

/// `lockstep replay` of the committed micro dumps with more arguments.
fn replay_micro(more: &[&std::ffi::OsStr]) -> Program {
    let case = case_folder("micro-bonsai");
    lockstep([&["replay".as_ref(), case.as_os_str()], more].concat())
}

#[test]
fn the_json_holds_what_the_table_says() {
    let file = tempfile::tempdir().unwrap().path().join("result.json");
    assert_eq!(
        replay_micro(&["--json".as_ref(), file.as_os_str()]).code,
        Some(2),
        "a folder that is not there"
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let outcome = replay_micro(&["--json".as_ref(), file.as_os_str()]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let v: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&v["version"], &v["is_pass"], &v["first_over"]), (&1.into(), &true.into(), &().into()));
    let s = &v["summary"];
    assert_eq!((&s["compared"], &s["skipped"], &s["not_held"]), (&425.into(), &7.into(), &136.into()));
    let nodes = v["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 432);
    assert!(nodes.iter().all(|node| node["dump"].as_str().unwrap().starts_with("micro-bonsai / ")));
    let grouped: u64 = v["groups"].as_array().unwrap().iter().map(|g| g["nodes"].as_u64().unwrap()).sum();
    assert_eq!(grouped, 432);
    let products = v["groups"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["op"] == "MUL_MAT" && g["worst"].is_object())
        .unwrap();
    assert_eq!((&products["types"], &products["rounding"]), (&"f32 x f32".into(), &"none".into()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file is left");
}

#[test]
fn a_coverage_below_the_least_fails() {
    let outcome = replay_micro(&["--min-coverage".as_ref(), "98".as_ref()]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let outcome = replay_micro(&["--min-coverage".as_ref(), "98.5".as_ref()]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("coverage 98.4%, --min-coverage 98.5"), "{outcome:?}");
    for wrong in ["101", "NaN", "much"] {
        replay_micro(&["--min-coverage".as_ref(), wrong.as_ref()]).assert_refused(&["--min-coverage"]);
    }
}

#[test]
fn comparing_nothing_is_no_result() {
    let mut copy = Copy::of(MICRO_NODES);
    for node in copy.manifest.nodes.iter_mut().filter(|node| !node.is_pure_view()) {
        (node.op, node.variant) = ("WIGGLE".to_owned(), None);
    }
    let outcome = replay_file(&copy);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.last_line().ends_with("coverage 0%; nothing was compared"), "{outcome:?}");
    assert!(outcome.stderr.contains("nothing was compared"), "{outcome:?}");
}
