//! Every mistake in the handling of state that an engine can be told to make is caught: by `check`, in a run on its own values and
//! in one that judges each operator alone, and by `invariants`; each at the step and tensor where it enters, and nothing before it.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use common::{ModelFile, cache, case_folder, lockstep, synthetic};
use lockstep::compare::Departs;
use lockstep::dump::Dump;
use lockstep::engine::{Conventions, DeltaNetRoute, StateFault, cpu::CpuEngine};
use lockstep::gguf::{Gguf, sha256};
use lockstep::harness::{
    Case, Check, CheckOptions, CpuSubject, Floor, Invariants, Mode, ReferenceModel, Subject, check_with,
    invariants, measure_floor, memory_of, numerics,
};
use lockstep::model::Model;
use lockstep::ops::Real;
use lockstep::tensor::GgmlType;

/// A dump of real llama.cpp with all that a check of it needs.
struct Kit {
    dump: Dump,
    model: Model,
    sha256: String,
    /// What llama.cpp ran, and its SHA-256.
    reference: (Gguf, String),
    floor: Floor,
    _file: Option<ModelFile>,
}

impl Kit {
    fn new(dump: &Path, model: &Path, twin: &Path, file: Option<ModelFile>) -> Kit {
        let (dump, sha256_of_model) = (Dump::open(dump).unwrap(), sha256(model).unwrap());
        let model = Model::open(model).unwrap();
        let narrow = &mut engine::<f32>(&model, &sha256_of_model, &dump);
        let wide = &mut engine::<f64>(&model, &sha256_of_model, &dump);
        let floor = measure_floor(narrow, wide, &dump).unwrap();
        let reference = (Gguf::open(twin).unwrap(), sha256(twin).unwrap());
        Kit { dump, model, sha256: sha256_of_model, reference, floor, _file: file }
    }

    fn of_case(case: &str, file: &str) -> Kit {
        let folder = case_folder(case);
        let case = Case::open(&folder).unwrap();
        let model = case.build_model(&cache(), &mut |_, _| {}).unwrap();
        let twin = case.build_twin(&cache(), &mut |_, _| {}).unwrap();
        Kit::new(&folder.join(file), &model, &twin, None)
    }

    /// Of `tests/goldens/check/`, with the model that is not folded.
    fn of_golden(file: &str) -> Kit {
        let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/check");
        let model = synthetic("nano-bonsai", 1, GgmlType::F32);
        let path = model.path.clone();
        Kit::new(&folder.join(file), &path, &path, Some(model))
    }

    fn check(&self, fault: Option<StateFault>, mode: Mode) -> Check {
        let mut engine = engine::<f32>(&self.model, &self.sha256, &self.dump).with_fault(fault);
        let reference = Some(ReferenceModel { gguf: &self.reference.0, sha256: &self.reference.1 });
        let (model, floor) = (Some(&self.model), Some(&self.floor));
        let options = CheckOptions { mode, reference, model, floor, ..CheckOptions::default() };
        check_with(&mut engine, &self.sha256, &self.dump, options, &mut |_, _| {}).unwrap()
    }
}

/// The cpu engine that does as the run of the dump did.
fn engine<'m, T: Real>(model: &'m Model, sha256: &str, dump: &Dump) -> CpuEngine<'m, T> {
    let (memory, n_ctx) = memory_of(dump);
    let engine = CpuEngine::new(model, Conventions::default(), n_ctx).unwrap();
    engine.with_numerics(numerics(sha256, dump).unwrap()).unwrap().with_memory(memory)
}

type LazyKit = LazyLock<Kit>;

/// 3, 1 and 1 tokens of one sequence, four layers, every tensor.
static NODES: LazyKit = LazyLock::new(|| Kit::of_case("micro-bonsai", "nodes-5.npz"));
/// Two sequences in one ubatch, the rest of the longer one, one token of each, all cleared, a new one.
static SEQUENCES: LazyKit = LazyLock::new(|| Kit::of_case("sequences", "interleaved.npz"));
/// 65, 1 and 1 tokens by the chunked route, few tensors.
static PROMPT_65: LazyKit = LazyLock::new(|| Kit::of_case("unfused", "prompt-65-decode-2.npz"));
/// 1 and 1 tokens by the unfused route, so no chunk.
static UNFUSED_SINGLE: LazyKit = LazyLock::new(|| Kit::of_case("unfused", "nodes-2.npz"));
/// 2 and 1 tokens by the chunked route: one chunk, most of it padding.
static ONE_CHUNK: LazyKit = LazyLock::new(|| Kit::of_golden("unfused.npz"));
/// 65 tokens by the chunked route, with what the second chunk reads.
static TWO_CHUNKS: LazyKit = LazyLock::new(|| Kit::of_golden("unfused-65.npz"));

