//! The modes of `check`: what each judges, what it needs, and that a sound engine passes in all of them.

mod common;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use common::{
    Copy, FaultyEngine, MICRO_NODES, NANO_PROMPT, Outcome, Twin, case_folder, engine, lockstep, twin,
};
use half::bf16;
use lockstep::compare::Departs;
use lockstep::dump::Dump;
use lockstep::harness::{
    CheckOptions, Floor, HarnessError, Mode, ReferenceModel, StateKind, check_with, measure_floor, widen,
};
use lockstep::tensor::TensorId;
use serde_json::Value;

/// Runs `check` on a subject with options; what it said, and its JSON if it could run.
fn check(subject: &[&OsStr], options: &[&str]) -> (Outcome, Value) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let mut args = vec![OsStr::new("check")];
    args.extend(subject);
    args.extend(options.iter().map(OsStr::new));
    args.extend([OsStr::new("--json"), json.as_os_str()]);
    let outcome = lockstep(args);
    let json = std::fs::read(json).map_or(Value::Null, |json| serde_json::from_slice(&json).unwrap());
    (outcome, json)
}

/// The same on a case; asserts that it passes.
fn passing(case: &str, options: &[&str]) -> (Outcome, Value) {
    let checked = check(&[case_folder(case).as_os_str()], options);
    assert_eq!(checked.0.code, Some(0), "{:?}", checked.0);
    checked
}

/// The same on a folded model and its dump, without a case that would have the twin.
fn on_files(model: &Path, dump: &Path, options: &[&str]) -> (Outcome, Value) {
    let [m, d] = ["--model", "--dump"].map(OsStr::new);
    check(&[m, model.as_os_str(), d, dump.as_os_str()], options)
}

/// The same on `micro-bonsai/nodes-5` with the twin; asserts that it passes.
fn passing_nodes(options: &[&str]) -> (Outcome, Value) {
    let twin = twin(MICRO_NODES).path.to_str().unwrap();
    let options = [&["--twin", twin], options].concat();
    let checked = on_files(&MICRO_NODES.built().path, &MICRO_NODES.path(), &options);
    assert_eq!(checked.0.code, Some(0), "{:?}", checked.0);
    checked
}

/// The tensors of one dump, each with its name and step.
fn tensors<'a>(json: &'a Value, dump: &str) -> Vec<&'a Value> {
    let tensors = json["tensors"].as_array().unwrap().iter();
    tensors.filter(|tensor| tensor["dump"].as_str().unwrap().ends_with(dump)).collect()
}

fn tensor<'a>(json: &'a Value, name: &str, step: u64) -> &'a Value {
    let mut tensors = json["tensors"].as_array().unwrap().iter();
    tensors.find(|t| t["name"] == name && t["step"] == step && t["occurrence"] == 0).unwrap()
}

/// Asserts that every tensor was judged alone, and that neither side departs.
#[track_caller]
fn assert_neither_departs(tensors: &[&Value], expected: usize) {
    assert_eq!(tensors.len(), expected);
    for tensor in tensors {
        assert_eq!((&tensor["verdict"], &tensor["departs"]), (&"pass".into(), &"neither".into()), "{tensor}");
        assert!(tensor["share"].as_f64().unwrap() <= 1.0, "{tensor}");
    }
}

fn has_numbers(tensor: &Value, fields: &[&str]) -> bool {
    fields.iter().all(|field| tensor[field].is_number())
}

#[test]
fn a_quantised_model_passes_in_both() {
    let (outcome, json) = passing("nano-mixed-prompt", &[]);
    let header: Vec<&str> = outcome.stdout.lines().take(2).collect();
    assert!(header[0].ends_with("engine cpu f32 (activations rounded as ggml-cpu x86)"), "{header:?}");
    assert!(header[1].contains("CPU, f32 K, f32 V, flash attention off, 1 thread; tokens 2"), "{header:?}");
    assert!(outcome.stdout.contains("x its noise floor"), "{outcome:?}");
    assert_neither_departs(&tensors(&json, "prompt-2"), 69);
    let fields = ["scaled_error", "introduced", "actual_vs_exact", "reference_vs_exact", "floor", "limit"];
    assert!(has_numbers(tensor(&json, "Vcur-1", 0), &fields));
    assert_eq!(json, passing("nano-mixed-prompt", &["--mode", "both"]).1);
}

#[test]
fn f64_arithmetic_passes_in_both() {
    let (outcome, json) = passing_nodes(&["--arithmetic", "f64", "--mode", "both"]);
    assert!(outcome.stdout.contains("engine cpu f64"), "{outcome:?}");
    assert_neither_departs(&tensors(&json, "nodes-5"), 417);
}

