//! The shape of an error: `lockstep diagnose` on two dumps and on two files, and what `check` says of its first difference.

mod common;

use std::path::Path;

use common::{Copy, MICRO_NODES, MICRO_PROMPT, Outcome, case_folder, lockstep};
use lockstep::engine::Conventions;
use lockstep::engine::cpu::CpuEngine;
use lockstep::harness::{Recorder, memory_of, steps_of};
use serde_json::Value;

fn diagnose(reference: &Path, actual: &Path, more: &[&str]) -> Outcome {
    let paths = [reference.as_os_str(), actual.as_os_str()];
    lockstep(std::iter::once("diagnose".as_ref()).chain(paths).chain(more.iter().map(AsRef::as_ref)))
}

/// The reference against a copy in which one tensor was changed.
fn changed(step: u32, name: &str, change: impl FnOnce(&mut [f32]), more: &[&str]) -> Outcome {
    let mut copy = Copy::of(MICRO_NODES);
    copy.own_payload(step, name);
    copy.change(step, name, change);
    diagnose(&MICRO_NODES.path(), &copy.write().path, more)
}

#[test]
fn a_dump_equals_itself() {
    let outcome = diagnose(&MICRO_NODES.path(), &MICRO_NODES.path(), &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.last_line().starts_with("no difference beyond its limit; "), "{outcome:?}");
}

