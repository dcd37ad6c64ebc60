//! Subtle faults, each planted in an engine and in a dump: `check` flags the tensor where the fault enters, nothing before it,
//! and blames the side that has it.

mod common;

use std::ffi::OsStr;
use std::path::Path;

use common::{
    Copy, Edit, Fault, FaultyEngine, MICRO_NODES, ModelFile, NANO_PROMPT, Outcome, Reference, Seen,
    check_alone, engine, lockstep, twin,
};
use half::{bf16, f16};
use lockstep::compare::Departs;
use lockstep::dump::Dump;
use lockstep::gguf::{Gguf, sha256};
use lockstep::harness::{Check, Mode};
use lockstep::model::Model;
use lockstep::model::UNFOLDED_FROM;
use lockstep::tensor::TensorId;
use serde_json::Value;

// A row of a weight that is the next one.

const ROW: usize = 37;

fn row_in_the_file() -> ModelFile {
    let row = Gguf::open(&MICRO_NODES.built().path).unwrap();
    let row = row.tensor("blk.1.ffn_gate.weight").unwrap().data.len() / 512;
    let next = (ROW + 1) * row..(ROW + 2) * row;
    let copied = |bytes: &mut [u8]| bytes.copy_within(next, ROW * row);
    Edit::of(&MICRO_NODES.built().path).change("blk.1.ffn_gate.weight", copied).write()
}

fn row_in_the_result(_: Seen<'_>, _: u32, ffn_gate: &mut [f32]) {
    ffn_gate.chunks_exact_mut(512).for_each(|token| token[ROW] = token[ROW + 1]);
}

// A convolution channel that is 15 % too large.

const CHANNEL: usize = 100;

fn channel_in_the_file() -> ModelFile {
    let larger = |bytes: &mut [u8]| {
        let kernel = &mut bytes.as_chunks_mut::<4>().0[4 * CHANNEL..][..4];
        kernel.iter_mut().for_each(|w| *w = (f32::from_le_bytes(*w) * 1.15).to_le_bytes());
    };
    Edit::of(&MICRO_NODES.built().path).change("blk.0.ssm_conv1d.weight", larger).write()
}

fn channel_in_the_result(_: Seen<'_>, _: u32, conv_output_raw: &mut [f32]) {
    conv_output_raw.chunks_exact_mut(640).for_each(|token| token[CHANNEL] *= 1.15);
}

// A head of attention that reads the values of another group's.

fn head(seen: Seen<'_>, step: u32, kqv: &mut [f32]) {
    let (head, kv_head, d, n_kv, n_embd_kv) = (2, 1, 32, 256, 64);
    let v: Vec<f32> = (0..=step).flat_map(|step| seen(step, "Vcur-3")).collect(); // [cells, n_embd_kv]
    let n_tokens = kqv.len() / (12 * d);
    let p = seen(step, "kq_soft_max-3"); // [heads, n_tokens, n_kv]
    for t in 0..n_tokens {
        for i in 0..d {
            let cells = v.chunks_exact(n_embd_kv).map(|cell| cell[kv_head * d + i]);
            let p = &p[(head * n_tokens + t) * n_kv..];
            kqv[(head * n_tokens + t) * d + i] = cells.zip(p).map(|(v, p)| v * p).sum();
        }
    }
}

// The epsilon of a layer's norm: 1e-5 in place of 1e-6.

fn epsilon(seen: Seen<'_>, step: u32, norm: &mut [f32]) {
    let x = seen(step, "l_out-1");
    for (y, x) in norm.chunks_exact_mut(256).zip(x.chunks_exact(256)) {
        let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 256.0;
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = (f64::from(x) / (mean + 1e-5).sqrt()) as f32);
    }
}

// A recurrent state that is kept in bf16.

fn bf16_state(_: Seen<'_>, _: u32, new_state: &mut [f32]) {
    new_state.iter_mut().for_each(|s| *s = bf16::from_f32(*s).to_f32());
}

