//! The kernels of the delta net as a graph of plain operators, on the emulator: against dumps of llama.cpp that ran it so, and beside
//! the cpu engine, tensor by tensor.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Keep, Tensor, case_folder, lockstep, micro, relative_l2, synthetic, ubatch};
use lockstep::engine::gpu::{Device, DeviceOptions, Driver, Flavour, GpuEngine, GpuModel};
use lockstep::engine::{
    Conventions, DeltaNetRoute, Engine, Memory, Numerics, Tap, TapError, Ubatch, cpu::CpuEngine,
};
use lockstep::model::Model;
use lockstep::tensor::{GgmlType, TensorId, Values};

fn simt() -> Device {
    Device::open(&DeviceOptions::new(Driver::Simt(Flavour::Fast))).unwrap()
}

/// Asserts that a check on the emulator passes and that its last line begins so.
#[track_caller]
fn assert_passes(args: &[&str], last_line: &str) {
    let outcome = lockstep(["check", "--engine", "simt"].iter().chain(args));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.last_line().starts_with(last_line), "{outcome:?}");
}

/// What is skipped is what the cpu engine skips too: the dump leaves out what it is computed from.
#[test]
fn a_case_passes_in_every_mode() {
    let case = case_folder("unfused");
    let case = case.to_str().unwrap();
    for (mode, line) in [
        ("cumulative", "75 compared: 75 pass, 0 differ, 0 missing, 0 extra, 0 skipped; coverage 100%"),
        ("reseeded", "56 compared: 56 pass, 0 differ, 0 missing, 0 extra, 19 skipped; coverage 74.6%"),
        ("both", "75 compared: 75 pass, 0 differ, 0 missing, 0 extra, 0 skipped; coverage 100%"),
    ] {
        assert_passes(&[case, "--mode", mode], line);
    }
}

#[test]
fn a_folded_model_passes_beside_its_twin() {
    let [twin, model] = [GgmlType::F32, GgmlType::PQ2_0].map(|ty| synthetic("nano-bonsai", 1, ty));
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/check");
    for (dump, n) in [("unfused.npz", 94), ("unfused-65.npz", 8)] {
        let dump = goldens.join(dump);
        let [model, twin, dump] = [&model.path, &twin.path, &dump].map(|path| path.to_str().unwrap());
        let line = format!("{n} compared: {n} pass, 0 differ, 0 missing, 0 extra, 0 skipped; coverage 100%");
        assert_passes(&["--model", model, "--twin", twin, "--dump", dump, "--mode", "both"], &line);
    }
}

/// Keeps every tensor, and has the engine go on with a little more than each.
#[derive(Default)]
struct Replace(Keep);

impl Tap for Replace {
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        self.0.tensor(id, ne, values)?;
        let Values::F32(values) = values else { panic!("both engines compute in f32") };
        Ok(Some(values.iter().map(|x| x * 1.0625).collect()))
    }
}

fn unfused() -> Numerics {
    Numerics { delta_net: DeltaNetRoute::Unfused, ..Numerics::default() }
}

fn run(engine: &mut dyn Engine, ubatches: &[Ubatch]) -> Vec<Tensor> {
    let mut tap = Replace::default();
    ubatches.iter().for_each(|ubatch| drop(engine.step(ubatch, &mut tap).unwrap()));
    tap.0.tensors
}

/// Asserts that both have the same tensors in the same order, with the same values but for rounding.
#[track_caller]
fn assert_agree(reference: &[Tensor], actual: &[Tensor]) {
    let ids = |tensors: &[Tensor]| -> Vec<_> { tensors.iter().map(|t| (t.id.clone(), t.ne)).collect() };
    assert_eq!(ids(actual), ids(reference));
    let differences = reference.iter().zip(actual).map(|(x, y)| (relative_l2(&x.values, &y.values), x));
    let (worst, of) = differences.max_by(|x, y| x.0.total_cmp(&y.0)).unwrap();
    assert!(worst <= SAME_IN_F32, "{} is off by {worst:.1e}", of.id);
}

/// Two sequences side by side, `n` tokens of each, from position `first`.
fn side_by_side(first: usize, n: usize) -> Ubatch {
    let tokens: Vec<u32> = (0..2 * n).map(|i| ((37 * (i + first) + 11) % 256) as u32).collect();
    Ubatch {
        sequences: (0..2 * n).map(|i| (i / n) as i32).collect(),
        positions: (0..2 * n).map(|i| (first + i % n) as i64).collect(),
        ..ubatch(&tokens, 0..2 * n)
    }
}

/// Two engines that round in other orders stay this close over four layers: 2^-24 for each of the roundings, of which some hundreds
/// lie one behind the other, were none lost. A replacement that one of them ignored is a sixteenth.
const SAME_IN_F32: f64 = 2e-5;

#[test]
fn every_tensor_is_that_of_the_cpu_engine_and_can_be_replaced() {
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    let on_device = Arc::new(GpuModel::upload(&simt(), &model, &mut |_, _| {}).unwrap());
    // Two chunks of which the second is padded, one token, a padded chunk.
    let ubatches = [side_by_side(0, 65), side_by_side(65, 1), side_by_side(66, 2)];
    let mut cpu = CpuEngine::<f32>::new(&model, Conventions::default(), 128).unwrap();
    cpu = cpu.with_numerics(unfused()).unwrap();
    let gpu = GpuEngine::new(&on_device, Conventions::default(), 128).unwrap();
    let mut gpu = gpu.with_numerics(unfused()).unwrap();
    let (reference, actual) = (run(&mut cpu, &ubatches), run(&mut gpu, &ubatches));
    for name in ["dnet_add_ch_attn_solved-0", "kq-0", "v_t_new-0", "dnet_add_ch_attn_out-2", "k_in-1"] {
        assert!(reference.iter().any(|t| t.id.name == name), "{name}");
    }
    assert_agree(&reference, &actual);
}

/// Where earlier states are kept the operator runs, as in llama.cpp.
#[test]
fn with_earlier_states_kept_it_is_one_operator() {
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    let on_device = Arc::new(GpuModel::upload(&simt(), &model, &mut |_, _| {}).unwrap());
    let memory = Memory { n_rs_seq: 1, ..Memory::default() };
    let cpu = CpuEngine::<f32>::new(&model, Conventions::default(), 16).unwrap();
    let mut cpu = cpu.with_numerics(unfused()).unwrap().with_memory(memory);
    let gpu = GpuEngine::new(&on_device, Conventions::default(), 16).unwrap();
    let mut gpu = gpu.with_numerics(unfused()).unwrap().with_memory(memory).unwrap();
    let ubatches = [side_by_side(0, 3)];
    assert_agree(&run(&mut cpu, &ubatches), &run(&mut gpu, &ubatches));
}
