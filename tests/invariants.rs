//! The invariants that need no reference: the cpu engine holds them by both routes, and each is broken by an engine that gets one
//! thing wrong.

mod common;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use common::{Outcome as Ran, case_folder, lockstep, micro, synthetic};
use lockstep::engine::{
    Conventions, DeltaNetRoute, Engine, EngineError, LayerSnapshot, Memory, SequenceSnapshot, Snapshot,
    StateChange, StateFault, Tap, TapError, Ubatch, cpu::CpuEngine,
};
use lockstep::harness::{
    CpuSubject, Departure, HarnessError, INVARIANTS, Invariants, JudgedBy, Outcome, Subject, SumOrder,
    invariants,
};
use lockstep::model::Model;
use lockstep::tensor::{GgmlType, TensorId, Values};
use ndarray::{Array2, s};
use serde_json::{Value, json};

/// Two layers: delta net, attention.
static NANO: LazyLock<Model> =
    LazyLock::new(|| Model::open(&synthetic("nano-bonsai", 1, GgmlType::F32).path).unwrap());

/// Unlike tokens, within every vocabulary here.
fn tokens() -> Vec<u32> {
    (0..256).map(|i| (101 * i + 7) % 256).collect()
}

fn held_to(subjects: &[&dyn Subject], lengths: &[usize]) -> Invariants {
    invariants(subjects, &tokens(), lengths, &mut |_, _| {}).unwrap()
}

fn routes(model: &Model, fault: Option<StateFault>) -> [CpuSubject<'_>; 2] {
    [DeltaNetRoute::Fused, DeltaNetRoute::Unfused].map(|delta_net| CpuSubject { model, delta_net, fault })
}

fn broken(found: &Invariants) -> Vec<&Outcome> {
    found.outcomes.iter().filter(|outcome| !outcome.is_pass()).collect()
}

#[test]
fn the_cpu_engine_holds_them_by_both_routes() {
    const LENGTHS: [usize; 5] = [1, 2, 3, 5, 65];
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    let [fused, chunked] = routes(&model, None);
    let found = held_to(&[&fused, &chunked], &LENGTHS);
    assert!(found.is_pass(), "{:?}", broken(&found));
    let of = |invariant: &str, subject: &str, length: usize| {
        let is_it = |o: &&Outcome| (o.invariant, &o.subject[..], o.length) == (invariant, subject, length);
        found.outcomes.iter().filter(is_it).collect::<Vec<_>>()
    };
    for length in LENGTHS {
        for name in INVARIANTS.iter().map(|invariant| invariant.name) {
            let own = of(name, "cpu f32", length);
            // One token cannot be split.
            assert_eq!(own.is_empty(), (name, length) == ("split", 1), "{name} at {length}");
            for outcome in own {
                let exact = (JudgedBy::Bits, 0.0, None);
                assert_eq!((outcome.judged_by, outcome.worst, outcome.share), exact, "{outcome:?}");
                // A row for each token at least, in four layers and the logits.
                assert!(outcome.compared >= 5 * length as u64, "{outcome:?}");
            }
            // Where the chunks are cut otherwise, sums are taken in another order.
            let judged_by = match name {
                "split" | "decode" => JudgedBy::Floor,
                _ => JudgedBy::Bits,
            };
            let own = of(name, "cpu f32 chunked", length);
            let is_uncut = (name, length) == ("split", 1);
            assert_eq!(own.is_empty(), name == "rollback" || is_uncut, "{name} at {length}");
            assert!(own.iter().all(|outcome| outcome.judged_by == judged_by), "{own:?}");
        }
        let between = of("routes", "cpu f32, cpu f32 chunked", length);
        assert!(matches!(between[..], [Outcome { judged_by: JudgedBy::Floor, .. }]), "{between:?}");
    }
    let not_tried: Vec<_> = found.not_tried.iter().map(|n| (n.invariant, &n.subject[..])).collect();
    assert_eq!(not_tried, [("rollback", "cpu f32 chunked")]);
}

