//! An engine beside a dump: every tensor that the engine emits is compared as it comes.
//!
//! What is compared: each f32 node of the dump's graph that llama.cpp named, whose values the dump holds, and that is not
//! a view of a cache (its content at that moment is the previous step's, which the state tensors show). A node that the
//! engine does not emit is missing; a tensor that the graph does not have is extra.
//!
//! Cumulative: the engine runs on its own values from token to logits. Reseeded: it goes on with the reference's values after
//! each tensor, so that every operator is judged alone, against the reference and against the exact result. What it computes from
//! a state that it is told to keep is judged as in a cumulative run. A node without a name, which no engine emits, is judged on the
//! reference's side only, and is among the results if that departs.

use std::collections::{BTreeMap, HashMap};

use super::comparer::Comparer;
use super::dialect::dialect;
use super::floor::{self, Floor};
use super::reseed::Reseeder;
use super::steps::steps_of;
use super::{HarnessError, StateKind};
use crate::compare::{Comparison, Limit, TensorResult, Verdict};
use crate::dump::{Dump, Node};
use crate::engine::{ActivationMode, DeltaNetRoute, Engine, Numerics, cpu_kernel};
use crate::gguf::Gguf;
use crate::model::Model;
use crate::model::UNFOLDED_FROM;
use crate::replay::Walk;
use crate::tensor::GgmlType;

/// Called with tensors compared so far and in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How errors are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The engine runs on its own results throughout.
    #[default]
    Cumulative,
    /// It goes on with the reference's values after each tensor.
    Reseeded,
    /// One run of each; both results stand in the same row.
    Both,
}

/// The model that the reference ran, which exact results need.
#[derive(Clone, Copy)]
pub struct ReferenceModel<'a> {
    /// The file: for a folded model its unfolded twin.
    pub gguf: &'a Gguf,
    /// Its SHA-256.
    pub sha256: &'a str,
}

/// What a check does besides running the engine.
#[derive(Clone, Copy, Default)]
pub struct CheckOptions<'a> {
    /// How errors are carried.
    pub mode: Mode,
    /// The model that the reference ran; without it no operator can be judged alone.
    pub reference: Option<ReferenceModel<'a>>,
    /// The model that the engine runs: what a folded weight may be off by its transform is computed from it.
    pub model: Option<&'a Model>,
    /// States that the engine keeps when everything else is reseeded.
    pub keep: &'a [StateKind],
    /// The noise floor of each tensor, which the cumulative error is judged against.
    pub floor: Option<&'a Floor>,
    /// Whether the engine follows the reference's own arithmetic: then on its own results too nothing but what is equal passes.
    pub to_the_bit: bool,
}

/// What a check found.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// The results.
    pub comparison: Comparison,
    /// Named f32 tensors of the graph that the dump does not hold, because its filters left them out.
    pub not_captured: u64,
    /// In a reseeded run: tensors that could not be judged from the reference's inputs, by reason.
    pub not_judged: BTreeMap<String, u64>,
}

/// Runs `engine` on the tokens of `dump` and compares. `model_sha256` names the model that the engine runs.
///
/// # Errors
/// If the dump is of another model, damaged, or holds nothing to compare, or the engine cannot run.
pub fn check(
    engine: &mut dyn Engine,
    model_sha256: &str,
    dump: &Dump,
    progress: Progress<'_>,
) -> Result<Check, HarnessError> {
    check_with(engine, model_sha256, dump, CheckOptions::default(), progress)
}

/// Runs `engine` on the tokens of `dump` and compares in the way that the options ask for.
///
/// # Errors
/// As [`check`]; and if operators are to be judged alone without the model that the reference ran.
pub fn check_with(
    engine: &mut dyn Engine,
    model_sha256: &str,
    dump: &Dump,
    options: CheckOptions<'_>,
    progress: Progress<'_>,
) -> Result<Check, HarnessError> {
    check_model(model_sha256, dump)?;
    if !dump.manifest().capture.unchanged {
        return Err(HarnessError::CaptureChanged { dump: dump.path().to_owned() });
    }
    // A dump that is damaged anywhere proves nothing, even if the damage lies in what is not compared.
    dump.verify()?;
    let steps = steps_of(dump)?;
    let wanted: Vec<bool> =
        dump.nodes().iter().map(|node| is_compared(node) && dump.has_values(node)).collect();
    let expected = wanted.iter().filter(|&&wanted| wanted).count() as u64;
    if expected == 0 {
        return Err(HarnessError::NothingToCompare { dump: dump.path().to_owned() });
    }
    let not_captured = dump.nodes().iter().filter(|node| is_compared(node)).count() as u64 - expected;
    let passes = if options.mode == Mode::Both { 2 } else { 1 };
    let mut done = 0;
    let mut count = || {
        done += 1;
        progress(done, expected * passes);
    };
    let mut cumulative = None;
    if options.mode != Mode::Reseeded {
        engine.reset();
        let walk = match options.reference.filter(|_| options.mode == Mode::Both) {
            Some(reference) => Some(Walk::by_name(reference.gguf, reference.sha256, dump)?),
            None => None,
        };
        let unknown = if options.to_the_bit { Limit::EQUAL } else { Limit::CUMULATIVE };
        let floor = (options.floor, unknown);
        let mut comparer = Comparer::new(dump, wanted.clone(), floor, walk, &mut count);
        for step in &steps {
            step.run(engine, &mut comparer)?;
        }
        cumulative = Some(comparer.finish()?);
    }
    let mut not_judged = BTreeMap::new();
    let comparison = match (options.mode, cumulative) {
        (Mode::Cumulative, Some(comparison)) => comparison,
        (_, cumulative) => {
            let walk = match options.reference {
                Some(reference) => Walk::by_name(reference.gguf, reference.sha256, dump)?,
                None => return Err(HarnessError::NoReferenceModel { dump: dump.path().to_owned() }),
            };
            engine.reset();
            let mut reseeder = Reseeder::new(dump, wanted, walk, options, &mut count);
            for step in &steps {
                step.run(engine, &mut reseeder)?;
            }
            let reseeded = reseeder.finish()?;
            for result in &reseeded.results {
                if let Verdict::Skipped(reason) = &result.verdict {
                    let kind = reason.split_once(": ").map_or(&reason[..], |(kind, _)| kind);
                    *not_judged.entry(kind.to_owned()).or_default() += 1;
                }
            }
            match cumulative {
                Some(cumulative) => join(cumulative, reseeded),
                None => reseeded,
            }
        }
    };
    Ok(Check { comparison, not_captured, not_judged })
}

