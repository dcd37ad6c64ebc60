//! The wrong passes of `vacuous_passes.rs` where operators are judged alone, and in `replay`: they fail there too.

mod common;

use std::ffi::OsStr;

use common::{
    ChangedEngine, Copy, Edit, Emitted, MICRO_NODES, Outcome, bytes, check_alone, engine, lockstep, twin,
};
use lockstep::compare::{Summary, Verdict};
use lockstep::dump::Dump;
use lockstep::gguf::Gguf;
use lockstep::harness::{Check, Mode};
use lockstep::replay::{Outcome as Replayed, Replay, replay};
use lockstep::tensor::{GgmlType, TensorId};

// The modes of `check`.

const MODES: [Mode; 2] = [Mode::Reseeded, Mode::Both];

/// The check of `dump` against an engine with changed tensors; it does not pass.
#[track_caller]
fn failing(dump: &Dump, mode: Mode, change: impl FnMut(Emitted) -> Vec<Emitted>) -> Check {
    let model = &MICRO_NODES.built().model;
    let mut engine = ChangedEngine::new(engine::<f32>(MICRO_NODES, model, dump), change);
    let check = check_alone(MICRO_NODES, dump, model, &mut engine, mode).unwrap();
    let passing =
        || check.comparison.results.iter().filter(|r| r.verdict.is_pass()).map(|r| r.id.to_string());
    assert!(!check.comparison.is_pass(), "{mode:?}: {:?}", passing().take(9).collect::<Vec<_>>());
    check
}

/// The same in both modes on the committed dump; the counts of each.
#[track_caller]
fn failing_in_both(change: fn(Emitted) -> Vec<Emitted>) -> [Check; 2] {
    MODES.map(|mode| failing(&MICRO_NODES.open(), mode, change))
}

fn summary(check: &Check) -> Summary {
    check.comparison.summary()
}

fn verdicts<'a>(check: &'a Check, name: &str) -> Vec<&'a Verdict> {
    check.comparison.results.iter().filter(|r| r.id.name == name).map(|r| &r.verdict).collect()
}

/// Changes the tensors of one name.
fn only(name: &str, mut tensor: Emitted, change: fn(&mut Emitted)) -> Vec<Emitted> {
    if tensor.id.name == name {
        change(&mut tensor);
    }
    vec![tensor]
}

#[test]
fn row_1_a_missing_tensor() {
    for check in failing_in_both(|t| if t.id.name == "ffn_gate-2" { vec![] } else { vec![t] }) {
        assert_eq!(verdicts(&check, "ffn_gate-2"), [&Verdict::Missing; 3]);
        assert_eq!((summary(&check).compared, summary(&check).missing), (417 - 3, 3));
    }
}

#[test]
fn row_1_a_root_is_missing_and_its_view_is_not() {
    for check in failing_in_both(|t| {
        let is_root = t.id.name == "Vcur-3" && t.id.occurrence == 0;
        if is_root { vec![] } else { vec![t] }
    }) {
        assert_eq!(summary(&check).missing, 3);
    }
}

#[test]
fn row_2_an_extra_tensor_of_nan() {
    for check in failing_in_both(|t| {
        let id = TensorId { name: "more".to_owned(), ..t.id.clone() };
        let extra = Emitted { id, ne: t.ne, values: vec![f32::NAN; t.values.len()] };
        if t.id.name == "l_out-0" { vec![t, extra] } else { vec![t] }
    }) {
        assert_eq!((summary(&check).pass, summary(&check).extra), (417, 3));
    }
}

#[test]
fn row_2_a_tensor_twice() {
    // Once right and once wrong, in either order: neither hides the other.
    fn wrong(tensor: &Emitted) -> Emitted {
        Emitted { values: vec![7.0; tensor.values.len()], ..tensor.clone() }
    }
    for check in failing_in_both(|t| if t.id.name == "l_out-0" { vec![wrong(&t), t] } else { vec![t] }) {
        assert_eq!((summary(&check).extra, verdicts(&check, "l_out-0")[0]), (3, &Verdict::Differ));
    }
    for check in
        failing_in_both(|t| if t.id.name == "l_out-0" { vec![t.clone(), wrong(&t)] } else { vec![t] })
    {
        assert_eq!((summary(&check).extra, verdicts(&check, "l_out-0")[0]), (3, &Verdict::Pass));
    }
    // A view of what was given.
    for check in
        failing_in_both(|t| if t.id.name == "q_conv-0" { vec![t.clone(), wrong(&t)] } else { vec![t] })
    {
        assert_eq!(summary(&check).extra, 3);
    }
}

