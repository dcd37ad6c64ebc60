//! The wrong passes that were found in other tools, one test each: here they fail.
//!
//! The engine under test is ours with its tensors changed on the way out, so that the fault lies on the actual side;
//! `faulty_dumps.rs` has the reference's side, `vacuous_modes.rs` the modes that judge operators alone and `replay`.

mod common;

use common::{
    Built, ChangedEngine, Copy, Emitted as Tensor, MICRO_NODES, MINI_TOKEN, Reference, bytes, check_files,
    check_in_process, lockstep,
};
use lockstep::compare::{Limit, Shaped, Summary, TensorResult, Verdict};
use lockstep::dump::Dump;
use lockstep::engine::{Conventions, cpu::CpuEngine};
use lockstep::harness::{Check, HarnessError, check};
use lockstep::tensor::{TensorId, Values};

/// What is emitted in place of a tensor.
type Change<'a> = &'a dyn Fn(Tensor) -> Vec<Tensor>;

fn run(built: &Built, dump: &Dump, change: Change<'_>) -> Result<Check, HarnessError> {
    let engine = CpuEngine::<f32>::new(&built.model, Conventions::default(), 256)?;
    check(&mut ChangedEngine::new(engine, change), &built.sha256, dump, &mut |_, _| {})
}

/// The check of a committed dump against a changed engine.
fn changed(reference: Reference, change: Change<'_>) -> Check {
    run(reference.built(), &reference.open(), change).unwrap()
}

/// Changes the tensors of one name, all steps and occurrences.
fn only(name: &str, mut tensor: Tensor, change: impl FnOnce(&mut Tensor)) -> Vec<Tensor> {
    if tensor.id.name == name {
        change(&mut tensor);
    }
    vec![tensor]
}

fn summary(check: &Check) -> Summary {
    check.comparison.summary()
}

fn verdicts(check: &Check, name: &str) -> Vec<Verdict> {
    let results = check.comparison.results.iter().filter(|result| result.id.name == name);
    results.map(|result| result.verdict.clone()).collect()
}

#[test]
fn the_engine_unchanged_passes() {
    let check = changed(MICRO_NODES, &|tensor| vec![tensor]);
    assert!(check.comparison.is_pass());
    assert_eq!((summary(&check).pass, summary(&check).skipped), (417, 0));
}

#[test]
fn row_1_a_missing_tensor() {
    let check = changed(MICRO_NODES, &|tensor| match tensor.id.name.as_str() {
        "ffn_gate-2" => vec![],
        _ => vec![tensor],
    });
    assert!(!check.comparison.is_pass());
    assert_eq!(verdicts(&check, "ffn_gate-2"), [Verdict::Missing, Verdict::Missing, Verdict::Missing]);
    assert_eq!((summary(&check).compared, summary(&check).missing), (417 - 3, 3));
    assert!(summary(&check).coverage() < 1.0);
}

#[test]
fn row_2_an_extra_tensor_of_nan() {
    let check = changed(MICRO_NODES, &|tensor| {
        let extra = TensorId { name: "more".to_owned(), ..tensor.id.clone() };
        let extra = Tensor { id: extra, ne: tensor.ne, values: vec![f32::NAN; tensor.values.len()] };
        if tensor.id.name == "l_out-0" { vec![tensor, extra] } else { vec![tensor] }
    });
    assert!(!check.comparison.is_pass());
    assert_eq!((summary(&check).pass, summary(&check).extra), (417, 3));
}

#[test]
fn row_3_names_that_contain_each_other() {
    // l_out-1 is part of l_out-10 to l_out-19; a match by substring would compare it with one of them.
    let check = changed(MINI_TOKEN, &|tensor| match tensor.id.name.as_str() {
        "l_out-1" => vec![],
        _ => vec![tensor],
    });
    assert!(!check.comparison.is_pass());
    assert_eq!(verdicts(&check, "l_out-1"), [Verdict::Missing]);
    assert_eq!(verdicts(&check, "l_out-10"), [Verdict::Pass]);
    assert_eq!((summary(&check).missing, summary(&check).extra), (1, 0));
}

#[test]
fn row_4_unrelated_names_at_the_same_position() {
    let check = changed(MICRO_NODES, &|mut tensor| {
        tensor.id.name = tensor.id.name.replace("ffn_up", "mlp.up_proj");
        vec![tensor]
    });
    assert!(!check.comparison.is_pass());
    assert_eq!((summary(&check).missing, summary(&check).extra), (12, 12)); // 4 layers, 3 steps
    assert_eq!(summary(&check).compared, 417 - 12);
}

