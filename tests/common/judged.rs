//! Checks with all that judging each operator alone needs: the model that the reference ran, and a noise floor.

use std::path::PathBuf;
use std::sync::OnceLock;

use lockstep::dump::Dump;
use lockstep::engine::{Conventions, Engine, cpu::CpuEngine};
use lockstep::gguf::{Gguf, sha256};
use lockstep::harness::{
    Case, Check, CheckOptions, HarnessError, Mode, ReferenceModel, check_with, measure_floor, numerics,
};
use lockstep::model::Model;
use lockstep::ops::Real;

use super::{Reference, cache, case_folder};

/// The model that the reference ran: the unfolded twin of a folded one.
pub struct Twin {
    pub path: PathBuf,
    pub gguf: Gguf,
    pub sha256: String,
}

/// The twin of a case's model, made once.
pub fn twin(reference: Reference) -> &'static Twin {
    static MICRO: OnceLock<Twin> = OnceLock::new();
    static NANO: OnceLock<Twin> = OnceLock::new();
    static MINI: OnceLock<Twin> = OnceLock::new();
    let slot = match reference.case {
        "micro-bonsai" => &MICRO,
        "nano-mixed-prompt" => &NANO,
        "mini-bonsai" => &MINI,
        other => panic!("{other} has no slot here"),
    };
    slot.get_or_init(|| {
        let case = Case::open(&case_folder(reference.case)).unwrap();
        let path = case.build_twin(&cache(), &mut |_, _| {}).unwrap();
        Twin { gguf: Gguf::open(&path).unwrap(), sha256: sha256(&path).unwrap(), path }
    })
}

/// The cpu engine on `model`, rounding on purpose what the run of `dump` rounded.
pub fn engine<'m, T: Real>(reference: Reference, model: &'m Model, dump: &Dump) -> CpuEngine<'m, T> {
    let n_ctx = dump.manifest().run.n_ctx as usize;
    let numerics = numerics(&reference.built().sha256, dump).unwrap();
    let engine = CpuEngine::new(model, Conventions::default(), n_ctx).unwrap();
    engine.with_numerics(numerics).unwrap()
}

/// Checks `engine`, which runs `model`, under the name of the model of `reference`.
pub fn check_alone(
    reference: Reference,
    dump: &Dump,
    model: &Model,
    engine_under_test: &mut dyn Engine,
    mode: Mode,
) -> Result<Check, HarnessError> {
    let (mut narrow, mut wide) =
        (engine::<f32>(reference, model, dump), engine::<f64>(reference, model, dump));
    let floor = measure_floor(&mut narrow, &mut wide, dump)?;
    let Twin { gguf, sha256, .. } = twin(reference);
    let options = CheckOptions {
        mode,
        reference: Some(ReferenceModel { gguf, sha256 }),
        model: Some(model),
        floor: Some(&floor),
        ..CheckOptions::default()
    };
    check_with(engine_under_test, &reference.built().sha256, dump, options, &mut |_, _| {})
}