// The scale of one block of Q8_0, off by one step of f16.

const V: &str = "blk.1.attn_v.weight";
/// Bytes of a block: the scale, then 32 quants.
const BLOCK: usize = 34;
/// Blocks of a row of 256.
const BLOCKS: usize = 8;

/// A block of a weight, and what its change does to the result.
struct Scale {
    row: usize,
    block: usize,
    /// Per token.
    delta: Vec<f64>,
    /// The largest delta over the terms of its element.
    scaled: f64,
}

/// The block whose scale matters most: the largest change of a result, relative to its terms, from the reference's input.
fn scale_that_matters_most() -> Scale {
    let dump = NANO_PROMPT.open();
    let find = |name: &str| dump.find(&TensorId { step: 0, name: name.to_owned(), occurrence: 0 }).unwrap();
    let x = dump.f32(find("attn_norm-1")).unwrap().unwrap(); // [n_tokens, 256]
    let gguf = Gguf::open(&NANO_PROMPT.built().path).unwrap();
    let weight = gguf.tensor(V).unwrap();
    let mut best = Scale { row: 0, block: 0, delta: vec![], scaled: 0.0 };
    for (row, blocks) in weight.data.chunks_exact(BLOCK * BLOCKS).enumerate() {
        let blocks: Vec<(f16, &[u8])> = blocks
            .chunks_exact(BLOCK)
            .map(|block| (f16::from_le_bytes([block[0], block[1]]), &block[2..]))
            .collect();
        // Per token and block: the sum of products without the scale, and of their sizes.
        let sums = |x: &[f32], block: usize| {
            let x = &x[32 * block..][..32];
            let products = blocks[block].1.iter().zip(x).map(|(&q, &x)| f64::from(q as i8) * f64::from(x));
            products.fold((0.0, 0.0), |(sum, terms), p| (sum + p, terms + p.abs()))
        };
        let scale = |block: usize| f64::from(blocks[block].0.to_f32());
        for (block, &(d, _)) in blocks.iter().enumerate() {
            let step = f64::from(next(d).to_f32()) - f64::from(d.to_f32());
            let terms = |x: &[f32]| (0..BLOCKS).map(|b| scale(b).abs() * sums(x, b).1).sum::<f64>();
            let delta: Vec<f64> = x.chunks_exact(256).map(|x| step * sums(x, block).0).collect();
            let scaled = delta.iter().zip(x.chunks_exact(256)).map(|(d, x)| d.abs() / terms(x));
            let scaled = scaled.fold(0.0, f64::max);
            if scaled > best.scaled {
                best = Scale { row, block, delta, scaled };
            }
        }
    }
    best
}

/// The f16 above in size.
fn next(d: f16) -> f16 {
    f16::from_bits(d.to_bits() + 1)
}

fn scale_in_the_file() -> ModelFile {
    let Scale { row, block, .. } = scale_that_matters_most();
    let off = |bytes: &mut [u8]| {
        let d = &mut bytes[(row * BLOCKS + block) * BLOCK..][..2];
        let next = next(f16::from_le_bytes([d[0], d[1]]));
        d.copy_from_slice(&next.to_le_bytes());
    };
    Edit::of(&NANO_PROMPT.built().path).change(V, off).write()
}

fn scale_in_the_result(_: Seen<'_>, _: u32, v: &mut [f32]) {
    let Scale { row, delta, .. } = scale_that_matters_most();
    let tokens = v.chunks_exact_mut(128).zip(delta);
    tokens.for_each(|(token, delta)| token[row] = (f64::from(token[row]) + delta) as f32);
}

/// How a fault gets into an engine.
#[derive(Clone, Copy)]
enum Entry {
    /// By the file that it runs.
    File(fn() -> ModelFile),
    /// By what it computes.
    Result,
}