#[test]
fn row_4_unrelated_names_at_the_same_position() {
    for check in failing_in_both(|mut t| {
        t.id.name = t.id.name.replace("ffn_up", "mlp.up_proj");
        vec![t]
    }) {
        assert_eq!((summary(&check).missing, summary(&check).extra), (12, 12));
    }
}

#[test]
fn row_5_a_transposed_tensor() {
    for check in failing_in_both(|t| only("l_out-3", t, |t| t.ne.swap(0, 1))) {
        let shape = Verdict::Shape { reference: [256, 3, 1, 1], actual: [3, 256, 1, 1] };
        assert_eq!((verdicts(&check, "l_out-3")[0], summary(&check).shape), (&shape, 3));
        assert!(check.comparison.results.iter().all(|r| r.id.name != "l_out-3" || r.metrics.is_none()));
    }
}

#[test]
fn row_6_an_engine_that_emits_nothing() {
    for check in failing_in_both(|_| vec![]) {
        assert_eq!((summary(&check).compared, summary(&check).missing), (0, 417));
        assert_eq!(summary(&check).coverage(), 0.0);
    }
}

#[test]
fn row_6_an_engine_that_emits_nothing_when_it_is_reseeded() {
    // The first run is sound and complete; it does not speak for the second.
    let mut emitted = 0;
    let check = failing(&MICRO_NODES.open(), Mode::Both, |tensor| {
        emitted += 1;
        if emitted > 417 { vec![] } else { vec![tensor] }
    });
    assert_eq!((summary(&check).compared, summary(&check).missing), (0, 417));
    // The same for a shape and for a tensor too much.
    let mut emitted = 0;
    let check = failing(&MICRO_NODES.open(), Mode::Both, |mut tensor| {
        emitted += 1;
        let is_second = emitted > 417 && tensor.id.name == "l_out-3" && tensor.id.step == 0;
        let id = TensorId { name: "more".to_owned(), ..tensor.id.clone() };
        let more = Emitted { id, ..tensor.clone() };
        if is_second {
            tensor.ne = [768, 1, 1, 1];
        }
        if is_second { vec![tensor, more] } else { vec![tensor] }
    });
    assert_eq!((summary(&check).shape, summary(&check).extra), (1, 1));
}

/// A copy of `nodes-5` in which nothing can be evaluated.
fn unknown_operators() -> Copy {
    let mut copy = Copy::of(MICRO_NODES);
    for node in copy.manifest.nodes.iter_mut().filter(|node| !node.is_pure_view()) {
        (node.op, node.variant) = ("WIGGLE".to_owned(), None);
    }
    copy
}

#[test]
fn row_6_everything_skipped() {
    let copy = unknown_operators();
    let written = copy.write();
    let check = failing(&Dump::open(&written.path).unwrap(), Mode::Reseeded, |tensor| vec![tensor]);
    let s = summary(&check);
    assert_eq!((s.compared, s.skipped, s.coverage()), (0, 417, 0.0));
    let outcome = program("check", &copy);
    let reason = "compared, but not judged alone: 417 (operator WIGGLE not known)";
    assert!(outcome.code == Some(0) && outcome.stdout.contains(reason), "{outcome:?}"); // on its own values it was
    // Asked for by name, it is not passed over.
    let (model, twin) =
        (MICRO_NODES.built().path.to_str().unwrap(), twin(MICRO_NODES).path.to_str().unwrap());
    let dump = written.path.to_str().unwrap();
    lockstep(["check", "--model", model, "--twin", twin, "--dump", dump, "--mode", "both"])
        .assert_refused(&["no operator could be judged alone: operator WIGGLE not known"]);
}

