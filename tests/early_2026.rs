//! Dumps of a llama.cpp of March 2026, whose graph normalises q and k by another rule, has other names, and picks the rows with
//! outputs in its last layer: an engine that follows it passes, and nothing that is wrong does.

mod common;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use common::{Copy, MICRO_NODES, Outcome, Reference, cache, case_folder, lockstep};
use lockstep::compare::Verdict;
use lockstep::dump::Dump;
use lockstep::engine::{Conventions, Dialect, QkL2Norm, cpu::CpuEngine};
use lockstep::gguf::sha256;
use lockstep::harness::{Case, Check, check, memory_of, numerics, rules};
use lockstep::model::Model;

/// Its delta net, up to its output: 3 tokens, then 1.
const NODES: Reference = Reference { case: "early-2026", file: "nodes-4.npz" };
const MODES: [&str; 3] = ["cumulative", "reseeded", "both"];

/// All of its graph: one token each of two sequences, with an output for one of them; two tokens without; one with.
fn whole() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/check/early-2026.npz")
}

/// The folded model and its twin.
fn models() -> &'static (PathBuf, PathBuf) {
    static MODELS: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    MODELS.get_or_init(|| {
        let case = Case::open(&case_folder(NODES.case)).unwrap();
        let cache = cache();
        (case.build_model(&cache, &mut |_, _| {}).unwrap(), case.build_twin(&cache, &mut |_, _| {}).unwrap())
    })
}

fn check_with(dump: &Path, options: &[&str]) -> Outcome {
    let (model, twin) = models();
    let files = [("--model", model.as_path()), ("--twin", twin), ("--dump", dump)];
    let files = files.into_iter().flat_map(|(option, path)| [OsString::from(option), path.into()]);
    lockstep([OsString::from("check")].into_iter().chain(files).chain(options.iter().map(OsString::from)))
}

#[track_caller]
fn assert_passes(outcome: &Outcome, n: u32) {
    let all = format!("{n} compared: {n} pass, 0 differ, 0 missing, 0 extra, 0 skipped; coverage 100%");
    assert!(outcome.last_line().starts_with(&all), "{outcome:?}");
    assert_eq!(outcome.code, Some(0));
}

#[test]
fn an_engine_that_follows_the_graph_passes_in_each_mode() {
    for mode in MODES {
        let case = case_folder(NODES.case);
        let outcome = lockstep(["check".as_ref(), case.as_os_str(), "--mode".as_ref(), mode.as_ref()]);
        assert_passes(&outcome, 44);
        let says = "the reference normalises q and k by max(norm, eps), and so does the engine\n";
        assert!(outcome.stdout.contains(says), "{outcome:?}");
        assert_passes(&check_with(&whole(), &["--mode", mode]), 193);
    }
    // The recurrent state stays the engine's, though it is part of a tensor that is not.
    assert_passes(&check_with(&whole(), &["--mode", "reseeded", "--keep-state", "recurrent"]), 193);
}

#[test]
fn the_other_norm_is_caught_if_it_was_asked_for() {
    let asked =
        |candidate: &str| check_with(&NODES.path(), &["--convention", &format!("qk_l2_norm={candidate}")]);
    for wrong in ["eps_inside", "none"] {
        asked(wrong).assert_differs(&[
            "first difference: q_conv_predelta-0 (blk.0, L2_NORM, step 0): actual departs",
            "the reference normalises q and k by max(norm, eps); the engine does as --convention qk_l2_norm says",
        ]);
    }
    assert_passes(&asked("max_norm_eps"), 44);
}

#[test]
fn other_wrong_conventions_show_in_the_whole_result_of_the_operator() {
    for wrong in ["gdn_head_map=blocked", "gdn_scale=one", "update_order=decay_last", "state_layout=k_major"]
    {
        let words = ["first difference: __fgdn_ch__-0 (blk.0, GATED_DELTA_NET, step 0): actual departs"];
        check_with(&NODES.path(), &["--convention", wrong]).assert_differs(&words);
    }
}

#[test]
fn a_state_that_is_kept_carries_what_is_wrong_with_it() {
    let first = "first difference: __fgdn_ar__-0 (blk.0, GATED_DELTA_NET, step 0): actual departs";
    let differing = |options: &[&str]| {
        let fault = ["--mode", "reseeded", "--fault", "decay_after_update", "--all"];
        let outcome = check_with(&whole(), &[&fault, options].concat());
        outcome.assert_differs(&[first]);
        let is_it =
            |line: &&str| line.trim_start().starts_with("state_predelta-0") && line.contains("differ");
        outcome.stdout.lines().filter(is_it).count()
    };
    assert_eq!(differing(&[]), 0);
    assert_eq!(differing(&["--keep-state", "recurrent"]), 2); // in front of steps 1 and 2
}

/// Checks a copy of a dump after a change, in each mode; all fail and say each of `words`.
#[track_caller]
fn assert_caught(dump: &Dump, change: impl Fn(&mut Copy), words: &[&str]) {
    let mut copy = Copy::of_dump(dump);
    change(&mut copy);
    let written = copy.write();
    for mode in MODES {
        check_with(&written.path, &["--mode", mode]).assert_differs(words);
    }
}

