//! `check` says how a run goes step by step, and judges the token that each row of logits chooses.

mod common;

use std::ffi::OsStr;
use std::path::Path;

use common::{Copy, Edit, NANO_PROMPT, Outcome, case_folder, lockstep};
use lockstep::gguf::{Gguf, sha256};
use serde_json::{Value, json};

/// Runs `check` on `subject` and gives what it printed, and its JSON.
fn check(subject: &[&OsStr]) -> (Outcome, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let args = [&["check".as_ref()], subject, &["--json".as_ref(), path.as_os_str()]].concat();
    let outcome = lockstep(args);
    let json = std::fs::read(path).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    (outcome, serde_json::from_slice(&json).unwrap())
}

fn rows(json: &Value) -> &[Value] {
    json["logits"]["rows"].as_array().unwrap()
}

#[test]
fn a_passing_run_shows_each_step_with_its_tokens() {
    let (outcome, json) = check(&[case_folder("micro-bonsai").as_os_str()]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for line in [
        "  l_out by step (share of the limit that was carried there), layers 0 to 3\n    step 0  pos 0-2  ",
        "\n    step 1  pos 3    ",
        "\n    step 0  pos 0-129  ",
        "  logits   argmax equal in 3 of 3; worst step ",
        "\n    step 1  pos 3  441 = 441, margin 0.76, actual 0.76 ",
    ] {
        assert!(outcome.stdout.contains(line), "{line:?} in {}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("first step over"), "{}", outcome.stdout);
    let steps = json["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 4); // 3 and 1
    assert_eq!((&steps[0]["tokens"], &steps[0]["positions"]), (&json!([1, 5, 9]), &json!([0, 1, 2])));
    assert_eq!((&steps[2]["positions"], &steps[2]["seq_ids"]), (&json!([4]), &json!([[0]])));
    for step in steps {
        assert_eq!((&step["failures"], &step["l_out"]["verdict"]), (&json!(0), &json!("pass")), "{step}");
    }
    for row in rows(&json) {
        assert_eq!((&row["greedy"], &row["rank"], &row["behind"]), (&json!("equal"), &json!(1), &json!(0.0)));
        let margin = |key: &str| row[key].as_f64().unwrap();
        let apart = (margin("margin_reference") - margin("margin_actual")).abs();
        assert!(margin("margin") > 0.0 && apart <= margin("noise"), "{row}");
    }
    assert_eq!(json["logits"]["equal"], 4);
}

#[test]
fn a_failing_run_names_its_first_step_and_its_tokens() {
    let wrong = "attn_output_permutation=tiled_to_grouped";
    let (outcome, json) =
        check(&[case_folder("micro-bonsai").as_os_str(), "--convention".as_ref(), wrong.as_ref()]);
    outcome.assert_differs(&[
        "\n  first step over its limit: step 0, pos 0-2, tokens [1,5,9]: l_out-3 ",
        " and 122 more: l_out-3 ",
        "; tokens: 2 equal, 0 near ties, 2 different\n",
    ]);
    assert_eq!(json["steps"][0]["l_out"]["first_failure"], "l_out-3");
    let different = rows(&json).iter().filter(|row| row["greedy"] == "different");
    for row in different {
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("behind") > number("noise") && number("rank") > 1.0, "{row}");
    }
    assert_eq!([&json["logits"]["equal"], &json["logits"]["different"]], [2, 2]);
}

/// A model whose output has the same weights for the reference's best token and for the one before it, which the engine, as both
/// logits are equal, chooses; in the dump the logit of the latter is that of the best, less `behind`.
fn two_alike(behind: impl FnOnce(f32) -> f32) -> (Outcome, Value) {
    const OUTPUT: &str = "output.weight";
    let mut copy = Copy::of(NANO_PROMPT);
    let mut best = 0;
    copy.change(0, "result_output", |logits| {
        best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        logits[best - 1] = behind(logits[best]);
    });
    let original: &Path = &NANO_PROMPT.built().path;
    let gguf = Gguf::open(original).unwrap();
    let output = gguf.tensor(OUTPUT).unwrap();
    let row = output.data.len() / output.info.dims()[1] as usize;
    let model = Edit::of(original)
        .change(OUTPUT, |data| data.copy_within(best * row..(best + 1) * row, (best - 1) * row))
        .write();
    copy.manifest.model.sha256 = sha256(&model.path).unwrap();
    let dump = copy.write();
    check(&["--model".as_ref(), model.path.as_os_str(), "--dump".as_ref(), dump.path.as_os_str()])
}

#[test]
fn a_near_tie_is_shown_and_passes() {
    let (outcome, json) = two_alike(f32::next_down);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains(" near tie: rank 2, "), "{}", outcome.stdout);
    assert!(outcome.last_line().ends_with("; tokens: 0 equal, 1 near tie, 0 different"), "{outcome:?}");
    let row = &rows(&json)[0];
    assert_eq!(
        (&row["greedy"], &row["rank"], &json["logits"]["near_tie"]),
        (&json!("near_tie"), &json!(2), &json!(1))
    );
    assert_eq!((&row["margin_actual"], &row["margin_reference"]), (&json!(0.0), &row["behind"]));
    assert!(row["behind"].as_f64().unwrap() > 0.0 && json["is_pass"] == true);
}

#[test]
fn a_token_that_is_further_behind_than_noise_fails() {
    let (outcome, json) = two_alike(|best| best - 0.01);
    outcome.assert_differs(&[
        "different: rank 2, 1.0e-02 behind",
        "; tokens: 0 equal, 0 near ties, 1 different\n",
    ]);
    assert_eq!((&rows(&json)[0]["greedy"], &json["is_pass"]), (&json!("different"), &json!(false)));
}