/// A fault on both sides.
struct Planted {
    reference: Reference,
    /// The tensor that it enters at.
    target: &'static str,
    entry: Entry,
    fault: Fault,
    /// The step in which the dump has it; an engine has it in all.
    step: u32,
    /// Tensors that the reference computed from the target before the fault was planted in it.
    readers: &'static [&'static str],
}

const ROW_FAULT: Planted = Planted {
    reference: MICRO_NODES,
    target: "ffn_gate-1",
    entry: Entry::File(row_in_the_file),
    fault: row_in_the_result,
    step: 0,
    readers: &["ffn_swiglu-1"],
};

const CHANNEL_FAULT: Planted = Planted {
    reference: MICRO_NODES,
    target: "conv_output_raw-0",
    entry: Entry::File(channel_in_the_file),
    fault: channel_in_the_result,
    step: 1,
    readers: &["conv_output_silu-0"],
};

const STATE_FAULT: Planted = Planted {
    reference: MICRO_NODES,
    target: "new_state-1",
    entry: Entry::Result,
    fault: bf16_state,
    step: 0,
    // The dump has the copy in the cache as it was; the state that the next step takes from there is not judged alone.
    readers: &["cache_s_l1 (view) (copy of new_state-1)"],
};

const FAULTS: [Planted; 6] = [
    ROW_FAULT,
    Planted {
        reference: MICRO_NODES,
        target: "kqv-3",
        entry: Entry::Result,
        fault: head,
        step: 1,
        readers: &["attn_pregate-3"],
    },
    CHANNEL_FAULT,
    Planted {
        reference: MICRO_NODES,
        target: "norm-2",
        entry: Entry::Result,
        fault: epsilon,
        step: 2,
        readers: &["attn_norm-2"],
    },
    STATE_FAULT,
    Planted {
        reference: NANO_PROMPT,
        target: "Vcur-1",
        entry: Entry::File(scale_in_the_file),
        fault: scale_in_the_result,
        step: 0,
        readers: &["kqv-1"],
    },
];

impl Planted {
    /// Checks an engine that has the fault against the sound dump.
    fn in_the_engine(&self, mode: Mode) -> Check {
        let (reference, dump) = (self.reference, self.reference.open());
        match self.entry {
            Entry::File(file) => {
                let file = file();
                let model = Model::open(&file.path).unwrap();
                let mut engine = engine::<f32>(reference, &model, &dump);
                check_alone(reference, &dump, &model, &mut engine, mode).unwrap()
            }
            Entry::Result => {
                let model = &reference.built().model;
                let engine = engine::<f32>(reference, model, &dump);
                let mut engine = FaultyEngine::new(engine, self.target, self.fault);
                check_alone(reference, &dump, model, &mut engine, mode).unwrap()
            }
        }
    }

    /// The dump with the fault.
    fn dump(&self) -> Copy {
        let (mut copy, dump) = (Copy::of(self.reference), self.reference.open());
        let seen = |step, name: &str| {
            let id = TensorId { step, name: name.to_owned(), occurrence: 0 };
            dump.f32(dump.find(&id).unwrap()).unwrap().unwrap().to_vec()
        };
        copy.change(self.step, self.target, |values| (self.fault)(&seen, self.step, values));
        copy
    }

    /// Checks a sound engine against the dump that has the fault.
    fn in_the_dump(&self, mode: Mode) -> Check {
        let written = self.dump().write();
        let (dump, model) = (Dump::open(&written.path).unwrap(), &self.reference.built().model);
        let mut engine = engine::<f32>(self.reference, model, &dump);
        check_alone(self.reference, &dump, model, &mut engine, mode).unwrap()
    }

    /// `name (step n)` of the target and of what reads it, in the given steps.
    fn ids(&self, steps: impl Iterator<Item = u32>, readers: &[&str]) -> Vec<String> {
        let names = [&[self.target], readers].concat();
        steps.flat_map(|step| names.iter().map(move |name| format!("{name} (step {step})"))).collect()
    }
}

