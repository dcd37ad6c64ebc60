//! `lockstep ask` as a user meets it: what it prints, what it refuses, and how it ends.

mod common;

use common::{Copy, MICRO_NODES, MINI_PROMPT, NANO_PROMPT, Outcome, case_folder, lockstep};
use lockstep::question::QUESTIONS;

fn ask(args: &[&str]) -> Outcome {
    lockstep([&["ask"], args].concat())
}

fn case(name: &str) -> String {
    case_folder(name).to_str().unwrap().to_owned()
}

#[track_caller]
fn assert_holds(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    for word in words {
        assert!(outcome.stdout.contains(word) || outcome.stderr.contains(word), "{word}: {outcome:#?}");
    }
}

#[test]
fn the_list_names_every_question_with_one_line() {
    let outcome = ask(&["--list"]);
    assert_holds(&outcome, 0, &[]);
    for question in QUESTIONS {
        let is_line = |line: &str| line.starts_with(question.name) && line.ends_with(question.asks);
        assert_eq!(outcome.stdout.lines().filter(|line| is_line(line)).count(), 1, "{}", question.name);
        assert!(question.asks.ends_with('?'), "{}", question.name);
    }
    assert_eq!(outcome.last_line(), format!("{} questions", QUESTIONS.len()));
}

#[test]
fn questions_are_asked_of_every_dump_of_a_case() {
    let outcome = ask(&[&case("mini-bonsai"), "gdn_head_map", "rope_sections"]);
    assert_holds(
        &outcome,
        0,
        &[
            "mini-bonsai / token-1   qwen35 64 layers (48 delta, 16 attention), pq2_0 folded",
            "mini-bonsai / prompt-7-decode-4",
            "gdn_head_map: which k head does v head h of the delta net read?   48 layers, 11 tokens",
            "  A  h % n_k          (interleaved)",
            "<- decided,",
            "left out: 192 places (q_conv_predelta is not in the dump)",
            "tie: A and B cannot be told apart on this dump. It takes positions of an image",
            "`lockstep ask --probe rope_sections`",
        ],
    );
    assert_eq!(outcome.last_line(), "4 asked: 2 decided, 2 tie, 0 none fits");
}

#[test]
fn each_kind_of_weight_has_its_own_line_and_each_tensor_if_wanted() {
    let outcome = ask(&[&case("micro-bonsai"), "fold_order", "--layers", "--all"]);
    assert_holds(&outcome, 0, &["attn_qkv", "ffn_down", "ssm_out", "linear_attn_qkv_mixed-2 (step 1)"]);
    let outcome = ask(&[&case("micro-bonsai"), "fold_order", "--layers"]);
    assert_holds(&outcome, 0, &["more, --all)"]);
    // The types of this model want different roundings.
    let outcome = ask(&[&case("nano-mixed-prompt"), "activation_rounding", "fold_order"]);
    assert_holds(
        &outcome,
        0,
        &[
            "ffn_gate bf16",
            "attn_qkv q1_0",
            "fold_order: does not apply: the model declares no Hadamard fold",
        ],
    );
    assert_eq!(outcome.last_line(), "4 asked: 4 decided, 0 tie, 0 none fits; 4 not applicable");
}

#[test]
fn brief_has_one_line_for_each_question() {
    let outcome = ask(&[&case("micro-bonsai"), "--brief"]);
    assert_holds(&outcome, 0, &["no evidence: ", "plain = unscaled_times_head_dim"]);
    for question in QUESTIONS {
        let lines = outcome.stdout.lines().filter(|line| line.trim_start().starts_with(question.name));
        assert!(lines.count() >= 2, "{}", question.name); // two dumps
    }
}