#[test]
fn reseeded_alone_judges_operators_and_nothing_carried() {
    let (outcome, json) = passing_nodes(&["--mode", "reseeded"]);
    assert!(!outcome.stdout.contains("noise floor"), "{outcome:?}");
    assert_neither_departs(&tensors(&json, "nodes-5"), 417);
    let l_out = tensor(&json, "l_out-3", 2);
    assert!(has_numbers(l_out, &["introduced", "actual_vs_exact", "reference_vs_exact"]), "{l_out}");
    for carried in ["scaled_error", "amplification", "floor", "times_floor", "limit"] {
        assert_eq!(l_out[carried], Value::Null, "{carried} of {l_out}");
    }
}

#[test]
fn a_state_that_is_kept_carries_its_error_on_and_passes() {
    let introduced = |json: &Value, step| tensor(json, "new_state-2", step)["introduced"].as_f64().unwrap();
    let alone = passing_nodes(&["--mode", "reseeded"]).1;
    let kept = passing_nodes(&["--mode", "reseeded", "--keep-state", "recurrent"]).1;
    // Nothing was kept in front of the first step.
    assert_eq!(introduced(&kept, 0), introduced(&alone, 0));
    for step in [1, 2] {
        let (kept, alone) = (introduced(&kept, step), introduced(&alone, step));
        assert!(kept > 5.0 * alone, "step {step}: {kept:e}, {alone:e}");
    }
    // The reference is judged from its own inputs as ever, and so is all that reads no state.
    for name in ["new_state-2", "z-2", "conv_input-2"] {
        let [kept, alone] = [&kept, &alone].map(|json| tensor(json, name, 2));
        assert_eq!(kept["reference_vs_exact"], alone["reference_vs_exact"], "{name}");
        assert_eq!(kept["actual_vs_exact"] == alone["actual_vs_exact"], name != "new_state-2", "{name}");
    }
    for states in ["conv", "kv", "conv,recurrent,kv"] {
        for mode in ["reseeded", "both"] {
            passing_nodes(&["--mode", mode, "--keep-state", states]);
        }
    }
}

#[test]
fn a_state_that_is_kept_in_bf16_is_too_far_off() {
    let (dump, model) = (MICRO_NODES.open(), &MICRO_NODES.built().model);
    let sound = || engine::<f32>(MICRO_NODES, model, &dump);
    let floor = measure_floor(&mut sound(), &mut engine::<f64>(MICRO_NODES, model, &dump), &dump).unwrap();
    let Twin { gguf, sha256, .. } = twin(MICRO_NODES);
    let options = CheckOptions {
        mode: Mode::Reseeded,
        reference: Some(ReferenceModel { gguf, sha256 }),
        model: Some(model),
        keep: &[StateKind::Recurrent],
        floor: Some(&floor),
        to_the_bit: false,
    };
    let mut engine = FaultyEngine::new(sound(), "new_state-1", |_, _, state| {
        state.iter_mut().for_each(|s| *s = bf16::from_f32(*s).to_f32());
    });
    let check = check_with(&mut engine, &MICRO_NODES.built().sha256, &dump, options, &mut |_, _| {}).unwrap();
    let departed = check.comparison.results.iter().filter(|r| r.departs() != Some(Departs::Neither));
    let departed: Vec<String> = departed.map(|r| r.id.to_string()).collect();
    let carried = ["new_state-1 (step 0)", "state_predelta-1 (step 1)", "new_state-1 (step 1)"];
    assert_eq!(departed[..3], carried);
    let states = ["state_predelta-1", "new_state-1", "attn_output-1"];
    assert!(departed.iter().all(|id| states.iter().any(|state| id.starts_with(state))), "{departed:?}");
}