/// Measures the noise floor of every tensor for [`CheckOptions::floor`]: the same engine in two arithmetics on the tokens of
/// `dump`.
///
/// # Errors
/// If an engine cannot run, or they do not give the same tensors.
pub fn measure_floor(
    narrow: &mut dyn Engine,
    wide: &mut (dyn Engine + Send),
    dump: &Dump,
) -> Result<Floor, HarnessError> {
    floor::measure(narrow, wide, &steps_of(dump)?, Some(dump))
}

/// Puts what the reseeded run says of each operator beside the cumulative result of the same tensor. What fails in that run alone
/// fails here: a tensor that it lacks, or has too much, or in which the reference departs where the engine has none.
fn join(cumulative: Comparison, reseeded: Comparison) -> Comparison {
    let key = |result: &TensorResult| (result.id.clone(), result.verdict == Verdict::Extra);
    let place: HashMap<_, usize> = cumulative.results.iter().map(key).zip(0..).collect();
    let mut own: Vec<Option<TensorResult>> = cumulative.results.into_iter().map(Some).collect();
    let mut results = Vec::with_capacity(own.len());
    for alone in reseeded.results {
        let Some(mut result) = place.get(&key(&alone)).and_then(|&at| own.get_mut(at)?.take()) else {
            results.push(alone);
            continue;
        };
        if let Some(legs) = &alone.legs {
            result = result.with_legs(legs.clone());
        }
        // Seen alone, the operator's own error is not mixed with what was carried in.
        if !alone.diagnosis.is_empty() {
            result.diagnosis = alone.diagnosis.clone();
        }
        let fails_alone = alone.verdict.is_failure() && !result.verdict.is_failure();
        results.push(if fails_alone { alone } else { result });
    }
    results.extend(own.into_iter().flatten());
    Comparison { results, logits: cumulative.logits }
}

/// What an engine has to round on purpose to do as the reference did: activations only if llama.cpp ran the same file, as an
/// unfolded twin holds f32 weights; keys and values as the run kept them; the delta net by the route that the run took; named as
/// its graph names it.
///
/// # Errors
/// If the dump names a type of keys or values that there is not.
pub fn numerics(model_sha256: &str, dump: &Dump) -> Result<Numerics, HarnessError> {
    let ty = |key, name: &str| {
        let unknown = || HarnessError::CacheType { dump: dump.path().to_owned(), key, got: name.to_owned() };
        GgmlType::from_name(name).ok_or_else(unknown)
    };
    let run = &dump.manifest().run;
    let is_same = dump.manifest().model.sha256 == model_sha256;
    // A run of an engine of ours, which has no graph, rounds nothing.
    Ok(Numerics {
        activations: match is_same && dump.has_graph() {
            true => ActivationMode::Rounded(cpu_kernel(&dump.manifest().producer.system_info)),
            false => ActivationMode::Whole,
        },
        type_k: ty("type_k", &run.type_k)?,
        type_v: ty("type_v", &run.type_v)?,
        delta_net: match run.fused_gdn {
            Some(false) => DeltaNetRoute::Unfused,
            Some(true) | None => DeltaNetRoute::Fused,
        },
        dialect: dialect(dump),
        ggml: None,
    })
}

/// That a dump is of the model with this SHA-256, or of its unfolded twin.
///
/// # Errors
/// [`HarnessError::OtherModel`] if it is not.
pub fn check_model(model_sha256: &str, dump: &Dump) -> Result<(), HarnessError> {
    let reference = &dump.manifest().model;
    let unfolded_from = reference.metadata.get(UNFOLDED_FROM);
    if reference.sha256 == model_sha256 || unfolded_from.is_some_and(|sha| sha == model_sha256) {
        return Ok(());
    }
    Err(HarnessError::OtherModel {
        dump: dump.path().to_owned(),
        file: reference.file.clone(),
        dump_sha256: reference.sha256.clone(),
        unfolded_from: unfolded_from.cloned(),
        model_sha256: model_sha256.to_owned(),
    })
}

fn is_compared(node: &Node) -> bool {
    node.is_named() && node.ty == GgmlType::F32 && !node.ne.contains(&0) && !node.is_cache_view()
}