#[test]
fn row_7_a_nan_that_no_comparison_exceeds() {
    for check in failing_in_both(|t| only("beta-1", t, |t| t.values[5] = f32::NAN)) {
        assert_eq!(verdicts(&check, "beta-1"), [&Verdict::NonFinite; 3]);
    }
    for check in failing_in_both(|t| only("z-1", t, |t| t.values[5] = f32::INFINITY)) {
        assert_eq!(verdicts(&check, "z-1"), [&Verdict::NonFinite; 3]);
    }
}

/// A copy of `nodes-5` with a NaN in `ffn_out-1` at step 0, and at the same place in the sum that reads it.
fn with_nan() -> Copy {
    let mut copy = Copy::of(MICRO_NODES);
    for name in ["ffn_out-1", "l_out-1"] {
        copy.change(0, name, |values| values[3] = f32::NAN);
    }
    copy
}

#[test]
fn row_9_equal_nans() {
    let written = with_nan().write();
    for mode in MODES {
        let check = failing(&Dump::open(&written.path).unwrap(), mode, |t| {
            let is_it = t.id.step == 0 && (t.id.name == "ffn_out-1" || t.id.name == "l_out-1");
            let mut t = t;
            if is_it {
                t.values[3] = f32::NAN;
            }
            vec![t]
        });
        for name in ["ffn_out-1", "l_out-1"] {
            assert_eq!(verdicts(&check, name)[0], &Verdict::NonFinite, "{mode:?} {name}");
        }
    }
}

#[test]
fn row_13_the_shorter_length() {
    for mode in MODES {
        let model = &MICRO_NODES.built().model;
        let (dump, cut) = (MICRO_NODES.open(), |t: &mut Emitted| t.values.truncate(100));
        for name in ["l_out-1", "q_conv-1"] {
            let sound = engine::<f32>(MICRO_NODES, model, &dump);
            let mut engine = ChangedEngine::new(sound, |t| only(name, t, cut));
            let result = check_alone(MICRO_NODES, &dump, model, &mut engine, mode);
            let error = result.unwrap_err().to_string();
            let is_said = ["the actual tensor 100", "are 100"].iter().any(|said| error.contains(said));
            assert!(is_said, "{error}");
        }
    }
}

/// A copy of `nodes-5` in which every f32 payload holds one value throughout.
fn constant(value: f32) -> Copy {
    let mut copy = Copy::of(MICRO_NODES);
    for payload in copy.payloads.iter_mut().filter(|payload| payload.ty == GgmlType::F32) {
        payload.bytes = bytes(&vec![value; payload.bytes.len() / 4]);
    }
    copy
}

#[test]
fn row_14_a_broken_reference_and_an_engine_broken_alike() {
    let written = constant(0.0).write();
    for mode in MODES {
        let check = failing(&Dump::open(&written.path).unwrap(), mode, |mut t| {
            t.values.fill(0.0);
            vec![t]
        });
        // The weights are not zero, so neither side is what they give.
        let first = check.comparison.first_difference().unwrap().result;
        assert_eq!(first.id.name, "model.input_embed", "{mode:?}");
    }
}

// Replay.

/// `lockstep <verb>` on a copy of `nodes-5`.
fn program(verb: &str, copy: &Copy) -> Outcome {
    let (written, twin) = (copy.write(), twin(MICRO_NODES));
    let model = if verb == "check" { &MICRO_NODES.built().path } else { &twin.path };
    let mut args = vec![verb.as_ref(), "--model".as_ref(), model.as_os_str()];
    args.extend([OsStr::new("--dump"), written.path.as_os_str()]);
    if verb == "check" {
        args.extend([OsStr::new("--twin"), twin.path.as_os_str()]);
    }
    lockstep(args)
}

/// Replays a copy against the twin, or another file under the twin's name; it does not pass.
#[track_caller]
fn replay_fails(copy: &Copy, gguf: &Gguf) -> Replay {
    let written = copy.write();
    let dump = Dump::open(&written.path).unwrap();
    let replay = replay(gguf, &twin(MICRO_NODES).sha256, &dump, &mut |_, _| {}).unwrap();
    assert!(!replay.is_pass());
    replay
}