#[test]
fn row_5_a_transposed_tensor() {
    let check = changed(MICRO_NODES, &|tensor| only("l_out-3", tensor, |t| t.ne.swap(0, 1)));
    assert!(!check.comparison.is_pass());
    let shapes = verdicts(&check, "l_out-3");
    assert_eq!(shapes[0], Verdict::Shape { reference: [256, 3, 1, 1], actual: [3, 256, 1, 1] });
    assert!(check.comparison.results.iter().all(|r| r.id.name != "l_out-3" || r.metrics.is_none()));
}

#[test]
fn row_6_everything_unchecked() {
    let check = changed(MICRO_NODES, &|_| vec![]);
    assert!(!check.comparison.is_pass());
    assert_eq!((summary(&check).compared, summary(&check).missing), (0, 417));
    assert_eq!(summary(&check).coverage(), 0.0);
}

#[test]
fn row_6_another_shape_of_the_same_volume() {
    let flat = |t: &mut Tensor| t.ne = [t.ne.iter().product(), 1, 1, 1];
    let check = changed(MICRO_NODES, &|tensor| only("z-1", tensor, flat));
    assert!(!check.comparison.is_pass());
    // At one token {384, 1, 1, 1} is the reference's own shape.
    assert_eq!((summary(&check).shape, summary(&check).pass), (1, 416));
}

#[test]
fn row_7_a_nan_that_no_comparison_exceeds() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let check = changed(MICRO_NODES, &|tensor| only("beta-1", tensor, |t| t.values[5] = bad));
        assert!(!check.comparison.is_pass());
        assert_eq!(verdicts(&check, "beta-1"), [Verdict::NonFinite, Verdict::NonFinite, Verdict::NonFinite]);
        assert_eq!(summary(&check).nonfinite, 3);
    }
}

/// A copy of `nodes-5` with a NaN in `ffn_out-1` at step 0.
fn with_nan() -> Copy {
    let mut copy = Copy::of(MICRO_NODES);
    copy.own_payload(0, "ffn_out-1").bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    copy
}

#[test]
fn row_8_a_nan_and_exit_status_0() {
    with_nan().check(MICRO_NODES).assert_differs(&["first difference: ffn_out-1", "non-finite"]);
}

#[test]
fn row_9_a_nan_replaced_by_0_and_equal_nans() {
    let (written, built) = (with_nan().write(), MICRO_NODES.built());
    let dump = Dump::open(&written.path).unwrap();
    for actual in [0.0, f32::NAN] {
        let check = run(built, &dump, &|tensor| {
            let step = tensor.id.step;
            only("ffn_out-1", tensor, |t| t.values[0] = if step == 0 { actual } else { t.values[0] })
        });
        let check = check.unwrap();
        assert!(!check.comparison.is_pass());
        assert_eq!(verdicts(&check, "ffn_out-1"), [Verdict::NonFinite, Verdict::Pass, Verdict::Pass]);
    }
}

#[test]
fn row_10_tensors_of_one_side_are_not_ignored() {
    // Half of the names are unknown to the other side: all of them are counted, none is skipped by a default.
    let check = changed(MICRO_NODES, &|mut tensor| {
        if tensor.id.layer().is_some_and(|layer| layer < 2) {
            tensor.id.name = format!("model.{}", tensor.id.name);
        }
        vec![tensor]
    });
    assert!(!check.comparison.is_pass());
    let s = summary(&check);
    assert!(s.missing > 100 && s.missing == s.extra, "{s:?}");
    assert_eq!((s.compared + s.missing, s.skipped), (417, 0));
}

#[test]
fn row_11_a_failure_that_does_not_reach_the_result() {
    let mut copy = Copy::of(MICRO_NODES);
    let flat = [768, 1, 1, 1];
    copy.own_payload(0, "ffn_out-3").ne = flat;
    let node = copy.node(0, "ffn_out-3");
    (node.ne, node.nb) = (flat, [4, 3072, 3072, 3072]);
    let (written, folder) = (copy.write(), tempfile::tempdir().unwrap());
    let json = folder.path().join("result.json");
    let files = [&MICRO_NODES.built().path, &written.path, &json].map(|path| path.as_os_str());
    let [model, dump, out] = files;
    let outcome = lockstep([
        "check".as_ref(),
        "--model".as_ref(),
        model,
        "--dump".as_ref(),
        dump,
        "--json".as_ref(),
        out,
    ]);
    outcome.assert_differs(&[" 1 shape"]);
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!((&json["is_pass"], &json["summary"]["shape"]), (&false.into(), &1.into()));
    assert_eq!(json["first_difference"]["name"], "ffn_out-3");
}

