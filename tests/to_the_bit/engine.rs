//! From tokens to logits: the cpu engine in the arithmetic of the build that made a dump.

use lockstep::arithmetic::{Ggml, Isa};
use lockstep::compare::{Comparison, Limit, Verdict};
use lockstep::dump::Dump;
use lockstep::engine::cpu::CpuEngine;
use lockstep::engine::{Conventions, EngineError, Numerics, QkvOrder};
use lockstep::harness::{CheckOptions, Mode, check_with, memory_of, numerics};
use lockstep::model::Model;
use lockstep::ops::{Real, Single};
use lockstep::replay::arithmetic_of;

use crate::common::{Copy, MINI_PROMPT, NANO_PROMPT, Reference, Twin, case_folder, lockstep, twin};

/// The engine beside a dump of the same file, where nothing but what is equal passes.
fn checked<T: Real>(twin: &Twin, dump: &Dump) -> Comparison {
    let model = Model::open(&twin.path).unwrap();
    let (memory, n_ctx) = memory_of(dump);
    let ggml = Some(arithmetic_of(dump).unwrap());
    let numerics = Numerics { ggml, ..numerics(&twin.sha256, dump).unwrap() };
    let engine = CpuEngine::<T>::new(&model, Conventions::default(), n_ctx).unwrap();
    let mut engine = engine.with_numerics(numerics).unwrap().with_memory(memory);
    let options = CheckOptions { mode: Mode::Cumulative, to_the_bit: true, ..CheckOptions::default() };
    check_with(&mut engine, &twin.sha256, dump, options, &mut |_, _| {}).unwrap().comparison
}

fn open(reference: Reference) -> Dump {
    Dump::open(&case_folder(reference.case).join(reference.file)).unwrap()
}

fn assert_equal(comparison: &Comparison, tensors: usize, rows: usize) {
    assert_eq!((comparison.results.len(), comparison.logits.len()), (tensors, rows));
    for result in &comparison.results {
        assert_eq!(
            (&result.verdict, result.limit),
            (&Verdict::Pass, Limit::EQUAL.relative_l2),
            "{}",
            result.id
        );
    }
}

#[test]
fn logits_of_both_builds_are_equal_over_a_prompt_and_four_steps() {
    let twin = twin(NANO_PROMPT);
    let of = |file| open(Reference { case: "nano-mixed-prompt", file });
    assert_equal(&checked::<Single<4>>(twin, &of("logits-11-scalar.npz")), 20, 5);
    assert_equal(&checked::<Single<8>>(twin, &of("logits-11.npz")), 20, 5);
}

#[test]
fn all_64_layers_are_equal_from_tokens_to_logits() {
    let twin = twin(MINI_PROMPT);
    assert_equal(&checked::<Single<8>>(twin, &open(MINI_PROMPT)), 2681, 5);
}

/// In the engine's own order of operations nothing but the lookup of the tokens is equal: what passes above is no accident.
#[test]
fn another_order_of_operations_is_not_equal() {
    let twin = twin(NANO_PROMPT);
    let dump = open(Reference { case: "nano-mixed-prompt", file: "logits-11.npz" });
    let model = Model::open(&twin.path).unwrap();
    let (memory, n_ctx) = memory_of(&dump);
    let engine = CpuEngine::<f32>::new(&model, Conventions::default(), n_ctx).unwrap();
    let mut engine =
        engine.with_numerics(numerics(&twin.sha256, &dump).unwrap()).unwrap().with_memory(memory);
    let options = CheckOptions { mode: Mode::Cumulative, to_the_bit: true, ..CheckOptions::default() };
    let check = check_with(&mut engine, &twin.sha256, &dump, options, &mut |_, _| {}).unwrap();
    assert!(check.comparison.results.iter().all(|result| result.verdict == Verdict::Differ));
}

#[test]
fn what_has_no_order_of_operations_is_refused() {
    let folded = NANO_PROMPT.built();
    let twin = twin(MINI_PROMPT);
    let ggml = arithmetic_of(&open(MINI_PROMPT)).unwrap();
    let refused = refused_by::<Single<8>>;
    let followed = Numerics { ggml: Some(ggml), ..Numerics::default() };
    let model = Model::open(&twin.path).unwrap();
    let other = Conventions { qkv_split_order: QkvOrder::Vkq, ..Conventions::default() };
    assert!(refused(&model, other, followed).starts_with("a convention"));
    assert!(refused(&model, Conventions::default(), Numerics::default()).contains("no build"));
    let scalar = Numerics { ggml: Some(Ggml { isa: Isa::Sse2, ..ggml }), ..followed };
    assert!(refused(&model, Conventions::default(), scalar).contains("scalar"));
    let folded_model = Model::open(&MINI_PROMPT.built().path).unwrap();
    assert!(refused(&folded_model, Conventions::default(), followed).contains("folded"));
    let quantised = Model::open(&folded.path).unwrap();
    let repacked = Ggml { isa: Isa::Avx512, repack: true, ..ggml };
    let repacked = Numerics { ggml: Some(repacked), ..followed };
    assert!(
        refused_by::<Single<16>>(&quantised, Conventions::default(), repacked).ends_with("q4_0, repacked")
    );
}

/// Why an engine with this arithmetic does not follow.
fn refused_by<T: Real>(model: &Model, conventions: Conventions, numerics: Numerics) -> String {
    let engine = CpuEngine::<T>::new(model, conventions, 256).unwrap();
    match engine.with_numerics(numerics) {
        Err(EngineError::NotFollowed { what }) => what,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[test]
fn a_reference_with_flash_attention_is_refused() {
    let mut copy = Copy::of(NANO_PROMPT);
    copy.manifest.run.flash_attn = true;
    let written = copy.write();
    let words = ["check", "--arithmetic", "ggml", "--mode", "cumulative", "--model"].map(Into::into);
    let files = [
        twin(NANO_PROMPT).path.clone().into_os_string(),
        "--dump".into(),
        written.path.clone().into_os_string(),
    ];
    lockstep(words.into_iter().chain(files)).assert_refused(&["flash attention", "--flash-attn off"]);
}

#[test]
fn the_program_runs_the_twin_of_a_case_and_says_in_which_arithmetic() {
    let case = case_folder("nano-mixed-prompt");
    let words = ["check", "--arithmetic", "ggml", "--mode", "cumulative"].map(Into::into);
    let outcome = lockstep(words.into_iter().chain([case.into_os_string()]));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("engine cpu ggml AVX2"), "{outcome:?}");
    assert!(outcome.stdout.contains("engine cpu ggml scalar"), "{outcome:?}");
    let words = ["check", "--arithmetic", "ggml", "--engine", "simt"].map(Into::into);
    let gpu = lockstep(words.into_iter().chain([case_folder("nano-mixed-prompt").into_os_string()]));
    gpu.assert_refused(&["the cpu engine's"]);
}
