//! `check` passes on every committed case, and what it compares is all there is.

mod common;

use std::collections::BTreeSet;

use common::{
    MICRO_NODES, MINI_PROMPT, MINI_TOKEN, Reference, case_folder, check_files, check_in_process, lockstep,
};
use lockstep::engine::Conventions;
use lockstep::tensor::GgmlType;
use serde_json::Value;

/// Largest `1 - cosine` of the residual stream and of the logits: both sides compute in f32 on equal weights.
const ONE_MINUS_COSINE: f64 = 1e-7;

/// Runs `check` on a case; returns its JSON after asserting that it passed completely.
fn check_case(case: &str, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (case, json) = (case_folder(case), folder.path().join("result.json"));
    let mut args = vec!["check".as_ref(), case.as_os_str(), "--json".as_ref(), json.as_os_str()];
    args.extend(more.iter().map(|arg| arg.as_ref() as &std::ffi::OsStr));
    let outcome = lockstep(args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let clean = ", 0 differ, 0 missing, 0 extra, 0 skipped; coverage 100%; worst ";
    assert!(outcome.last_line().contains(clean), "{}", outcome.last_line());
    assert!(!outcome.stdout.contains("first difference"), "{}", outcome.stdout);
    let json: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!((&json["is_pass"], &json["first_difference"]), (&Value::Bool(true), &Value::Null));
    let summary = &json["summary"];
    assert_eq!((&summary["compared"], &summary["coverage"]), (&summary["pass"], &Value::from(1.0)));
    assert_eq!(summary["compared"].as_u64().unwrap(), tensors(&json).len() as u64);
    json
}

fn tensors(json: &Value) -> &[Value] {
    json["tensors"].as_array().unwrap()
}

/// Asserts that in each of `rows` rows of logits both sides agree on the best token and on the ten best.
fn assert_logits_agree(json: &Value, rows: usize) {
    let logits = json["logits"]["rows"].as_array().unwrap();
    assert_eq!(logits.len(), rows);
    for row in logits {
        assert!(row["argmax_reference"].is_u64() && row["argmax_reference"] == row["argmax_actual"], "{row}");
        assert_eq!(row["top10_agreement"], 10, "{row}");
    }
}

#[test]
fn micro_bonsai_passes() {
    assert_logits_agree(&check_case("micro-bonsai", &[]), 4); // 3 steps and 1
}

#[test]
fn schedules_and_routes_pass_on_their_own_values_and_alone() {
    for case in ["sequences", "rollback", "unfused", "early-2026"] {
        check_case(case, &["--mode", "both"]);
    }
    // Of the chunks' matrices the dump holds too little to judge all of `unfused` alone; tests/unfused.rs has one that does.
    for case in ["sequences", "rollback", "early-2026"] {
        check_case(case, &["--mode", "reseeded"]);
    }
}

#[test]
fn a_case_whose_dumps_were_not_made_is_named_in_the_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(case_folder("rollback").join("case.toml")).unwrap();
    let absent = text.replace("file = \"back-1.npz\"", "file = \"absent.npz\"\ncommitted = false");
    std::fs::write(folder.path().join("case.toml"), absent).unwrap();
    let rollback = case_folder("rollback");
    let outcome = lockstep(["check".as_ref(), rollback.as_os_str(), folder.path().as_os_str()]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.last_line().contains("; 1 of the cases SKIPPED: "), "{}", outcome.last_line());
    lockstep(["check".as_ref(), folder.path().as_os_str()]).assert_refused(&["nothing was compared"]);
}

#[test]
fn mini_bonsai_passes() {
    let json = check_case("mini-bonsai", &[]);
    assert_logits_agree(&json, 6); // 1 step and 5
    let judged = |name: &str| name == "result_output" || name.starts_with("l_out-");
    let judged: Vec<&Value> = tensors(&json).iter().filter(|t| judged(t["name"].as_str().unwrap())).collect();
    assert_eq!(judged.len(), 6 * (64 + 1));
    for tensor in judged {
        let distance = tensor["one_minus_cosine"].as_f64().unwrap();
        assert!(distance <= ONE_MINUS_COSINE, "{tensor}");
    }
}