/// A fault and where it is caught.
struct Caught {
    fault: StateFault,
    dump: &'static LazyKit,
    /// The first tensor that fails in a run on its own values.
    first: &'static str,
    /// All operators that depart when each is judged alone, in the order of the graph.
    alone: &'static [&'static str],
}

static CAUGHT: [Caught; 9] = [
    Caught {
        fault: StateFault::ConvColumn,
        dump: &NODES,
        first: "conv_states-0 (step 1)",
        alone: &[
            "conv_states-0 (step 1)",
            "conv_states-1 (step 1)",
            "conv_states-2 (step 1)",
            "conv_states-0 (step 2)",
            "conv_states-1 (step 2)",
            "conv_states-2 (step 2)",
        ],
    },
    Caught {
        fault: StateFault::NotReset,
        dump: &SEQUENCES,
        first: "conv_states-0 (step 3)",
        alone: &["conv_states-0 (step 3)", "state_predelta-0 (step 3)"],
    },
    Caught {
        fault: StateFault::OtherSequence,
        dump: &SEQUENCES,
        // Both sequences begin with the same state in step 0, and one of them is alone in step 1.
        first: "state_predelta-0 (step 2)",
        alone: &["state_predelta-0 (step 2)"],
    },
    Caught {
        fault: StateFault::ChunkBoundary,
        dump: &TWO_CHUNKS,
        first: "v_prime-0 #1 (step 0)",
        alone: &["v_prime-0 #1 (step 0)"],
    },
    Caught {
        fault: StateFault::DecayAfterUpdate,
        dump: &SEQUENCES,
        first: "new_state-0 (step 0)",
        alone: &[
            "new_state-0 (step 0)",
            "attn_output-0 (step 0)",
            "new_state-0 (step 1)",
            "attn_output-0 (step 1)",
            "new_state-0 (step 2)",
            "attn_output-0 (step 2)",
            "new_state-0 (step 3)",
            "attn_output-0 (step 3)",
        ],
    },
    Caught {
        fault: StateFault::PaddingCounted,
        dump: &ONE_CHUNK,
        first: "g_cs-0 (step 0)",
        alone: &["g_cs-0 (step 0)"],
    },
    Caught {
        fault: StateFault::PositionAfterBoundary,
        dump: &NODES,
        first: "Qcur-3 (step 1)",
        alone: &["Qcur-3 (step 1)", "Kcur-3 #1 (step 1)", "Qcur-3 (step 2)", "Kcur-3 #1 (step 2)"],
    },
    Caught {
        fault: StateFault::KvSlotReused,
        dump: &NODES,
        first: "kq-3 (step 1)",
        alone: &[
            "kq-3 (step 1)",
            "kq_soft_max-3 (step 1)",
            "kqv-3 (step 1)",
            "kq-3 (step 2)",
            "kq_soft_max-3 (step 2)",
            "kqv-3 (step 2)",
        ],
    },
    Caught {
        fault: StateFault::StateBf16,
        dump: &NODES,
        first: "state_predelta-0 (step 1)",
        alone: &[
            "state_predelta-0 (step 1)",
            "state_predelta-1 (step 1)",
            "state_predelta-2 (step 1)",
            "state_predelta-0 (step 2)",
            "state_predelta-1 (step 2)",
            "state_predelta-2 (step 2)",
        ],
    },
];

/// Faults caught in further dumps: the first tensor that fails in a run on its own values.
static ALSO: [(StateFault, &LazyKit, &str); 7] = [
    (StateFault::ConvColumn, &PROMPT_65, "conv_input-0 (step 1)"),
    (StateFault::ConvColumn, &SEQUENCES, "conv_states-0 (step 1)"),
    (StateFault::ChunkBoundary, &PROMPT_65, "dnet_add_ch_state-0 #2 (step 0)"),
    (StateFault::DecayAfterUpdate, &NODES, "new_state-0 (step 0)"),
    (StateFault::PaddingCounted, &PROMPT_65, "g_cs-0 (step 0)"),
    (StateFault::KvSlotReused, &SEQUENCES, "kq-1 (step 1)"),
    (StateFault::StateBf16, &PROMPT_65, "state_predelta-0 (step 1)"),
];