/// What departed, by id, and who.
fn departed(check: &Check) -> Vec<(String, Departs)> {
    let legs = check.comparison.results.iter().filter_map(|r| Some((r.id.to_string(), r.departs()?)));
    legs.filter(|(_, departs)| *departs != Departs::Neither).collect()
}

fn first_difference(check: &Check) -> (String, Option<Departs>) {
    let first = check.comparison.first_difference().expect("the fault is flagged");
    (first.result.id.to_string(), first.result.departs())
}

#[test]
fn without_a_fault_all_is_well() {
    for reference in [MICRO_NODES, NANO_PROMPT] {
        let (dump, model) = (reference.open(), &reference.built().model);
        let mut engine = FaultyEngine::new(engine::<f32>(reference, model, &dump), "", |_, _, _| {});
        let check = check_alone(reference, &dump, model, &mut engine, Mode::Both).unwrap();
        assert!(check.comparison.is_pass() && departed(&check).is_empty(), "{:?}", departed(&check));
    }
}

#[test]
fn a_fault_of_the_engine_is_flagged_where_it_enters() {
    for planted in &FAULTS {
        let check = planted.in_the_engine(Mode::Both);
        let (target, steps) = (planted.target, planted.reference.open().n_steps());
        let expected = (format!("{target} (step 0)"), Some(Departs::Actual));
        assert_eq!(first_difference(&check), expected);
        let only = planted.ids(0..steps, &[]);
        let only: Vec<_> = only.into_iter().map(|id| (id, Departs::Actual)).collect();
        assert_eq!(departed(&check), only, "{target}");
        // Alone, the same operators and no others.
        let alone = planted.in_the_engine(Mode::Reseeded);
        assert_eq!(departed(&alone), only, "{target}");
        assert_eq!(alone.comparison.summary().differ, only.len() as u64, "{target}");
    }
}

#[test]
fn a_fault_of_the_dump_is_flagged_where_it_enters() {
    for planted in &FAULTS {
        let check = planted.in_the_dump(Mode::Both);
        let (target, step) = (planted.target, planted.step);
        let expected = (format!("{target} (step {step})"), Some(Departs::Reference));
        assert_eq!(first_difference(&check), expected);
        let only = planted.ids(step..step + 1, planted.readers);
        let only: Vec<_> = only.into_iter().map(|id| (id, Departs::Reference)).collect();
        assert_eq!(departed(&check), only, "{target}");
        let alone = planted.in_the_dump(Mode::Reseeded);
        assert_eq!(departed(&alone), only, "{target}");
    }
}

#[test]
fn a_fault_of_the_dump_in_a_tensor_without_a_name_is_not_blamed_on_the_engine() {
    // The norm of q, and all that is computed from it up to the next name. An engine has no such tensor to set beside it.
    let mut copy = Copy::of(MICRO_NODES);
    let norm = copy.node(1, "q_conv_predelta-2").sources[0].clone().unwrap().name;
    for name in [&norm, "q_conv_predelta-2"] {
        copy.change(1, name, |values| values[..16].iter_mut().for_each(|x| *x *= 1.01));
    }
    let (written, model) = (copy.write(), &MICRO_NODES.built().model);
    let dump = Dump::open(&written.path).unwrap();
    let mut engine = engine::<f32>(MICRO_NODES, model, &dump);
    let check = check_alone(MICRO_NODES, &dump, model, &mut engine, Mode::Both).unwrap();
    assert_eq!(first_difference(&check), (format!("{norm} (step 1)"), Some(Departs::Reference)));
    let departed = departed(&check);
    // The rest of the layer was computed from the right q.
    let names: Vec<&str> = departed.iter().map(|(id, _)| &id[..]).collect();
    assert_eq!(names, [&format!("{norm} (step 1)"), "attn_output-2 (step 1)"]);
    assert!(departed.iter().all(|(_, departs)| *departs == Departs::Reference), "{departed:?}");
    let reason = "in a source without a name the reference departs".to_owned();
    assert_eq!(check.not_judged, [(reason, 1)].into());
}

