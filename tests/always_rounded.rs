//! An engine that rounds every activation alike, whatever the weights: a choice that is wrong for most types, and caught.

mod common;

use common::{NANO_PROMPT, check_alone, engine, micro};
use lockstep::compare::Departs;
use lockstep::engine::{
    ActivationMode, ActivationRounding, Conventions, CpuKernel, EngineError, Numerics, cpu::CpuEngine,
};
use lockstep::harness::{Mode, numerics};
use lockstep::model::Model;
use lockstep::tensor::GgmlType;

const X86: CpuKernel = CpuKernel::X86;

fn always(rounding: ActivationRounding) -> Numerics {
    Numerics { activations: ActivationMode::Always(rounding), ..Numerics::default() }
}

/// Where each goes wrong first. The first weights are `attn_qkv` in q1_0, in front of which llama.cpp rounds to Q8_0, and
/// `ssm_alpha` in bf16. What Q8_1 stores beside the codes of Q8_0 is for weights with minima.
const FIRST: [(ActivationRounding, &str); 5] = [
    (ActivationRounding::F16, "linear_attn_qkv_mixed-0"),
    (ActivationRounding::Bf16, "linear_attn_qkv_mixed-0"),
    (ActivationRounding::Q8_0(X86), "alpha-0"),
    (ActivationRounding::Q8_1(X86), "alpha-0"),
    (ActivationRounding::Q8K, "linear_attn_qkv_mixed-0"),
];

#[test]
fn each_is_caught_at_the_first_weight_of_another_type() {
    let (dump, built) = (NANO_PROMPT.open(), NANO_PROMPT.built());
    let as_dumped = numerics(&built.sha256, &dump).unwrap();
    for (rounding, expected) in FIRST {
        let engine = engine::<f32>(NANO_PROMPT, &built.model, &dump);
        let wrong = Numerics { activations: ActivationMode::Always(rounding), ..as_dumped };
        let mut engine = engine.with_numerics(wrong).unwrap();
        let check = check_alone(NANO_PROMPT, &dump, &built.model, &mut engine, Mode::Reseeded).unwrap();
        let first = check.comparison.first_difference().expect("caught").result;
        assert_eq!(first.id.to_string(), format!("{expected} (step 0)"), "{rounding}");
        assert_eq!(first.departs(), Some(Departs::Actual), "{rounding}");
    }
}

#[test]
fn the_name_of_the_engine_says_so() {
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    let engine = CpuEngine::<f32>::new(&model, Conventions::default(), 8).unwrap();
    let engine = engine.with_numerics(always(ActivationRounding::Q8_0(X86))).unwrap();
    assert_eq!(lockstep::engine::Engine::name(&engine), "cpu f32 (all activations rounded to Q8_0 x86)");
}

#[test]
fn what_an_engine_cannot_round_is_refused() {
    let file = micro();
    let model = Model::open(&file.path).unwrap();
    let refused = |numerics| {
        let engine = CpuEngine::<f32>::new(&model, Conventions::default(), 8).unwrap();
        engine.with_numerics(numerics).map(|_| ()).unwrap_err()
    };
    // Widths 256, 384 and 512: no whole blocks of 256 in the second.
    let error = refused(always(ActivationRounding::Q8K));
    assert!(matches!(error, EngineError::ActivationBlock { block: 256, width: 384, .. }), "{error}");
    let error = refused(Numerics { type_k: GgmlType::Q8_0, ..Numerics::default() });
    assert!(matches!(error, EngineError::CacheType { cache: "K", got: GgmlType::Q8_0 }), "{error}");
}