/// Faults that an engine never comes to make on the way through a dump.
static NOT_MADE: [(StateFault, &LazyKit); 12] = [
    // Nothing is cleared, and there is one sequence.
    (StateFault::NotReset, &NODES),
    (StateFault::OtherSequence, &NODES),
    (StateFault::NotReset, &PROMPT_65),
    (StateFault::OtherSequence, &PROMPT_65),
    // There are no chunks.
    (StateFault::ChunkBoundary, &NODES),
    (StateFault::PaddingCounted, &NODES),
    (StateFault::ChunkBoundary, &SEQUENCES),
    (StateFault::PaddingCounted, &SEQUENCES),
    (StateFault::PaddingCounted, &UNFUSED_SINGLE),
    // There is no second chunk.
    (StateFault::ChunkBoundary, &ONE_CHUNK),
    // No state goes token by token through the operator, or on to another ubatch.
    (StateFault::DecayAfterUpdate, &PROMPT_65),
    (StateFault::StateBf16, &TWO_CHUNKS),
];

/// What fails, in the order of the graph.
fn failed(check: &Check) -> Vec<String> {
    let failed = check.comparison.results.iter().filter(|result| result.verdict.is_failure());
    failed.map(|result| result.id.to_string()).collect()
}

fn first_difference(check: &Check) -> Option<String> {
    check.comparison.first_difference().map(|first| first.result.id.to_string())
}

#[test]
fn the_tables_have_every_fault() {
    let names = |faults: &mut dyn Iterator<Item = StateFault>| -> Vec<&str> {
        faults.map(StateFault::name).collect()
    };
    let all = names(&mut StateFault::ALL.iter().copied());
    assert_eq!(names(&mut CAUGHT.iter().map(|caught| caught.fault)), all);
    assert_eq!(names(&mut BROKEN.iter().map(|broken| broken.fault)), all);
}

#[test]
fn a_sound_engine_passes_in_every_dump() {
    for kit in [&NODES, &SEQUENCES, &PROMPT_65, &UNFUSED_SINGLE, &ONE_CHUNK, &TWO_CHUNKS] {
        let check = kit.check(None, Mode::Both);
        assert!(check.comparison.is_pass(), "{:?}", failed(&check));
    }
}

#[test]
fn on_its_own_values_an_engine_fails_from_where_the_fault_enters() {
    let rows = CAUGHT.iter().map(|caught| (caught.fault, caught.dump, caught.first));
    for (fault, kit, first) in rows.chain(ALSO) {
        let check = kit.check(Some(fault), Mode::Cumulative);
        assert_eq!(failed(&check).first().map(String::as_str), Some(first), "{fault}");
        assert_eq!(first_difference(&check).as_deref(), Some(first), "{fault}");
        assert!(!check.comparison.is_pass(), "{fault}");
    }
}

#[test]
fn judged_alone_the_engine_departs_where_the_fault_is_and_nowhere_else() {
    for Caught { fault, dump, alone, .. } in &CAUGHT {
        let check = dump.check(Some(*fault), Mode::Reseeded);
        assert_eq!(failed(&check), *alone, "{fault}");
        assert_eq!(first_difference(&check).as_deref(), Some(alone[0]), "{fault}");
        let departs = check.comparison.results.iter().filter(|result| result.verdict.is_failure());
        assert!(departs.map(|result| result.departs()).all(|d| d == Some(Departs::Actual)), "{fault}");
    }
}

#[test]
fn a_fault_that_is_never_made_is_not_caught() {
    for (fault, kit) in NOT_MADE {
        let [on_its_own, alone] = [Mode::Cumulative, Mode::Reseeded].map(|mode| kit.check(Some(fault), mode));
        for check in [&on_its_own, &alone] {
            assert!(check.comparison.is_pass(), "{fault}: {:?}", failed(check));
        }
        // To the bit what the engine does without it.
        assert_eq!(on_its_own.comparison, kit.check(None, Mode::Cumulative).comparison, "{fault}");
    }
}

