//! The delta net as a graph of plain operators: against a dump of llama.cpp that ran it so, against the fused operator, and with
//! the mistakes that only this route can make.

mod common;

use std::path::{Path, PathBuf};

use common::{Keep, ModelFile, Tensor, assert_same, micro, relative_l2, synthetic, ubatch};
use lockstep::compare::{Departs, TensorResult, Verdict};
use lockstep::dump::Dump;
use lockstep::engine::{
    Conventions, DeltaNetRoute, Engine, EngineError, Numerics, StateFault, Ubatch, cpu::CpuEngine,
};
use lockstep::gguf::{Gguf, sha256};
use lockstep::harness::{Check, CheckOptions, Mode, ReferenceModel, check_with, measure_floor, numerics};
use lockstep::model::Model;
use lockstep::ops::{DecayOrder, DeltaRule, Real};
use lockstep::tensor::GgmlType;

fn dump() -> Dump {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/check/unfused.npz");
    Dump::open(&path).unwrap()
}

/// The model that llama.cpp ran.
fn nano() -> (ModelFile, Model, Gguf, String) {
    let file = synthetic("nano-bonsai", 1, GgmlType::F32);
    let (model, gguf) = (Model::open(&file.path).unwrap(), Gguf::open(&file.path).unwrap());
    let sha256 = sha256(&file.path).unwrap();
    (file, model, gguf, sha256)
}

fn unfused<T: Real>(model: &Model) -> CpuEngine<'_, T> {
    let numerics = Numerics { delta_net: DeltaNetRoute::Unfused, ..Numerics::default() };
    CpuEngine::new(model, Conventions::default(), 512).unwrap().with_numerics(numerics).unwrap()
}

/// Checks an engine with what the dump's run had, changed by `change`.
fn checked(mode: Mode, change: impl Fn(&mut Numerics, &mut Conventions)) -> Check {
    let (_file, model, gguf, sha256) = nano();
    let dump = dump();
    let (mut numerics, mut conventions) = (numerics(&sha256, &dump).unwrap(), Conventions::default());
    assert_eq!(numerics.delta_net, DeltaNetRoute::Unfused);
    change(&mut numerics, &mut conventions);
    let engine = |conventions| CpuEngine::<f32>::new(&model, conventions, 256).unwrap();
    let mut under_test = engine(conventions).with_numerics(numerics).unwrap();
    let (mut narrow, mut wide) = (unfused::<f32>(&model), unfused::<f64>(&model));
    let floor = measure_floor(&mut narrow, &mut wide, &dump).unwrap();
    let reference = Some(ReferenceModel { gguf: &gguf, sha256: &sha256 });
    let options = CheckOptions { mode, reference, floor: Some(&floor), ..CheckOptions::default() };
    check_with(&mut under_test, &sha256, &dump, options, &mut |_, _| {}).unwrap()
}

fn of<'c>(check: &'c Check, name: &str, step: u32, occurrence: u32) -> &'c TensorResult {
    let is_it = |r: &&TensorResult| (&r.id.name[..], r.id.step, r.id.occurrence) == (name, step, occurrence);
    check.comparison.results.iter().find(is_it).unwrap_or_else(|| panic!("{name} step {step}"))
}

#[test]
fn every_tensor_of_llama_cpps_graph_passes_on_its_own_values_and_alone() {
    for mode in [Mode::Cumulative, Mode::Reseeded] {
        let check = checked(mode, |_, _| {});
        let failed: Vec<_> = check
            .comparison
            .results
            .iter()
            .filter(|r| !r.verdict.is_pass())
            .map(|r| r.id.to_string())
            .collect();
        // The dump leaves out what these are computed from.
        let not_judged: &[&str] = match mode {
            Mode::Reseeded => {
                &["dnet_add_ch_attn_solved-0 (step 0)", "result_norm (step 0)", "result_norm (step 1)"]
            }
            _ => &[],
        };
        assert_eq!(failed, not_judged, "{mode:?}");
        for (name, step, occurrence) in [
            ("k_in-0", 0, 0),
            ("g_cs-0", 0, 0),
            ("v_attn-0", 0, 0),
            ("dnet_add_ch_state-0", 0, 1),
            ("attn_output-0", 0, 0),
            ("k_in-0", 1, 0),
            ("new_state-0", 1, 0),
            ("attn_output-0", 1, 0),
        ] {
            let result = of(&check, name, step, occurrence);
            if mode == Mode::Reseeded {
                assert_eq!(result.departs(), Some(Departs::Neither), "{name} step {step}");
            }
        }
    }
}

#[test]
fn the_fused_operator_is_not_that_graph() {
    let check = checked(Mode::Cumulative, |numerics, _| numerics.delta_net = DeltaNetRoute::Fused);
    assert_eq!(of(&check, "g_cs-0", 0, 0).verdict, Verdict::Missing);
    assert_eq!(of(&check, "beta_sigmoid-0", 0, 0).verdict, Verdict::Extra);
}

#[test]
fn a_wrong_scale_departs_where_q_is_scaled() {
    let wrong =
        |_: &mut Numerics, conventions: &mut Conventions| conventions.set("gdn_scale", "one").unwrap();
    let check = checked(Mode::Reseeded, wrong);
    let departed = |r: &&TensorResult| r.departs().is_some_and(|departs| departs != Departs::Neither);
    let departed: Vec<_> =
        check.comparison.results.iter().filter(departed).map(|r| r.id.to_string()).collect();
    assert_eq!(departed, ["q_in-0 (step 0)", "q_in-0 (step 1)"]);
}