/// What an engine gets wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// The columns of the convolution are lost between steps.
    LosesColumns,
    /// A reset leaves the states of the delta net.
    ResetLeavesStates,
    /// In a ubatch of several sequences the first two change their first tokens.
    MixesRows,
    /// A sequence and its copy have one delta-net state.
    CopyShares,
    /// Tokens that are taken back stay in the states of the delta net.
    RollbackLeavesStates,
    /// The last key that is left is one of those that were taken back.
    RollbackLeavesKey,
    /// A snapshot holds no columns of the convolution.
    SnapshotForgetsColumns,
    /// In a ubatch of several sequences a layer's result is not given.
    DropsRows,
    /// In a ubatch of several sequences a layer too much is given.
    AddsRows,
    /// What several sequences in a ubatch leave behind is not in a snapshot.
    LosesSequence,
    /// A logit is not a number.
    NotANumber,
    /// No tensor is given.
    GivesNothing,
    /// A snapshot holds the first sequence only.
    SnapshotsOne,
    /// A snapshot of several sequences holds no layers.
    SnapshotsNoLayers,
}

/// An engine that gets something wrong, made anew for each run.
struct Wrong(Mistake);

impl Subject for Wrong {
    fn name(&self) -> String {
        format!("{:?}", self.0)
    }

    fn engine(&self, memory: Memory, n_ctx: usize) -> Result<Box<dyn Engine + '_>, EngineError> {
        let engine = CpuEngine::new(&NANO, Conventions::default(), n_ctx)?.with_memory(memory);
        Ok(Box::new(Mistaken { engine, mistake: self.0, copy: None, had_several: false }))
    }

    fn floor_engines(&self, n_ctx: usize) -> Result<[Box<dyn Engine + '_>; 2], EngineError> {
        let narrow = CpuEngine::<f32>::new(&NANO, Conventions::default(), n_ctx)?;
        let wide = CpuEngine::<f64>::new(&NANO, Conventions::default(), n_ctx)?;
        Ok([Box::new(narrow), Box::new(wide)])
    }

    fn sum_order(&self) -> SumOrder {
        SumOrder::ByToken
    }

    fn can_roll_back(&self) -> Result<(), &'static str> {
        match self.0 {
            Mistake::LosesColumns => Err("what it loses is lost by way of a snapshot, which has no history"),
            _ => Ok(()),
        }
    }
}

struct Mistaken {
    engine: CpuEngine<'static, f32>,
    mistake: Mistake,
    /// A sequence and its copy.
    copy: Option<(i32, i32)>,
    had_several: bool,
}

/// Gives a sequence the delta-net states of another.
fn set_delta_nets(sequence: &mut SequenceSnapshot, of: &SequenceSnapshot) {
    for (own, other) in sequence.layers.iter_mut().zip(&of.layers) {
        if matches!(own, LayerSnapshot::DeltaNet { .. }) {
            *own = other.clone();
        }
    }
}

fn forget_columns(snapshot: &mut Snapshot) {
    for layer in snapshot.sequences.values_mut().flat_map(|sequence| &mut sequence.layers) {
        if let LayerSnapshot::DeltaNet { conv, .. } = layer {
            conv.fill(0.0);
        }
    }
}

impl Mistaken {
    /// Changes what the sequences hold.
    fn edit(&mut self, edit: impl FnOnce(&mut Snapshot)) -> Result<(), EngineError> {
        let mut snapshot = self.engine.snapshot()?;
        edit(&mut snapshot);
        self.engine.restore(&snapshot)
    }
}

impl Engine for Mistaken {
    fn name(&self) -> String {
        format!("{:?}", self.mistake)
    }

    fn step(&mut self, ubatch: &Ubatch, tap: &mut dyn Tap) -> Result<Array2<f32>, EngineError> {
        let mut ubatch = ubatch.clone();
        let second = ubatch.sequences.iter().position(|&sequence| sequence != ubatch.sequences[0]);
        self.had_several |= second.is_some();
        if let (Mistake::MixesRows, Some(second)) = (self.mistake, second) {
            ubatch.tokens.swap(0, second);
        }
        let mut tap = MistakenTap { tap, mistake: self.mistake, has_several: second.is_some() };
        let logits = self.engine.step(&ubatch, &mut tap)?;
        match (self.mistake, self.copy) {
            (Mistake::LosesColumns, _) => self.edit(forget_columns)?,
            (Mistake::CopyShares, Some((from, to))) if ubatch.sequences[0] == to => {
                self.edit(|snapshot| {
                    let of = snapshot.sequences[&to].clone();
                    set_delta_nets(snapshot.sequences.get_mut(&from).unwrap(), &of);
                })?
            }
            _ => {}
        }
        Ok(logits)
    }