const FUSED: &str = "cpu f32";
const CHUNKED: &str = "cpu f32 chunked";
const BOTH: &str = "cpu f32, cpu f32 chunked";

/// Where a run departs: invariant, engine, what the run did; step, sequence, position, tensor.
type Place = (&'static str, &'static str, &'static str, u32, i32, i64, &'static str);

/// A fault and the invariants that it breaks.
struct Broken {
    fault: StateFault,
    /// Tokens of the prompts.
    length: usize,
    /// The first run of each invariant and engine that is broken, and no others are.
    first: &'static [Place],
}

static BROKEN: [Broken; 9] = [
    Broken {
        fault: StateFault::ConvColumn,
        length: 5,
        first: &[
            ("split", FUSED, "5 x 1", 1, 0, 1, "l_out-0"),
            ("decode", FUSED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-0"),
            ("split", CHUNKED, "5 x 1", 1, 0, 1, "l_out-0"),
            ("decode", CHUNKED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-0"),
        ],
    },
    Broken {
        fault: StateFault::NotReset,
        length: 5,
        // Taking the sequence away and resetting the engine are not wrong.
        first: &[
            ("reset", FUSED, "5 others, clear, 5 + 1", 1, 0, 0, "l_out-0"),
            ("reset", CHUNKED, "5 others, clear, 5 + 1", 1, 0, 0, "l_out-0"),
        ],
    },
    Broken {
        fault: StateFault::OtherSequence,
        length: 5,
        first: &[
            ("interleaved", FUSED, "5 and 3 tokens, then one of each", 2, 0, 5, "l_out-0"),
            ("batch", FUSED, "3 x 5, then one of each", 1, 0, 5, "l_out-0"),
            ("interleaved", CHUNKED, "5 and 3 tokens, then one of each", 2, 0, 5, "l_out-0"),
            ("batch", CHUNKED, "3 x 5, then one of each", 1, 0, 5, "l_out-0"),
        ],
    },
    Broken {
        fault: StateFault::ChunkBoundary,
        length: 65,
        first: &[
            ("split", CHUNKED, "65 x 1", 64, 0, 64, "l_out-0"),
            ("routes", BOTH, "65 + 1", 0, 0, 64, "l_out-0"),
        ],
    },
    Broken {
        fault: StateFault::DecayAfterUpdate,
        length: 5,
        // Wrong in every run alike: only another engine shows it.
        first: &[("routes", BOTH, "5 + 1", 0, 0, 0, "l_out-0")],
    },
    Broken {
        fault: StateFault::PaddingCounted,
        length: 5,
        // Nothing of the one chunk itself is off, but the state behind it.
        first: &[
            ("split", CHUNKED, "5 x 1", 4, 0, 4, "recurrent state of blk.0"),
            ("decode", CHUNKED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-0"),
            ("routes", BOTH, "5 + 1", 1, 0, 5, "l_out-0"),
        ],
    },
    Broken {
        fault: StateFault::PositionAfterBoundary,
        length: 5,
        first: &[
            ("split", FUSED, "5 x 1", 1, 0, 1, "l_out-1"),
            ("decode", FUSED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-1"),
            ("split", CHUNKED, "5 x 1", 1, 0, 1, "l_out-1"),
            ("decode", CHUNKED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-1"),
        ],
    },
    Broken {
        fault: StateFault::KvSlotReused,
        length: 5,
        first: &[
            ("split", FUSED, "5 x 1", 1, 0, 1, "l_out-1"),
            ("decode", FUSED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-1"),
            ("fork", FUSED, "5, copy, 2 others, one stream", 2, 0, 5, "l_out-1"),
            ("rollback", FUSED, "5, 2 others in one ubatch, back 2, 2", 2, 0, 5, "l_out-1"),
            ("split", CHUNKED, "5 x 1", 1, 0, 1, "l_out-1"),
            ("decode", CHUNKED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-1"),
            ("fork", CHUNKED, "5, copy, 2 others, one stream", 2, 0, 5, "l_out-1"),
        ],
    },
    Broken {
        fault: StateFault::StateBf16,
        length: 5,
        first: &[
            ("split", FUSED, "5 x 1", 1, 0, 1, "l_out-0"),
            ("decode", FUSED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-0"),
            ("split", CHUNKED, "5 x 1", 1, 0, 1, "l_out-0"),
            ("decode", CHUNKED, "5 + 1 + 1 + 1", 1, 0, 5, "l_out-0"),
        ],
    },
];

/// Both routes of the cpu engine, with a fault, on the smallest model.
fn held_to(fault: Option<StateFault>, lengths: &[usize]) -> Invariants {
    static NANO: LazyLock<Model> =
        LazyLock::new(|| Model::open(&synthetic("nano-bonsai", 1, GgmlType::F32).path).unwrap());
    let subject = |delta_net| CpuSubject { model: &NANO, delta_net, fault };
    let (fused, unfused) = (subject(DeltaNetRoute::Fused), subject(DeltaNetRoute::Unfused));
    let subjects: [&dyn Subject; 2] = [&fused, &unfused];
    // Every token of the vocabulary once, without a pattern: 101 and 256 have no common factor.
    let tokens: Vec<u32> = (0..256).map(|i| (101 * i + 7) % 256).collect();
    invariants(&subjects, &tokens, lengths, &mut |_, _| {}).unwrap()
}

/// The first run of each invariant and engine that is broken.
fn first_broken(found: &Invariants) -> Vec<(&str, &str, &str, u32, i32, i64, &str)> {
    let mut seen = BTreeSet::new();
    let broken = found.outcomes.iter().filter(|outcome| !outcome.is_pass());
    let first = broken.filter(|outcome| seen.insert((outcome.invariant, &outcome.subject)));
    first
        .map(|outcome| {
            let at = outcome.first.as_ref().expect("something was compared");
            let (invariant, subject, what) = (outcome.invariant, &outcome.subject[..], &outcome.what[..]);
            (invariant, subject, what, at.step, at.sequence, at.position, &at.tensor[..])
        })
        .collect()
}

#[test]
fn invariants_break_from_where_the_fault_enters() {
    for Broken { fault, length, first } in &BROKEN {
        let found = held_to(Some(*fault), &[*length]);
        assert!(!found.is_pass(), "{fault}");
        assert_eq!(first_broken(&found), *first, "{fault}");
    }
}

#[test]
fn a_sound_engine_holds_and_a_chunk_fault_needs_its_chunks() {
    let found = held_to(None, &[5]);
    assert!(found.is_pass(), "{:?}", first_broken(&found));
    // Five tokens are one chunk: no second one reads anything.
    let found = held_to(Some(StateFault::ChunkBoundary), &[5]);
    assert!(found.is_pass(), "{:?}", first_broken(&found));
}

/// `lockstep VERB CASE --fault NAME ...`
fn program(verb: &str, case: &str, fault: &str, options: &[&str]) -> common::Outcome {
    let folder = case_folder(case);
    let args = [&[verb, folder.to_str().unwrap(), "--fault", fault], options].concat();
    lockstep(args)
}

#[test]
fn the_program_names_the_step_of_a_fault() {
    program("check", "micro-bonsai", "conv_column", &[]).assert_differs(&[
        "wrong on purpose: conv_column",
        "first difference: conv_states-0 (blk.0, ",
        ", step 1): actual departs, ",
        "first step over its limit: step 1, pos 3, tokens [200]: l_out-0 ",
    ]);
    program("check", "sequences", "other_sequence", &["--mode", "cumulative"])
        .assert_differs(&["first difference: state_predelta-0 (blk.0, ", ", step 2)"]);
    program("invariants", "micro-bonsai", "conv_column", &["--lengths", "5"]).assert_differs(&[
        "wrong on purpose: conv_column: the convolution's columns are kept one token too old",
        "BROKEN in 3",
        "; first: split (cpu f32; 5 x 1) from step 1, sequence 0 position 1, l_out-0: off by ",
    ]);
}

#[test]
fn a_fault_that_does_not_show_leaves_the_program_at_0() {
    let outcome = program("check", "sequences", "chunk_boundary", &[]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("wrong on purpose: chunk_boundary"), "{outcome:?}");
}

#[test]
fn an_unknown_fault_lists_those_that_there_are() {
    let names: Vec<&str> = StateFault::ALL.iter().map(|fault| fault.name()).collect();
    for verb in ["check", "invariants"] {
        program(verb, "micro-bonsai", "state_bf17", &[]).assert_refused(&["state_bf17", &names.join(", ")]);
    }
}