#[test]
fn the_scale_is_planted_where_it_shows() {
    // One step of f16 is 2^-10 to 2^-11 of a scale, and a block is one of eight.
    let scaled = scale_that_matters_most().scaled;
    assert!(scaled > 2f64.powi(-15) && scaled < 2f64.powi(-10), "{scaled}");
}

#[test]
fn a_run_on_its_own_values_exceeds_its_floor_where_the_fault_enters() {
    for planted in &FAULTS {
        let check = planted.in_the_engine(Mode::Cumulative);
        let first = check.comparison.first_difference().map(|first| first.result);
        if planted.target == "norm-2" {
            // 1e-5 is below 1e-5 of a mean square near 1: only an operator judged alone shows it.
            assert!(first.is_none() && check.comparison.is_pass());
            continue;
        }
        let first = first.expect("the fault is flagged");
        assert_eq!(first.id.to_string(), format!("{} (step 0)", planted.target));
        assert!(first.legs.is_none() && first.times_floor().unwrap() > 16.0, "{first:?}");
    }
}

/// What the program says of a model beside a dump, and its JSON.
fn program(model: &Path, dump: &Path) -> (Outcome, Value) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let args = [
        ("--model", model.as_os_str()),
        ("--twin", twin(MICRO_NODES).path.as_os_str()),
        ("--dump", dump.as_os_str()),
        ("--json", json.as_os_str()),
    ];
    let args = args.iter().flat_map(|&(option, value)| [OsStr::new(option), value]);
    let outcome = lockstep([OsStr::new("check")].into_iter().chain(args));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    (outcome, serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap())
}

/// The line that says what broke, and the fields of its tensor: who departed, and the two errors that show it, in units of the terms.
#[track_caller]
fn assert_said(said: &(Outcome, Value), target: &str, step: u32, party: &str) {
    let (outcome, json) = said;
    let line = outcome.stdout.lines().find(|line| line.starts_with("first difference: ")).unwrap();
    assert!(line.starts_with(&format!("first difference: {target} (blk.")), "{line}");
    assert!(line.contains(&format!(", step {step}): {party} departs, ")), "{line}");
    let first = &json["first_difference"];
    assert_eq!((&first["name"], &first["step"]), (&target.into(), &step.into()));
    let is_it = |t: &&Value| t["name"] == target && t["step"] == step && t["occurrence"] == 0;
    let tensor = json["tensors"].as_array().unwrap().iter().find(is_it).unwrap();
    assert_eq!((&tensor["verdict"], &tensor["departs"]), (&"differ".into(), &party.into()));
    let field = |name: &str| tensor[name].as_f64().unwrap_or_else(|| panic!("{name} in {tensor}"));
    let (large, small) = match party {
        "actual" => ("actual_vs_exact", "reference_vs_exact"),
        _ => ("reference_vs_exact", "actual_vs_exact"),
    };
    assert!(field("introduced") > 1e-4 && field(large) > 1e-4 && field(small) < 1e-6, "{tensor}");
}

#[test]
fn the_program_blames_the_dump() {
    for planted in [ROW_FAULT, CHANNEL_FAULT, STATE_FAULT] {
        let said = program(&MICRO_NODES.built().path, &planted.dump().write().path);
        assert_said(&said, planted.target, planted.step, "reference");
    }
}

#[test]
fn the_program_blames_the_engine() {
    for planted in [ROW_FAULT, CHANNEL_FAULT] {
        let Entry::File(file) = planted.entry else { unreachable!("both are in the file") };
        // A twin that is said to be of this file, and is of another.
        let (file, mut copy) = (file(), Copy::of(MICRO_NODES));
        copy.manifest.model.metadata.insert(UNFOLDED_FROM.to_owned(), sha256(&file.path).unwrap());
        assert_said(&program(&file.path, &copy.write().path), planted.target, 0, "actual");
    }
}