#[test]
fn row_11_swapped_arguments() {
    // 0.2 percent too large or too small, the limit holds whichever side is called the reference.
    let (small, large) = ([1.0, -2.0, 3.0], [1.002, -2.004, 3.006]);
    for (reference, actual) in [(small, large), (large, small)] {
        let id = TensorId { step: 0, name: "t".to_owned(), occurrence: 0 };
        let ne = [3, 1, 1, 1];
        let reference = Shaped { ne, values: &reference[..] };
        let actual = Shaped { ne, values: Values::F32(&actual) };
        let result = TensorResult::measure(id, "ADD", reference, actual, None, Limit::CUMULATIVE).unwrap();
        assert_eq!(result.verdict, Verdict::Differ);
    }
}

#[test]
fn row_12_zeros_on_both_sides_are_a_state_of_their_own() {
    // Before the first token the convolution's and the delta net's state are zero: 3 layers, 3 tensors.
    let check = check_in_process::<f32>(MICRO_NODES.built(), &MICRO_NODES.open(), Conventions::default());
    let check = check.unwrap();
    assert!(check.comparison.is_pass());
    let zero = |r: &&TensorResult| r.metrics.as_ref().is_some_and(|m| m.both_zero);
    let zeros: Vec<&TensorResult> = check.comparison.results.iter().filter(zero).collect();
    assert_eq!((zeros.len(), summary(&check).zero), (9, 9));
    let states = ["conv_states", "conv_states_reshaped", "state_predelta"];
    assert!(zeros.iter().all(|r| r.id.step == 0 && states.contains(&r.id.kind())));
    let outcome = check_files(&MICRO_NODES.built().path, &MICRO_NODES.path());
    assert!(outcome.stdout.contains("9 tensors are zero on both sides"), "{}", outcome.stdout);
}

#[test]
fn row_12_zero_on_one_side_differs() {
    let tiny = |t: &mut Tensor| t.values.fill(1e-30);
    let check = changed(MICRO_NODES, &|tensor| only("state_predelta-0", tensor, tiny));
    assert_eq!(verdicts(&check, "state_predelta-0")[0], Verdict::Differ);
    let check = changed(MICRO_NODES, &|tensor| only("l_out-0", tensor, |t| t.values.fill(0.0)));
    assert_eq!(verdicts(&check, "l_out-0"), [Verdict::Differ, Verdict::Differ, Verdict::Differ]);
}

#[test]
fn row_13_the_shorter_length() {
    // One token less, with the shape to match.
    let check = changed(MICRO_NODES, &|tensor| {
        only("l_out-1", tensor, |t| {
            if t.ne[1] == 3 {
                t.ne[1] = 2;
                t.values.truncate(512);
            }
        })
    });
    assert!(!check.comparison.is_pass());
    let shape = Verdict::Shape { reference: [256, 3, 1, 1], actual: [256, 2, 1, 1] };
    assert_eq!(verdicts(&check, "l_out-1"), [shape, Verdict::Pass, Verdict::Pass]);
    // The shape of all of it with values for less: not a verdict on the model, the engine is broken.
    let cut = |t: &mut Tensor| t.values.truncate(100);
    let result = run(MICRO_NODES.built(), &MICRO_NODES.open(), &|tensor| only("l_out-1", tensor, cut));
    let error = result.unwrap_err().to_string();
    assert!(error.contains("the actual values of a tensor of ne = [256, 3, 1, 1] are 100"), "{error}");
}

/// A copy of `nodes-5` in which every f32 payload holds one value throughout.
fn constant(value: f32) -> Copy {
    let mut copy = Copy::of(MICRO_NODES);
    for payload in &mut copy.payloads {
        if payload.ty == lockstep::tensor::GgmlType::F32 {
            payload.bytes = bytes(&vec![value; payload.bytes.len() / 4]);
        }
    }
    copy
}

#[test]
fn row_14_a_broken_reference() {
    for value in [0.0, 0.5] {
        let outcome = constant(value).check(MICRO_NODES);
        outcome.assert_differs(&["first difference: model.input_embed (GET_ROWS, step 0)"]);
    }
}

#[test]
fn row_14_a_broken_reference_and_an_engine_broken_alike() {
    // All is equal, and nothing was shown.
    let (written, built) = (constant(0.0).write(), MICRO_NODES.built());
    let check = run(built, &Dump::open(&written.path).unwrap(), &|mut tensor| {
        tensor.values.fill(0.0);
        vec![tensor]
    });
    let check = check.unwrap();
    assert_eq!((summary(&check).pass, summary(&check).zero), (417, 417));
    assert!(!check.comparison.is_pass());
}