    fn change(&mut self, change: StateChange) -> Result<(), EngineError> {
        let before = self.engine.snapshot()?;
        self.engine.change(change)?;
        match (self.mistake, change) {
            (Mistake::CopyShares, StateChange::Copy { from, to }) => self.copy = Some((from, to)),
            (Mistake::RollbackLeavesStates, StateChange::Remove { sequence, from: 1.. }) => {
                self.edit(|after| {
                    let own = after.sequences.get_mut(&sequence).unwrap();
                    set_delta_nets(own, &before.sequences[&sequence]);
                })?;
            }
            (Mistake::RollbackLeavesKey, StateChange::Remove { sequence, from: from @ 1.. }) => {
                self.edit(|after| {
                    let own = after.sequences.get_mut(&sequence).unwrap();
                    let both = own.layers.iter_mut().zip(&before.sequences[&sequence].layers);
                    for pair in both {
                        if let (
                            LayerSnapshot::Attention { k, .. },
                            LayerSnapshot::Attention { k: before, .. },
                        ) = pair
                        {
                            k.row_mut(from as usize - 1).assign(&before.row(from as usize));
                        }
                    }
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let mut snapshot = self.engine.snapshot()?;
        match self.mistake {
            Mistake::SnapshotForgetsColumns => forget_columns(&mut snapshot),
            Mistake::SnapshotsOne => snapshot.sequences.retain(|&sequence, _| sequence == 0),
            Mistake::SnapshotsNoLayers if snapshot.sequences.len() > 1 => {
                snapshot.sequences.values_mut().for_each(|sequence| sequence.layers.clear());
            }
            Mistake::LosesSequence if self.had_several => drop(snapshot.sequences.remove(&1)),
            _ => {}
        }
        Ok(snapshot)
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.engine.restore(snapshot)
    }

    fn reset(&mut self) {
        let before = self.engine.snapshot().unwrap();
        self.engine.reset();
        if self.mistake == Mistake::ResetLeavesStates {
            self.edit(|after| {
                after.sequences = before.sequences;
                for sequence in after.sequences.values_mut() {
                    sequence.n_past = 0;
                    for layer in &mut sequence.layers {
                        if let LayerSnapshot::Attention { k, v } = layer {
                            [k, v].into_iter().for_each(|rows| *rows = rows.slice(s![..0, ..]).to_owned());
                        }
                    }
                }
            })
            .unwrap();
        }
    }
}

struct MistakenTap<'t> {
    tap: &'t mut dyn Tap,
    mistake: Mistake,
    has_several: bool,
}

impl Tap for MistakenTap<'_> {
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        match (self.mistake, &id.name[..]) {
            (Mistake::GivesNothing, _) => Ok(None),
            (Mistake::DropsRows, "l_out-1") if self.has_several => Ok(None),
            (Mistake::AddsRows, "l_out-1") if self.has_several => {
                let third = TensorId { name: "l_out-2".to_owned(), ..id.clone() };
                self.tap.tensor(&third, ne, values)?;
                self.tap.tensor(id, ne, values)
            }
            (Mistake::NotANumber, "result_output") => {
                let mut values: Vec<f32> = (0..values.len()).map(|i| values.get(i).unwrap() as f32).collect();
                values[0] = f32::NAN;
                self.tap.tensor(id, ne, Values::F32(&values))
            }
            _ => self.tap.tensor(id, ne, values),
        }
    }

    fn is_active(&self) -> bool {
        self.tap.is_active()
    }
}

/// A mistake, the invariants that it breaks, and where the first of them departs: step, sequence, position, tensor.
type Broken = (Mistake, &'static [&'static str], (u32, i32, i64, &'static str));

/// At 3 tokens.
const BROKEN: [Broken; 10] = [
    (Mistake::LosesColumns, &["split", "decode"], (1, 0, 1, "l_out-0")),
    (Mistake::ResetLeavesStates, &["reset"], (1, 0, 0, "l_out-0")),
    (Mistake::MixesRows, &["interleaved", "batch"], (0, 0, 0, "l_out-0")),
    (Mistake::CopyShares, &["fork"], (2, 0, 3, "l_out-0")),
    (Mistake::RollbackLeavesStates, &["rollback"], (2, 0, 3, "l_out-0")),
    (Mistake::RollbackLeavesKey, &["rollback"], (2, 0, 3, "l_out-1")),
    (Mistake::SnapshotForgetsColumns, &["snapshot"], (2, 0, 3, "l_out-0")),
    (Mistake::DropsRows, &["interleaved", "batch"], (2, 0, 0, "l_out-1, which is missing")),
    (Mistake::AddsRows, &["interleaved", "batch"], (0, 0, 0, "l_out-2, which is too much")),
    (Mistake::LosesSequence, &["interleaved", "batch"], (2, 1, 2, "a state that is missing")),
];

fn names(outcomes: &[&Outcome]) -> Vec<&'static str> {
    let mut names: Vec<_> = outcomes.iter().map(|outcome| outcome.invariant).collect();
    names.dedup();
    names
}

#[test]
fn an_engine_with_a_mistake_breaks_what_it_breaks_and_no_other() {
    for (mistake, invariants, place) in BROKEN {
        let found = held_to(&[&Wrong(mistake)], &[3]);
        let broken = broken(&found);
        assert_eq!(names(&broken), invariants, "{mistake:?}");
        let Departure { step, sequence, position, tensor, relative_l2, .. } =
            broken[0].first.clone().unwrap();
        assert_eq!((step, sequence, position, &tensor[..]), place, "{mistake:?}");
        assert!(relative_l2 > 1e-3, "{mistake:?}: {relative_l2}");
        let is_tried = mistake != Mistake::LosesColumns;
        assert_eq!(found.not_tried.is_empty(), is_tried, "{:?}", found.not_tried);
    }
}

#[test]
fn every_invariant_is_broken_by_some_mistake() {
    let by_mistakes = BROKEN.iter().flat_map(|(_, invariants, _)| *invariants).copied();
    let known: BTreeSet<&str> = INVARIANTS.iter().map(|invariant| invariant.name).collect();
    assert_eq!(by_mistakes.collect::<BTreeSet<_>>(), known);
    // And the comparison of two engines, where one of them is wrong in every run alike.
    let [fused, chunked] = routes(&NANO, Some(StateFault::DecayAfterUpdate));
    let found = held_to(&[&fused, &chunked], &[3]);
    assert_eq!(names(&broken(&found)), ["routes"]);
}

#[test]
fn what_is_not_a_number_on_both_sides_is_not_the_same() {
    let found = held_to(&[&Wrong(Mistake::NotANumber)], &[1]);
    assert!(found.outcomes.iter().all(|outcome| !outcome.is_pass()), "{found:?}");
    let first = found.outcomes[0].first.as_ref().unwrap();
    assert_eq!((first.step, first.position, &first.tensor[..]), (0, 0, "result_output"));
}

#[test]
fn what_neither_run_gives_was_not_compared() {
    for mistake in [Mistake::GivesNothing, Mistake::SnapshotsOne, Mistake::SnapshotsNoLayers] {
        let found = held_to(&[&Wrong(mistake)], &[3]);
        assert!(!found.is_pass(), "{mistake:?}");
    }
}

#[test]
fn sequences_that_are_to_be_told_apart_are_unlike() {
    for tokens in [&[7][..], &[7, 9, 7]] {
        // Refused, or the mistake is found: anything but a pass.
        let found = invariants(&[&Wrong(Mistake::MixesRows)], tokens, &[1, 3], &mut |_, _| {});
        assert!(!found.is_ok_and(|found| found.is_pass()), "{tokens:?}");
    }
}

#[test]
fn nothing_to_run_is_refused_and_no_engine_is_no_pass() {
    let [fused, _] = routes(&NANO, None);
    for (tokens, lengths) in [(&[][..], &[5][..]), (&[7], &[])] {
        let refused = invariants(&[&fused], tokens, lengths, &mut |_, _| {});
        assert!(matches!(refused, Err(HarnessError::NothingToRun)), "{refused:?}");
    }
    let found = held_to(&[], &[3]);
    assert!(found.outcomes.is_empty() && !found.is_pass());
}

/// `lockstep invariants` on the nano model.
fn program(options: &[&str]) -> Ran {
    let case = case_folder("sequences");
    lockstep([&["invariants", case.to_str().unwrap()], options].concat())
}

/// The same with JSON.
fn with_json(options: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let ran = program(&[options, &["--json", path.to_str().unwrap()]].concat());
    (ran, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

#[test]
fn the_program_says_what_must_be_equal_and_by_what_it_is_judged() {
    let (ran, json) = with_json(&["--lengths", "1,2"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("   2 layers, lengths 1 2\n"), "{ran:?}");
    for invariant in INVARIANTS {
        let rows = ran.stdout.lines().filter(|row| row.trim_start().starts_with(invariant.name));
        let rows: Vec<&str> = rows.collect();
        assert_eq!(rows.len(), if invariant.name == "rollback" { 1 } else { 2 }, "{ran:?}");
        assert!(rows.iter().all(|row| row.contains(invariant.line) && row.ends_with("holds")), "{rows:?}");
        assert!(rows[0].contains(" bits "), "{rows:?}");
        let floor = matches!(invariant.name, "split" | "decode");
        assert_eq!(rows[rows.len() - 1].contains(" 16 x floor "), floor, "{rows:?}");
    }
    assert!(ran.stdout.contains("  not tried: rollback, cpu f32 chunked: "), "{ran:?}");
    assert!(ran.last_line().ends_with(" hold, 0 broken"), "{ran:?}");

    assert_eq!((&json["version"], &json["is_pass"]), (&json!(1), &json!(true)));
    assert!(json["model"].as_str().unwrap().starts_with("nano-bonsai"), "{}", json["model"]);
    assert_eq!(json["not_tried"][0]["invariant"], "rollback");
    assert_eq!(json["not_tried"][0]["engine"], "cpu f32 chunked");
    assert!(json["not_tried"][0]["reason"].is_string());
    let outcomes = json["outcomes"].as_array().unwrap();
    let runs = format!("{} runs, ", outcomes.len());
    assert!(ran.last_line().starts_with(&runs), "{runs} in {ran:?}");
    for outcome in outcomes {
        assert!(outcome["invariant"].is_string() && outcome["engine"].is_string(), "{outcome}");
        assert!(outcome["what"].is_string() && outcome["worst"].is_number(), "{outcome}");
        assert!(outcome["compared"].as_u64().unwrap() > 0, "{outcome}");
        assert!([1, 2].contains(&outcome["length"].as_u64().unwrap()), "{outcome}");
        assert_eq!((&outcome["is_pass"], &outcome["first"]), (&json!(true), &Value::Null));
        let has_share = outcome["judged_by"] == "floor";
        assert!(has_share || outcome["judged_by"] == "bits", "{outcome}");
        assert_eq!(outcome["share"].is_number(), has_share, "{outcome}");
    }
}

#[test]
fn the_program_says_where_one_is_broken() {
    let (ran, json) = with_json(&["--lengths", "2", "--fault", "position_after_boundary"]);
    ran.assert_differs(&[
        "; first: split (cpu f32; 1 + 1) from step 1, sequence 0 position 1, l_out-1: off by ",
        "  broken: decode (cpu f32; 2 + 1 + 1 + 1) from step 1, sequence 0 position 2, l_out-1: off by ",
    ]);
    assert_eq!(json["is_pass"], false);
    let outcomes = json["outcomes"].as_array().unwrap();
    let broken = outcomes.iter().find(|outcome| outcome["is_pass"] == false).unwrap();
    let first = &broken["first"];
    assert_eq!([&first["step"], &first["sequence"], &first["position"]], [1, 0, 1]);
    assert_eq!((&first["tensor"], &first["limit"]), (&json!("l_out-1"), &json!(0.0)));
    assert!(first["relative_l2"].as_f64().unwrap() > 0.0, "{first}");
}

#[test]
fn the_program_refuses_what_it_cannot_run() {
    program(&["--lengths", "0"]).assert_refused(&["'0' for '--lengths <NS>'", "a length is at least 1"]);
    program(&["--lengths", "two"]).assert_refused(&["'two' for '--lengths <NS>'", "not a number"]);
    program(&["--lengths", "1", "--tokens", "7,256,9"])
        .assert_refused(&["token 256 at position 1 is not in the vocabulary of 256"]);
    program(&["--lengths", "1", "--json", "absent/result.json"]).assert_refused(&["no folder absent"]);
    lockstep(["invariants", "absent.gguf"]).assert_refused(&["absent.gguf", "No such file or directory"]);
    let readme = case_folder("README.md");
    lockstep(["invariants", readme.to_str().unwrap()]).assert_refused(&["README.md", "expected \"GGUF\""]);
}

#[test]
fn tokens_that_make_no_three_sequences_are_refused() {
    for tokens in ["7", "7,9,7"] {
        program(&["--lengths", "3", "--tokens", tokens]).assert_refused(&["at least three different"]);
    }
    let few = ["--lengths", "3", "--tokens", "7,9,8"];
    assert_eq!(program(&few).code, Some(0));
    program(&[&few[..], &["--fault", "conv_column"]].concat())
        .assert_differs(&["; first: split (cpu f32; 3 x 1) from step 1, sequence 0 position 1, l_out-0: "]);
}
