//! Every committed dump that holds the inputs of its nodes replays in full, quantised and real models included, and an error
//! planted behind a quantised product is found there.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use common::{Copy, Reference, cache, case_folder, lockstep, model_of_case};
use lockstep::dump::Dump;
use lockstep::gguf::{Gguf, sha256};
use lockstep::harness::Case;
use lockstep::replay::{Arithmetic, NodeResult, Outcome, Replay, replay, replay_in};

/// A dump, how many of its nodes are compared, how many of those are views of nodes that it does not hold, and how many products
/// there are of each pair of types.
struct Expected {
    dump: Reference,
    compared: u64,
    views: usize,
    products: &'static [(&'static str, usize)],
}

const GEMMA3: &[(&str, usize)] =
    &[("f32 x f32", 2), ("q4_K x f32", 1), ("q5_0 x f32", 4), ("q6_K x f32", 1), ("q8_0 x f32", 1)];
const NANO_PROMPT: &[(&str, usize)] = &[
    ("bf16 x f32", 1),
    ("f16 x f32", 2),
    ("f32 x f32", 4),
    ("q1_0 x f32", 2),
    ("q2_0 x f32", 1),
    ("q4_0 x f32", 2),
    ("q4_K x f32", 1),
    ("q6_K x f32", 2),
    ("q8_0 x f32", 1),
    ("tq1_0 x f32", 1),
    ("tq2_0 x f32", 1),
];

const EXPECTED: [Expected; 12] = [
    Expected {
        dump: Reference { case: "early-2026", file: "nodes-4.npz" },
        compared: 32,
        views: 0,
        products: &[("f32 x f32", 6)],
    },
    Expected {
        dump: Reference { case: "gemma3", file: "layer-0.npz" },
        compared: 31,
        views: 0,
        products: GEMMA3,
    },
    Expected {
        dump: Reference { case: "gemma3", file: "layer-0-scalar.npz" },
        compared: 31,
        views: 0,
        products: GEMMA3,
    },
    Expected { dump: common::MICRO_NODES, compared: 423, views: 0, products: &[("f32 x f32", 102)] },
    Expected {
        dump: Reference { case: "nano-mixed-prompt", file: "prompt-2.npz" },
        compared: 65,
        views: 0,
        products: NANO_PROMPT,
    },
    Expected {
        dump: Reference { case: "nano-mixed-prompt", file: "prompt-2-scalar.npz" },
        compared: 65,
        views: 0,
        products: NANO_PROMPT,
    },
    Expected {
        dump: Reference { case: "nano-mixed-token", file: "token-1.npz" },
        compared: 34,
        views: 0,
        products: &[
            ("bf16 x f32", 1),
            ("f16 x f32", 1),
            ("f32 x f32", 2),
            ("q2_0 x f32", 1),
            ("q4_0 x f32", 1),
            ("q8_0 x f32", 1),
            ("tq2_0 x f32", 1),
        ],
    },
    Expected {
        dump: Reference { case: "rollback", file: "back-1.npz" },
        compared: 57,
        views: 6,
        products: &[("f32 x f32", 9)],
    },
    Expected {
        dump: Reference { case: "sequences", file: "interleaved.npz" },
        compared: 184,
        views: 0,
        products: &[("f32 x f32", 56)],
    },
    Expected {
        dump: Reference { case: "smollm2", file: "layer-0.npz" },
        compared: 21,
        views: 0,
        products: &[("f32 x f32", 2), ("q4_1 x f32", 7)],
    },
    Expected {
        dump: Reference { case: "smollm2", file: "layer-0-scalar.npz" },
        compared: 21,
        views: 0,
        products: &[("f32 x f32", 2), ("q4_1 x f32", 7)],
    },
    Expected {
        dump: Reference { case: "unfused", file: "nodes-2.npz" },
        compared: 62,
        views: 0,
        products: &[("f32 x f32", 6)],
    },
];

/// The budget is a share of the terms, some 2^-17 of them for rows of 256 and 2^-15.5 for rows of 2048, and the largest element
/// of a product is down to a twentieth of its terms.
const PLANTED: f32 = 1.001;

fn model_of(expected: &Expected) -> Option<PathBuf> {
    model_of_case(expected.dump.case)
}

fn is_product(result: &&NodeResult) -> bool {
    result.op == "MUL_MAT"
}

fn bad(replay: &Replay) -> Vec<String> {
    let bad = replay.results.iter().filter(|r| r.outcome != Outcome::Within);
    bad.map(|r| r.id.to_string()).collect()
}

