//! `scripts/zoo.sh` itself: what is wrong is said, and ends with another status.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs the script on one model with a program in place of lockstep, whose text is `replaying`.
fn zoo(replaying: &str, words: &[&str]) -> (TempDir, Output) {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("lockstep");
    fs::write(&program, format!("#!/usr/bin/env bash\n{replaying}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/zoo.sh");
    let output = Command::new(script).args(words).env("LOCKSTEP", &program).output().unwrap();
    (folder, output)
}

/// A program that writes this report to where `--json` says.
fn reporting(nodes: &str) -> String {
    format!(
        "while [ $# -gt 0 ]; do [ \"$1\" != --json ] || printf '%s' '{{\"nodes\":[{nodes}]}}' >\"$2\"; shift; done"
    )
}

fn node(op: &str, outcome: &str, reason: &str) -> String {
    format!(
        r#"{{"op":"{op}","name":"x-0","step":0,"outcome":"{outcome}","reason":{reason},"rounding":"none","share":0.5,"is_zero":false,"ties":0}}"#
    )
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Standard output and status of a run of llama with flash attention off.
fn ended(replaying: &str) -> (Option<i32>, String) {
    let (_folder, output) = zoo(replaying, &["--arch", "^llama-dense$", "--flash-attn", "off"]);
    (output.status.code(), text(&output))
}

#[test]
#[ignore = "needs the models of scripts/zoo.sh"]
fn what_is_over_or_not_known_is_named() {
    let (good, over) = (node("ADD", "within", "null"), node("MUL", "over", "null"));
    let skipped = node("NEW", "skipped", "\"operator NEW not known\"");
    let (code, said) = ended(&reporting(&good));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 models in 1 runs: 1 of 1 nodes within; 0 all zero"), "{said}");
    let (code, said) = ended(&reporting(&format!("{good},{over},{skipped}")));
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "not within: MUL, 1 nodes in 1 runs, first llama-dense f32",
        "operator NEW not known",
        "1 of 3 nodes within",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
#[ignore = "needs the models of scripts/zoo.sh"]
fn nothing_compared_is_no_pass() {
    for nodes in [String::new(), node("ADD", "within", "null").replace("false", "true")] {
        let (code, said) = ended(&reporting(&nodes));
        assert_eq!(code, Some(1), "{said}");
    }
}

#[test]
#[ignore = "needs the models of scripts/zoo.sh"]
fn what_cannot_run_is_named() {
    let (code, said) = ended("echo no such thing >&2; exit 2");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("failed: llama-dense f32 flash attention off: lockstep ended with 2: no such thing"),
        "{said}"
    );
    let (_folder, output) = zoo("exit 0", &["--arch", "no-such-model"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("no model has such a name"));
}

#[test]
#[ignore = "needs the models of scripts/zoo.sh"]
fn a_dozen_without_an_operator_is_no_dozen() {
    let (_folder, output) =
        zoo(&reporting(&node("ADD", "within", "null")), &["--dozen", "--flash-attn", "off"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("not in the dozen: MUL_MAT"), "{}", text(&output));
}

#[test]
#[ignore = "needs the models of scripts/zoo.sh"]
fn what_is_kept_is_a_model_and_its_dump() {
    let kept = TempDir::new().unwrap();
    let words = ["--arch", "^llama-dense$", "--flash-attn", "off", "--keep", kept.path().to_str().unwrap()];
    let (_folder, output) = zoo(&reporting(&node("ADD", "within", "null")), &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let setting: Vec<PathBuf> =
        fs::read_dir(kept.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(setting.len(), 1);
    for file in ["llama-dense.gguf", "llama-dense.npz"] {
        assert!(setting[0].join(file).is_file(), "{file}");
    }
}