#[test]
fn the_first_difference_is_named_with_its_shape() {
    // z is read by the gate alone, so that nothing else changes in a copy of the dump.
    let outcome = changed(0, "z-1", |values| values.iter_mut().for_each(|v| *v = -*v), &[]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let line = outcome.last_line();
    assert!(line.starts_with("z-1 (step 0, MUL_MAT): looks like a sign: every value is negated; "), "{line}");
    let outcome = changed(0, "ffn_up-2", |values| values[512..].iter_mut().for_each(|v| *v *= 0.5), &[]);
    assert!(outcome.last_line().contains("looks like an error in every token but the first"), "{outcome:?}");
}

#[test]
fn a_tensor_is_diagnosed_by_name_even_within_the_limit() {
    let nudge = |values: &mut [f32]| values[7] *= 1.0 + 1e-4;
    let outcome = changed(1, "l_out-2", nudge, &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let outcome = changed(1, "l_out-2", nudge, &["--tensor", "l_out-2", "--step", "1"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.last_line().contains("looks like one wrong element: [7], reference "), "{outcome:?}");
    let outcome = changed(1, "l_out-2", nudge, &["--tensor", "l_out-2", "--step", "0"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.last_line().contains("l_out-2 (step 0, ADD): no difference"), "{outcome:?}");
}

#[test]
fn every_difference_in_one_line_each_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let mut copy = Copy::of(MICRO_NODES);
    for name in ["z-0", "z-2"] {
        copy.own_payload(0, name);
        copy.change(0, name, |values| values.iter_mut().for_each(|v| *v *= 3.0));
    }
    let written = copy.write();
    let outcome = diagnose(&MICRO_NODES.path(), &written.path, &["--all", "--json", json.to_str().unwrap()]);
    outcome.assert_differs(&[
        "  z-0 (step 0, MUL_MAT): looks like a factor 3",
        "  z-2 (step 0, MUL_MAT): looks like a factor 3",
    ]);
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&json["version"], &json["is_equal"]), (&Value::from(1), &Value::from(false)));
    let first = &json["tensors"][0];
    assert_eq!((&first["name"], &first["findings"][0]["shape"]), (&"z-0".into(), &"factor".into()));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let outcome = diagnose(&MICRO_NODES.path(), &MICRO_PROMPT.path(), &[]);
    outcome.assert_refused(&["not of the same run"]);
    let outcome = diagnose(&MICRO_NODES.path(), &MICRO_NODES.path(), &["--tensor", "no_such"]);
    outcome.assert_refused(&["no_such"]);
    let outcome = diagnose(&MICRO_NODES.path(), Path::new("Cargo.toml"), &[]);
    outcome.assert_refused(&["Cargo.toml"]);
}

/// A run of the engine on the tokens of `micro-bonsai/nodes-5`, as a dump.
fn record(path: &Path, conventions: Conventions) {
    let (built, dump) = (MICRO_NODES.built(), MICRO_NODES.open());
    let n_ctx = dump.manifest().run.n_ctx;
    let mut engine = CpuEngine::<f32>::new(&built.model, conventions, n_ctx as usize).unwrap();
    let mut recorder = Recorder::create(path).unwrap();
    for step in steps_of(&dump).unwrap() {
        recorder.step(&mut engine, &step).unwrap();
    }
    recorder.finish("cpu", dump.manifest().model.clone(), (memory_of(&dump).0, n_ctx), 0).unwrap();
}

#[test]
fn two_runs_of_an_engine_that_differ_by_a_convention() {
    let folder = tempfile::tempdir().unwrap();
    let [right, wrong] = ["right.npz", "wrong.npz"].map(|name| folder.path().join(name));
    record(&right, Conventions::default());
    assert_eq!(diagnose(&right, &right, &[]).code, Some(0));
    // A recorded run holds no graph: the ratio of the constants is all that its norms tell.
    for (convention, candidate, words) in [
        ("gdn_scale", "one", "attn_output-0 (step 0, NONE): looks like a factor 4; "),
        (
            "ssm_norm_eps",
            "times_head_dim",
            ": looks like another constant in a denominator: 16 times the reference's (",
        ),
        (
            "attn_head_map",
            "interleaved",
            "kq-3 (step 0, NONE): looks like a wrong map of heads to groups (h/6 against h%2)",
        ),
    ] {
        let mut conventions = Conventions::default();
        conventions.set(convention, candidate).unwrap();
        record(&wrong, conventions);
        let outcome = diagnose(&right, &wrong, &[]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.last_line().contains(words), "{outcome:?}");
        // llama.cpp's own dump beside it says the same.
        let outcome = diagnose(&MICRO_NODES.path(), &wrong, &[]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
    }
}

/// A `.npy` file of f32 in a folder.
fn npy(folder: &Path, name: &str, shape: &str, values: &[f32]) -> std::path::PathBuf {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn two_files() {
    let folder = tempfile::tempdir().unwrap();
    let x: Vec<f32> = (0..24).map(|i| ((i * 37 % 29) as f32).sin()).collect();
    // three tokens of four heads of two: heads 3 - h
    let y: Vec<f32> = (0..24).map(|i| x[i / 8 * 8 + (3 - i / 2 % 4) * 2 + i % 2]).collect();
    let reference = npy(folder.path(), "x.npy", "(3, 4, 2)", &x);
    let actual = npy(folder.path(), "y.npy", "(3, 4, 2)", &y);
    let outcome = diagnose(&reference, &actual, &[]);
    outcome.assert_differs(&["permutation"]);
    assert!(outcome.last_line().ends_with("looks like a permutation of heads (h -> 3-h)"), "{outcome:?}");
    assert_eq!(diagnose(&reference, &reference, &[]).code, Some(0));
    let other = npy(folder.path(), "z.npy", "(24,)", &y);
    diagnose(&reference, &other, &[]).assert_refused(&["only tensors of one shape"]);
    diagnose(&reference, &MICRO_NODES.path(), &[]).assert_refused(&["give two of a kind"]);
    diagnose(&reference, &actual, &["--axes", "token,head"]).assert_refused(&["names 2 axes"]);
    let broken = npy(folder.path(), "b.npy", "(25,)", &y);
    diagnose(&reference, &broken, &[]).assert_refused(&["b.npy", "100 bytes"]);
    let empty = npy(folder.path(), "e.npy", "(0, 4)", &[]);
    diagnose(&empty, &empty, &[]).assert_refused(&["nothing was compared"]);
}

/// `check` on `micro-bonsai` with a convention set wrong.
fn check(setting: &str, mode: &str) -> String {
    let case = case_folder("micro-bonsai");
    let args = ["check".as_ref(), case.as_os_str(), "--convention".as_ref(), setting.as_ref()];
    let outcome = lockstep(args.into_iter().chain(["--mode".as_ref(), mode.as_ref()]));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    outcome.stdout.lines().find(|line| line.starts_with("first difference: ")).unwrap().to_owned()
}

#[test]
fn check_says_what_its_first_difference_looks_like() {
    for (setting, tensor, words) in [
        ("attn_head_map=interleaved", "kq-3", "looks like a wrong map of heads to groups (h/6 against h%2)"),
        (
            "qgate_split=halves",
            "Qcur_reshaped-3",
            "looks like mixed heads of the tensor itself and gate_reshaped-3",
        ),
        ("fold_scale=unscaled", "model.input_embed", "looks like a factor 11.31 = sqrt(128)"),
        ("embedding_inverse_order=wht_only", "model.input_embed", "looks like a sign: negated in "),
        (
            "embedding_inverse_order=none",
            "model.input_embed",
            "looks like a Hadamard transform of each block of 128 channels",
        ),
        ("state_layout=k_major", "new_state-0", "looks like a transpose of the last two axes, 16 x 16"),
        ("qkv_split_order=kqv", "q_conv-0", "looks like the values of k_conv-0"),
        ("attn_gate=none", "gate_sigmoid-3", "looks like a constant: every value is 1"),
        (
            "attn_gate=silu",
            "gate_sigmoid-3",
            "looks like silu of the input where the reference has sigmoid of the input",
        ),
        ("ssm_norm_eps=times_head_dim", "norm-0 #1", "looks like another constant in a denominator: "),
    ] {
        for mode in ["cumulative", "reseeded"] {
            let line = check(setting, mode);
            assert!(line.starts_with(&format!("first difference: {tensor} (")), "{line}");
            assert!(line.contains(words), "{setting}, {mode}: {line}");
        }
    }
}