#[test]
fn a_wrong_value_is_caught_in_each_mode() {
    // Outputs stand in front of states.
    for at in [256, 3 * 256 + 5] {
        let plant = |values: &mut [f32]| values[at] = 1.0 - values[at];
        let change = |copy: &mut Copy| copy.change(0, "__fgdn_ch__-0", plant);
        assert_caught(&NODES.open(), change, &["first difference: __fgdn_ch__-0 ("]);
    }
    let plant = |values: &mut [f32]| values[7] += 1.0;
    let whole = Dump::open(&whole()).unwrap();
    for name in ["q_conv_predelta-0", "conv_input-0", "attn_residual-1", "l_out-1", "result_norm"] {
        let first = format!("first difference: {name} (");
        assert_caught(&whole, |copy| copy.change(2, name, plant), &[&first]);
    }
}

#[test]
fn a_name_that_no_tree_has_is_missing_and_the_engines_own_is_extra() {
    let whole = Dump::open(&whole()).unwrap();
    let rename = |copy: &mut Copy, from: &str, to: &str| {
        for node in &mut copy.manifest.nodes {
            node.name = node.name.replace(from, to);
            node.sources.iter_mut().flatten().for_each(|source| source.name = source.name.replace(from, to));
            node.view_of.iter_mut().for_each(|view| view.name = view.name.replace(from, to));
        }
    };
    let missing = "first difference: columns-0 (blk.0, CONCAT, step 0): missing from the actual run";
    assert_caught(
        &whole,
        |copy| rename(copy, "last_conv_states", "columns"),
        &[missing, " 3 missing, 3 extra, "],
    );
    let missing =
        "first difference: operator-0 (blk.0, GATED_DELTA_NET, step 1): missing from the actual run";
    assert_caught(
        &whole,
        |copy| rename(copy, "__fgdn_ch__", "operator"),
        &[missing, " 1 missing, 1 extra, "],
    );
}

/// The verdicts that are no pass, of an engine that names and picks as `dialect` says.
fn failures(dialect: Dialect) -> Vec<(String, &'static str)> {
    let (path, _) = models();
    let (model, sha256, dump) =
        (Model::open(path).unwrap(), sha256(path).unwrap(), Dump::open(&whole()).unwrap());
    let numerics = lockstep::engine::Numerics { dialect, ..numerics(&sha256, &dump).unwrap() };
    let (memory, n_ctx) = memory_of(&dump);
    let conventions = Conventions { qk_l2_norm: QkL2Norm::MaxNormEps, ..Conventions::default() };
    let engine = CpuEngine::<f32>::new(&model, conventions, n_ctx).unwrap();
    let mut engine = engine.with_numerics(numerics).unwrap().with_memory(memory);
    let Check { comparison, .. } = check(&mut engine, &sha256, &dump, &mut |_, _| {}).unwrap();
    let failed = comparison.results.iter().filter(|result| result.verdict.is_failure());
    let kind = |verdict: &Verdict| match verdict {
        Verdict::Missing => "missing",
        Verdict::Extra => "extra",
        Verdict::Shape { .. } => "shape",
        _ => "other",
    };
    failed.map(|result| (result.id.to_string(), kind(&result.verdict))).collect()
}

#[test]
fn an_engine_that_names_and_picks_as_the_pinned_tree_is_told_apart() {
    assert_eq!(failures(Dialect::MARCH_2026), []);
    let failures = failures(Dialect::PINNED);
    let of_step_0: Vec<_> =
        failures.iter().filter_map(|(id, kind)| Some((id.strip_suffix(" (step 0)")?, *kind))).collect();
    let shapes = ["norm-1 #3", "attn_residual-1"];
    assert!(shapes.iter().all(|name| of_step_0.contains(&(name, "shape"))), "{of_step_0:?}");
    for (name, kind) in [
        ("last_conv_states-0", "missing"),
        ("__fgdn_ar__-0", "missing"),
        ("conv_state_last-0", "extra"),
        ("beta_sigmoid-0", "extra"),
        ("h_nextn", "extra"),
    ] {
        assert!(of_step_0.contains(&(name, kind)), "{name}: {of_step_0:?}");
    }
}

#[test]
fn only_a_graph_that_says_so_has_the_rule() {
    let early = NODES.open();
    let names =
        |dump: &Dump| rules(dump).iter().map(|rule| (rule.convention, rule.candidate)).collect::<Vec<_>>();
    assert_eq!(names(&early), [("qk_l2_norm", "max_norm_eps")]);
    assert_eq!(names(&MICRO_NODES.open()), []);
    assert_eq!(numerics("", &MICRO_NODES.open()).unwrap().dialect, Dialect::PINNED);
    assert_eq!(numerics("", &Dump::open(&whole()).unwrap()).unwrap().dialect, Dialect::MARCH_2026);
    // One that does both: the engine goes on as b11434 does, and is caught where that is not what was computed.
    let mut both = Copy::of_dump(&early);
    both.node(1, "k_conv_predelta-0").op = "RMS_NORM".to_owned();
    let written = both.write();
    assert_eq!(names(&Dump::open(&written.path).unwrap()), []);
    check_with(&written.path, &[]).assert_differs(&["first difference: q_conv_predelta-0 ("]);
}