#[test]
fn a_folded_model_without_its_twin_is_checked_on_its_own_values() {
    let (model, dump) = (&MICRO_NODES.built().path, MICRO_NODES.path());
    let (outcome, json) = on_files(model, &dump, &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let l_out = tensor(&json, "l_out-3", 0);
    assert!(l_out["departs"].is_null() && l_out["introduced"].is_null(), "{l_out}");
    assert!(has_numbers(l_out, &["floor", "times_floor", "limit"]), "{l_out}");
    for mode in ["both", "reseeded"] {
        on_files(model, &dump, &["--mode", mode]).0.assert_refused(&["give the unfolded twin with --twin"]);
    }
}

#[test]
fn a_twin_of_another_model_is_refused() {
    let model = MICRO_NODES.built().path.to_str().unwrap();
    let (outcome, _) = on_files(model.as_ref(), &MICRO_NODES.path(), &["--twin", model]);
    outcome.assert_refused(&[&twin(MICRO_NODES).sha256, &MICRO_NODES.built().sha256]);
}

#[test]
fn a_recorded_run_has_no_graph_and_is_checked_on_its_own_values() {
    let (folder, model) = (tempfile::tempdir().unwrap(), &NANO_PROMPT.built().path);
    let dump = folder.path().join("run.npz");
    let tokens = ["--tokens", "7,200,31", "--schedule", "2,1", "--dump"].map(OsStr::new);
    let recorded =
        lockstep([&[OsStr::new("run"), model.as_os_str()], &tokens[..], &[dump.as_os_str()]].concat());
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let (outcome, json) = on_files(model, &dump, &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    // Our engine rounded nothing when it was recorded.
    assert!(outcome.stdout.lines().next().unwrap().ends_with("engine cpu f32"), "{outcome:?}");
    let all = json["tensors"].as_array().unwrap();
    assert!(all.iter().all(|t| t["departs"].is_null() && t["relative_l2"] == 0.0), "{json}");
    on_files(model, &dump, &["--mode", "both"]).0.assert_refused(&["need a dump with the graph of the run"]);
}

#[test]
fn whole_activations_depart_at_the_first_quantised_product() {
    let case = case_folder("nano-mixed-prompt");
    let (outcome, json) = check(&[case.as_os_str()], &["--activations", "whole"]);
    outcome.assert_differs(&[
        "first difference: linear_attn_qkv_mixed-0 (blk.0, MUL_MAT, step 0): actual departs, ",
    ]);
    assert!(outcome.stdout.lines().next().unwrap().ends_with("engine cpu f32"), "{outcome:?}");
    // Products with quantised weights and their views, no others: alpha and beta have f32 weights.
    for (name, departs) in
        [("z-0", "actual"), ("alpha-0", "neither"), ("beta-0", "neither"), ("Vcur-1", "actual")]
    {
        assert_eq!(tensor(&json, name, 0)["departs"], departs, "{name}");
    }
}

fn kv_f16() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/check/kv-f16.npz")
}

#[test]
fn keys_and_values_in_f16_pass_in_both() {
    let (outcome, json) = on_files(&NANO_PROMPT.built().path, &kv_f16(), &["--mode", "both"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("activations rounded as ggml-cpu x86, K f16, V f16)"), "{outcome:?}");
    assert!(outcome.stdout.contains("compared, but not judged alone: 4 (a source is not in the dump)"));
    for step in [0, 1] {
        for name in ["Qcur-1", "kq-1", "kq_soft_max-1", "kqv-1", "attn_output-1"] {
            assert_eq!(tensor(&json, name, step)["departs"], "neither", "{name} step {step}");
        }
    }
}

#[test]
fn keys_and_values_that_are_not_rounded_depart_where_they_are_used() {
    use lockstep::dump::Dump;
    use lockstep::engine::{Conventions, cpu::CpuEngine};

    let (dump, built) = (Dump::open(&kv_f16()).unwrap(), NANO_PROMPT.built());
    let mut numerics = lockstep::harness::numerics(&built.sha256, &dump).unwrap();
    (numerics.type_k, numerics.type_v) = (lockstep::tensor::GgmlType::F32, lockstep::tensor::GgmlType::F32);
    let engine = CpuEngine::<f32>::new(&built.model, Conventions::default(), 256).unwrap();
    let mut engine = engine.with_numerics(numerics).unwrap();
    let reference = Some(ReferenceModel { gguf: built.model.gguf(), sha256: &built.sha256 });
    let options = CheckOptions { mode: Mode::Reseeded, reference, ..CheckOptions::default() };
    let check = check_with(&mut engine, &built.sha256, &dump, options, &mut |_, _| {}).unwrap();
    let departed: Vec<(String, Departs)> = check
        .comparison
        .results
        .iter()
        .filter_map(|r| Some((r.id.to_string(), r.departs()?)))
        .filter(|(_, departs)| *departs != Departs::Neither)
        .collect();
    let names = ["kq-1 (step 0)", "kqv-1 (step 0)", "kq-1 (step 1)", "kqv-1 (step 1)"];
    assert_eq!(departed, names.map(|name| (name.to_owned(), Departs::Actual)));
}

#[test]
fn a_further_dump_widens_the_floor_of_what_it_differs_in() {
    let id = |name: &str| TensorId { step: 0, name: name.to_owned(), occurrence: 0 };
    let dump = MICRO_NODES.open();
    let mut copy = Copy::of(MICRO_NODES);
    copy.change(0, "l_out-1", |values| values.iter_mut().for_each(|value| *value *= 1.001));
    let other = copy.write();
    let mut floor = Floor::from([(id("l_out-1"), 1e-6), (id("l_out-2"), 1e-6)]);
    let shared = widen(&mut floor, &dump, &Dump::open(&other.path).unwrap()).unwrap();
    assert!(shared > 400, "{shared}");
    assert!((floor[&id("l_out-1")] / 1e-3 - 1.0).abs() < 1e-3, "{}", floor[&id("l_out-1")]);
    assert_eq!(floor[&id("l_out-2")], 1e-6);

    let mut copy = Copy::of(MICRO_NODES);
    copy.set_token(0, 0, 2);
    let other = copy.write();
    let refused = widen(&mut floor, &dump, &Dump::open(&other.path).unwrap()).unwrap_err();
    assert!(matches!(refused, HarnessError::OtherSchedule { .. }), "{refused}");
    let refused = widen(&mut floor, &dump, &NANO_PROMPT.open()).unwrap_err();
    assert!(refused.to_string().contains("is of another model than"), "{refused}");
}
