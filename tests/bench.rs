//! `lockstep bench` on the emulator: everything runs, nothing passes for a measurement, and a model without a file is the model.

mod common;

use std::sync::Arc;

use common::{Outcome, ubatch};
use lockstep::engine::gpu::{Device, DeviceOptions, Driver, Flavour, GpuEngine, GpuModel};
use lockstep::engine::{Conventions, Engine, NullTap};
use lockstep::model::Model;
use serde_json::Value;

fn bench(args: &[&str]) -> Outcome {
    common::lockstep([&["bench"], args].concat())
}

fn measured(args: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("bench.json");
    let outcome = bench(&[args, &["--engine", "simt", "--small", "--json", json.to_str().unwrap()]].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    (outcome.stdout, serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap())
}

#[test]
fn kernels_are_all_measured_and_called_emulated() {
    let (text, json) = measured(&["kernels"]);
    assert!(text.starts_with("**EMULATED"), "{text}");
    assert_eq!((&json["is_emulated"], &json["what"]), (&Value::Bool(true), &Value::from("kernels")));
    let rows = json["kernels"].as_array().unwrap();
    for kernel in [
        "mul_mat_vec",
        "mul_mat_vec_q8_1",
        "mul_mat_vec_digits",
        "mul_mat_vec_split (apart)",
        "mul_mat",
        "mul_mat_q8_1",
        "fold",
        "rms_norm_fold",
        "swiglu_fold",
        "delta_net_step",
        "delta_net_chunked",
        "flash_attn_decode",
        "flash_attn_prefill",
    ] {
        assert!(rows.iter().any(|row| row["kernel"] == kernel), "{kernel}");
    }
    for row in rows {
        assert!(row["us"].as_f64() > Some(0.0) && row["bytes"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn a_model_is_measured_and_called_emulated() {
    let (text, json) = measured(&["model", "--contexts", "1,9", "--prompts", "9", "--decode", "2"]);
    assert!(text.starts_with("**EMULATED"), "{text}");
    let decode = json["decode"].as_array().unwrap();
    let recorded: Vec<bool> = decode.iter().map(|row| row["is_recorded"].as_bool().unwrap()).collect();
    assert_eq!(recorded, [true, false, true, false]);
    // A recording launches what it recorded.
    assert_eq!(decode[0]["launches_per_token"], decode[1]["launches_per_token"]);
    // micro-bonsai: two bits and a scale for each weight but those of the table, plain ones as they are.
    let per_token = json["token_weight_bytes"].as_u64().unwrap();
    assert_eq!(json["weight_bytes"].as_u64().unwrap() - per_token, 511 * 256 / 128 * 34);
    assert_eq!(json["prefill"][0]["n_tokens"], 9);
}

#[test]
fn what_is_no_device_or_too_much_for_it_is_refused() {
    for (args, expected) in [
        (&["kernels", "--engine", "cpu"][..], "--engine cpu has no kernels to measure"),
        (&["model", "--engine", "simt"], "give --small"),
    ] {
        let outcome = bench(args);
        assert_eq!(outcome.code, Some(2), "{args:?}");
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
}

#[test]
fn weights_that_stand_in_for_the_file_s_are_those_that_are_run() {
    let model = Model::open(&common::micro().path).unwrap();
    let device = Device::open(&DeviceOptions::new(Driver::Simt(Flavour::Fast))).unwrap();
    let logits = |uploaded: GpuModel<'_>| {
        let mut engine = GpuEngine::new(&Arc::new(uploaded), Conventions::default(), 8).unwrap();
        engine.step(&ubatch(&[7, 300, 12], 0..3), &mut NullTap).unwrap()
    };
    let expected = logits(GpuModel::upload(&device, &model, &mut |_, _| {}).unwrap());
    let mut same = |name: &str, _, _| Some(model.gguf().tensor(name).unwrap().data.to_vec());
    let with = |stand_in: lockstep::engine::gpu::StandIn<'_>| {
        logits(GpuModel::upload_with(&device, &model, stand_in, &mut |_, _| {}).unwrap())
    };
    assert_eq!(with(&mut same), expected);
    // Another layer's feed-forward net in the first.
    let mut other = |name: &str, _, _| {
        let name = if name == "blk.0.ffn_up.weight" { "blk.1.ffn_up.weight" } else { name };
        Some(model.gguf().tensor(name).unwrap().data.to_vec())
    };
    assert_ne!(with(&mut other), expected);
    let mut short = |name: &str, _, _| (name == "blk.0.ffn_up.weight").then(|| vec![0; 34]);
    assert!(GpuModel::upload_with(&device, &model, &mut short, &mut |_, _| {}).is_err());
}