#[test]
fn f64_arithmetic_passes() {
    for (case, rows) in [("micro-bonsai", 4), ("mini-bonsai", 6)] {
        assert_logits_agree(&check_case(case, &["--arithmetic", "f64"]), rows);
    }
}

#[test]
fn mini_bonsai_is_built_in_an_empty_cache() {
    let cache = tempfile::tempdir().unwrap();
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["check".as_ref(), case_folder("mini-bonsai").as_os_str()])
        .env("LOCKSTEP_CACHE", cache.path())
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    assert_eq!(
        std::fs::read_dir(cache.path().join("models")).unwrap().count(),
        2,
        "the model, its unfolded twin and nothing else"
    );
}

#[test]
fn a_run_that_was_recorded_passes_against_itself() {
    let (folder, model) = (tempfile::tempdir().unwrap(), MICRO_NODES.built().path.as_os_str());
    let dump = folder.path().join("run.npz");
    let tokens = ["--tokens", "1,5,9,200", "--schedule", "3,1", "--dump"].map(std::ffi::OsStr::new);
    let args = [&["run".as_ref(), model], &tokens[..], &[dump.as_os_str()]].concat();
    let recorded = lockstep(args);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let outcome = check_files(model.as_ref(), &dump);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.last_line().contains("coverage 100%"), "{outcome:?}");
}

/// Name and occurrence of every tensor that llama.cpp computed, named and holds in f32.
fn named_by_llama_cpp(reference: Reference) -> BTreeSet<(String, u32)> {
    let dump = reference.open();
    let named = dump.nodes().iter().filter(|node| {
        node.is_named() && node.ty == GgmlType::F32 && !node.is_cache_view() && !node.ne.contains(&0)
    });
    named.map(|node| (node.name.clone(), node.occurrence)).collect()
}

/// Name and occurrence of every tensor that was compared and passed, at whatever step.
fn compared(reference: Reference) -> BTreeSet<(String, u32)> {
    let check =
        check_in_process::<f32>(reference.built(), &reference.open(), Conventions::default()).unwrap();
    assert!(check.comparison.is_pass());
    let results = check.comparison.results.into_iter();
    results.filter(|r| r.verdict.is_pass()).map(|r| (r.id.name, r.id.occurrence)).collect()
}

#[test]
fn every_named_tensor_of_64_layers_is_compared() {
    // Once in the single token, and once more over the five steps of prompt and decode.
    for reference in [MINI_TOKEN, MINI_PROMPT] {
        let (named, compared) = (named_by_llama_cpp(reference), compared(reference));
        let never: Vec<_> = named.difference(&compared).collect();
        assert!(never.is_empty(), "{}: never compared: {never:?}", reference.file);
        for layer in 0..64 {
            let mixer = if (layer + 1) % 4 == 0 { "attn_gated" } else { "final_output" };
            for kind in [mixer, "attn_norm", "attn_residual", "attn_output", "ffn_swiglu", "l_out"] {
                let tensor = (format!("{kind}-{layer}"), 0);
                assert!(named.contains(&tensor), "{}: no {tensor:?}", reference.file);
            }
        }
    }
}

#[test]
fn every_named_tensor_of_every_step_of_micro_bonsai_is_compared() {
    let dump = MICRO_NODES.open();
    let check = check_in_process::<f32>(MICRO_NODES.built(), &dump, Conventions::default()).unwrap();
    let per_step = named_by_llama_cpp(MICRO_NODES).len();
    assert_eq!(check.comparison.summary().pass, 3 * per_step as u64);
    assert_eq!(check.not_captured, 0);
}