#[test]
fn an_error_that_no_candidate_explains_ends_with_1_and_says_what_it_looks_like() {
    let mut copy = Copy::of(MICRO_NODES);
    copy.change(0, "Qcur-3", |values| values.iter_mut().for_each(|x| *x *= 2.0));
    let written = copy.write();
    let json = tempfile::tempdir().unwrap();
    let json = json.path().join("answers.json");
    let outcome = ask(&[
        "--model",
        MICRO_NODES.built().path.to_str().unwrap(),
        "--dump",
        written.path.to_str().unwrap(),
        "rope_pairing",
        "swiglu_order",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_holds(
        &outcome,
        1,
        &["none fits: A comes nearest, farthest off at Qcur-3 (step 0); looks like a factor 2"],
    );
    assert_eq!(outcome.last_line(), "2 asked: 1 decided, 0 tie, 1 none fits");
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(document["summary"]["none_fits"], 1);
    let answers = document["answers"].as_array().unwrap();
    assert_eq!(
        (answers[0]["outcome"].as_str(), answers[0]["nearest"].as_str()),
        (Some("none_fits"), Some("half"))
    );
    assert_eq!(answers[0]["diagnosis"][0], "a factor 2");
    assert_eq!(
        (answers[1]["outcome"].as_str(), answers[1]["winner"].as_str()),
        (Some("decided"), Some("gate_activated"))
    );
    assert!(answers[1]["margin"].as_f64().unwrap() > 1e3);
    assert!(answers[1]["candidates"][0]["share"].as_f64().unwrap() <= 1.0);
    assert_eq!(answers[1]["groups"][0]["tensors"][0]["name"], "ffn_swiglu-0");
}

#[test]
fn what_cannot_be_asked_ends_with_2() {
    let outcome = ask(&["no_such_question"]);
    assert_holds(&outcome, 2, &["no question is called `no_such_question`", "gdn_head_map"]);
    assert_holds(&ask(&[]), 2, &["name a case folder, or --model and --dump"]);
    assert_holds(&ask(&["--probe", "no_such"]), 2, &["no question is called `no_such`"]);
    // Another model, another architecture, and nothing that could be asked.
    let (micro, nano) = (MICRO_NODES.built(), NANO_PROMPT.path());
    let model = micro.path.to_str().unwrap();
    let of = |dump: &str, question: &str| ask(&["--model", model, "--dump", dump, question]);
    assert_holds(&of(nano.to_str().unwrap(), "gates"), 2, &["was made from"]);
    let llama = case_folder("smollm2").join("layer-0.npz");
    assert_holds(&of(llama.to_str().unwrap(), "gates"), 2, &["questions are about qwen35, this is llama"]);
    let outcome = of(case_folder("micro-bonsai").join("prompt-130.npz").to_str().unwrap(), "gates");
    assert_holds(&outcome, 2, &["gates: no evidence: ", "nothing could be asked"]);
    assert_eq!(outcome.last_line(), "0 asked: 0 decided, 0 tie, 0 none fits; 1 without evidence");
}

#[test]
fn a_probe_is_a_model_with_what_to_do_next() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("probe");
    let outcome = ask(&["--probe", "fold_order", "--out", out.to_str().unwrap()]);
    assert_holds(
        &outcome,
        0,
        &["llama-dump -m unfolded.gguf", "--schedule", "lockstep ask --model model.gguf", "run.sh"],
    );
    let script = std::fs::read_to_string(out.join("run.sh")).unwrap();
    assert!(script.contains("\"$dumper\" -m unfolded.gguf -t "), "{script}");
    // llama.cpp cannot read the folded model: its twin is there too.
    assert!(out.join("model.gguf").is_file() && out.join("unfolded.gguf").is_file());
    let outcome = ask(&["--probe", "rope_sections", "--out", out.to_str().unwrap()]);
    assert_holds(&outcome, 0, &["fourth channel"]);
}

#[test]
fn the_64_layers_are_decided_but_for_what_text_cannot_tell() {
    let outcome = ask(&[
        "--model",
        MINI_PROMPT.built().path.to_str().unwrap(),
        "--dump",
        MINI_PROMPT.path().to_str().unwrap(),
    ]);
    assert_eq!(outcome.code, Some(0));
    assert_eq!(
        outcome.last_line(),
        format!("{} asked: {} decided, 1 tie, 0 none fits", QUESTIONS.len(), QUESTIONS.len() - 1)
    );
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lockstep"));
    let command = command.args(["ask", &case("micro-bonsai"), "fold_order", "--layers", "--all"]);
    let command = command.env("LOCKSTEP_CACHE", common::cache());
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let stderr = child.wait_with_output().unwrap().stderr;
    assert!(!String::from_utf8_lossy(&stderr).contains("panicked"));
}