#[test]
fn replay_row_1_a_missing_entry() {
    let mut copy = Copy::of(MICRO_NODES);
    copy.node(1, "l_out-1").entry = None;
    copy.drop_unused();
    program("replay", &copy).assert_refused(&["'l_out-1' (step 1)", "values are missing"]);
    let mut copy = Copy::of(MICRO_NODES);
    copy.payloads.retain(|payload| payload.entry != "1/l_out-1");
    program("replay", &copy).assert_refused(&["'l_out-1' (step 1)", "not in the file"]);
}

/// The program could not replay anything (exit code 2), and its table says each of `words`.
#[track_caller]
fn assert_nothing_replayed(copy: &Copy, words: &[&str]) {
    let outcome = program("replay", copy);
    assert_eq!(
        (outcome.code, outcome.stderr.trim()),
        (Some(2), "error: nothing was compared"),
        "{outcome:?}"
    );
    assert!(words.iter().all(|word| outcome.stdout.contains(word)), "expected {words:?} in {outcome:?}");
}

#[test]
fn replay_row_6_nothing_compared() {
    let mut copy = Copy::of(MICRO_NODES);
    copy.manifest.run.filters = vec!["^nothing$".to_owned()];
    copy.manifest.run.selected.clear();
    copy.manifest.nodes.iter_mut().for_each(|node| node.entry = None);
    copy.drop_unused();
    let replay = replay_fails(&copy, &twin(MICRO_NODES).gguf);
    assert_eq!((replay.summary().compared, replay.results.len()), (0, 0));
    assert_nothing_replayed(&copy, &["0 nodes compared", "coverage 0%; nothing was compared"]);
}

#[test]
fn replay_row_6_everything_skipped() {
    let copy = unknown_operators();
    let s = replay_fails(&copy, &twin(MICRO_NODES).gguf).summary();
    assert_eq!((s.compared, s.skipped, s.coverage()), (0, 423, 0.0));
    assert_nothing_replayed(&copy, &["skipped 423: operator WIGGLE not known", "nothing was compared"]);
}

#[test]
fn replay_row_9_equal_nans() {
    // The sum of a NaN is one: it is explained, and it is no number.
    let copy = with_nan();
    let replay = replay_fails(&copy, &twin(MICRO_NODES).gguf);
    for name in ["ffn_out-1", "l_out-1"] {
        let result = replay.results.iter().find(|r| r.id.name == name && r.id.step == 0).unwrap();
        assert_eq!((&result.outcome, result.share), (&Replayed::NonFinite, f64::INFINITY), "{name}");
    }
    program("replay", &copy)
        .assert_differs(&["over its budget: ffn_out-1 (step 0, ", " non-finite; coverage 100%"]);
}

#[test]
fn replay_row_12_zeros_on_both_sides() {
    // A table of zeros, and a dump that has nothing but what was looked up in it.
    let zeros = Edit::of(&twin(MICRO_NODES).path);
    let zeros = zeros.zeros("token_embd.weight", &[256, 512], GgmlType::F32).write();
    let mut copy = constant(0.0);
    copy.manifest.run.filters = vec!["^model.input_embed$".to_owned()];
    let embeds: Vec<u32> =
        copy.manifest.nodes.iter().filter(|n| n.name == "model.input_embed").map(|n| n.id).collect();
    copy.manifest.run.selected = embeds.iter().map(|&id| [id, id]).collect();
    copy.manifest.nodes.iter_mut().filter(|n| !embeds.contains(&n.id)).for_each(|n| n.entry = None);
    copy.drop_unused();
    let s = replay_fails(&copy, &Gguf::open(&zeros.path).unwrap()).summary();
    assert_eq!((s.within, s.zero, s.compared), (3, 3, 3));
}

#[test]
fn replay_row_14_a_broken_reference() {
    for value in [0.0, 0.5] {
        let outcome = program("replay", &constant(value));
        outcome.assert_differs(&["over its budget: model.input_embed (step 0, GET_ROWS f32 x i32)"]);
    }
}