#[test]
fn no_dump_is_forgotten() {
    let listed: BTreeSet<(String, String)> =
        EXPECTED.iter().map(|e| (e.dump.case.to_owned(), e.dump.file.to_owned())).collect();
    let mut committed = BTreeSet::new();
    for folder in fs::read_dir(case_folder("")).unwrap().map(|entry| entry.unwrap().path()) {
        if !folder.is_dir() {
            continue;
        }
        let case = Case::open(&folder).unwrap();
        for dump in case.dumps.iter().filter(|dump| dump.committed) {
            // What is unnamed is left out of these, so most nodes lack an input.
            if !Dump::open(&case.dump_path(dump)).unwrap().manifest().run.named_only {
                committed.insert((case.name.clone(), dump.file.clone()));
            }
        }
    }
    assert_eq!(listed, committed);
}

#[test]
fn every_held_node_is_compared_and_within_its_budget() {
    for expected in &EXPECTED {
        let Some(model) = model_of(expected) else { continue };
        let name = expected.dump.case;
        let dump = expected.dump.open();
        let replay =
            replay(&Gguf::open(&model).unwrap(), &sha256(&model).unwrap(), &dump, &mut |_, _| {}).unwrap();
        let s = replay.summary();
        assert_eq!((s.within, s.skipped, bad(&replay)), (expected.compared, 0, vec![]), "{name}");
        // Where a node is not held, its views are compared.
        let is_view = |result: &&NodeResult| dump.find(&result.id).unwrap().is_pure_view();
        let views = replay.results.iter().filter(is_view).count();
        let held = dump.nodes().iter().filter(|n| n.entry.is_some() && !n.is_pure_view()).count();
        assert_eq!((s.compared, views), ((held + views) as u64, expected.views), "{name}");
        let mut products: BTreeMap<&str, usize> = BTreeMap::new();
        replay.results.iter().filter(is_product).for_each(|r| *products.entry(&r.types).or_default() += 1);
        assert_eq!(products.into_iter().collect::<Vec<_>>(), expected.products, "{name}");
    }
}

/// The same nodes, bit by bit: real models of other architectures included.
#[test]
fn every_held_node_has_the_bits_of_its_build() {
    for expected in &EXPECTED {
        let Some(model) = model_of(expected) else { continue };
        let (gguf, hash) = (Gguf::open(&model).unwrap(), sha256(&model).unwrap());
        let replay =
            replay_in(Arithmetic::Ggml, &gguf, &hash, &expected.dump.open(), &mut |_, _| {}).unwrap();
        let (s, name) = (replay.summary(), expected.dump.case);
        assert_eq!((s.within, s.skipped, bad(&replay)), (expected.compared, 0, vec![]), "{name}");
    }
}

#[test]
fn an_error_planted_behind_a_quantised_product_is_found_there() {
    for expected in EXPECTED.iter().filter(|e| e.products.len() > 1) {
        let Some(model) = model_of(expected) else { continue };
        let (gguf, hash) = (Gguf::open(&model).unwrap(), sha256(&model).unwrap());
        let replayed = |dump: &Dump| replay(&gguf, &hash, dump, &mut |_, _| {}).unwrap();
        let sound = replayed(&expected.dump.open());
        let quantised = sound.results.iter().filter(is_product).filter(|r| r.types != "f32 x f32");
        for result in quantised {
            let mut copy = Copy::of(expected.dump);
            let payload = copy.own_payload(result.id.step, &result.id.name);
            let values = payload.bytes.as_chunks_mut::<4>().0;
            let size = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes).abs();
            let largest = values.iter_mut().max_by(|a, b| size(a).total_cmp(&size(b))).unwrap();
            *largest = (f32::from_le_bytes(*largest) * PLANTED).to_le_bytes();
            let written = copy.write();
            let found = bad(&replayed(&Dump::open(&written.path).unwrap()));
            let (case, id) = (expected.dump.case, result.id.to_string());
            assert_eq!(found.first(), Some(&id), "{case}, {}: {found:?}", result.types);
        }
    }
}

/// `lockstep <verb> <cases>`, with a cache into which nothing was fetched.
fn without_weights(verb: &str, cases: &[&str]) -> common::Outcome {
    assert!(!cache().join("real-models").exists());
    let folders = cases.iter().map(|case| case_folder(case).into_os_string());
    lockstep(std::iter::once(verb.into()).chain(folders))
}

#[test]
fn a_case_without_its_weights_is_skipped_by_name() {
    let outcome = without_weights("replay", &["smollm2", "nano-mixed-token"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.starts_with("smollm2 SKIPPED: "), "{outcome:?}");
    assert!(outcome.last_line().ends_with("; 1 of the cases SKIPPED: smollm2"), "{outcome:?}");
}

#[test]
fn nothing_but_cases_without_weights_is_refused() {
    for verb in ["replay", "check"] {
        let outcome = without_weights(verb, &["smollm2", "gemma3"]);
        let fetch = ["--fetch smollm2", "--fetch gemma3"].map(|f| format!("scripts/real-models.sh {f}"));
        outcome.assert_refused(&["nothing was compared", &fetch[0], &fetch[1]]);
    }
}