fn tokens(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| (37 * i + 11) % 256).collect()
}

/// Every tensor of a run in f64.
fn run(engine: &mut CpuEngine<'_, f64>, ubatches: &[Ubatch]) -> Vec<Tensor> {
    let mut keep = Keep::default();
    ubatches.iter().for_each(|ubatch| drop(engine.step(ubatch, &mut keep).unwrap()));
    keep.tensors
}

fn largest_difference(reference: &[Tensor], actual: &[Tensor], name: &str) -> f64 {
    let named = |tensors: &[Tensor]| -> Vec<Tensor> {
        tensors.iter().filter(|t| t.id.name.starts_with(name)).cloned().collect()
    };
    let (reference, actual) = (named(reference), named(actual));
    assert!(!reference.is_empty() && reference.len() == actual.len(), "{name}");
    let differences = reference.iter().zip(&actual).map(|(x, y)| relative_l2(&x.values, &y.values));
    differences.fold(0.0, f64::max)
}

/// Both routes are the same function, so in f64 only its rounding is between them: 2^-53 for each of some 10^4 operations on the
/// way through four layers, were each the worst one and none lost, is 10^-12; a graph of 64 x 64 matrices carries an error on no
/// more than some hundred times.
const SAME_IN_F64: f64 = 1e-10;

#[test]
fn both_routes_are_one_function_across_the_edges_of_chunks() {
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    for n in [1, 2, 63, 64, 65, 130] {
        let tokens = tokens(n + 1);
        let ubatches = [ubatch(&tokens, 0..n), ubatch(&tokens, n..n + 1)];
        let mut fused = CpuEngine::<f64>::new(&model, Conventions::default(), 512).unwrap();
        let (fused, unfused) = (run(&mut fused, &ubatches), run(&mut unfused(&model), &ubatches));
        for name in ["new_state-", "attn_output-", "l_out-", "result_output"] {
            let difference = largest_difference(&fused, &unfused, name);
            assert!(difference <= SAME_IN_F64, "{n} tokens, {name}: {difference:.1e}");
        }
    }
}

#[test]
fn sequences_side_by_side_are_each_alone() {
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    let all = tokens(130);
    let both = Ubatch {
        sequences: (0..130).map(|i| i / 65).collect(),
        positions: (0..130).map(|i| i % 65).collect(),
        ..ubatch(&all, 0..130)
    };
    let both = run(&mut unfused(&model), &[both]);
    let alone = run(&mut unfused(&model), &[ubatch(&all[65..], 0..65)]);
    let last =
        |tensors: &[Tensor]| tensors.iter().find(|t| t.id.name == "new_state-2").unwrap().values.clone();
    let (both, alone) = (last(&both), last(&alone));
    assert_eq!(both[alone.len()..], alone);
}

/// The first tensor that a fault changes, and how far the last state is off.
fn with_fault(model: &Model, fault: StateFault, n: usize) -> (String, f64) {
    let tokens = tokens(n);
    let ubatches = [ubatch(&tokens, 0..n)];
    let sound = run(&mut unfused(model), &ubatches);
    let faulty = run(&mut unfused(model).with_fault(Some(fault)), &ubatches);
    let first = sound.iter().zip(&faulty).find(|(x, y)| x != y).map(|(x, _)| x.id.to_string());
    (first.unwrap_or_default(), largest_difference(&sound, &faulty, "new_state-0"))
}

#[test]
fn mistakes_at_the_edge_of_a_chunk_show_where_they_are_made() {
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    let (first, difference) = with_fault(&model, StateFault::ChunkBoundary, 130);
    assert_eq!(first, "v_prime-0 #1 (step 0)");
    assert!(difference > 1e-3, "{difference}");
    let (first, difference) = with_fault(&model, StateFault::PaddingCounted, 130);
    assert_eq!(first, "g_cs-0 (step 0)");
    assert!(difference > 1e-3, "{difference}");
    // Where there is no second chunk and no padding, there is nothing to get wrong.
    for fault in [StateFault::ChunkBoundary, StateFault::PaddingCounted] {
        assert_eq!(with_fault(&model, fault, 64), (String::new(), 0.0), "{fault}");
    }
    let tokens = tokens(2);
    let whole = run(&mut unfused(&model), &[ubatch(&tokens, 0..2)]);
    assert_same(&whole, &run(&mut unfused(&model), &[ubatch(&tokens, 0..2)]));
}

#[test]
fn a_rule_that_the_graph_does_not_have_is_refused() {
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    let conventions = Conventions { update_rule: DeltaRule::Linear, ..Conventions::default() };
    let numerics = Numerics { delta_net: DeltaNetRoute::Unfused, ..Numerics::default() };
    let engine = CpuEngine::<f32>::new(&model, conventions, 16).unwrap();
    let mut engine = engine.with_numerics(numerics).unwrap();
    let refused = engine.step(&ubatch(&tokens(2), 0..2), &mut Keep::default()).unwrap_err();
    let expected = (DeltaRule::Linear, DecayOrder::BeforePrediction);
    assert!(matches!(refused, EngineError::UnfusedRule { got } if got == expected), "{refused}");
}
