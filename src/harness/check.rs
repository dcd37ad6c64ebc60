//! An engine beside a dump: every tensor that the engine emits is compared as it comes.
//!
//! What is compared: each f32 node of the dump's graph that llama.cpp named, whose values the dump holds, and that is not
//! a view of a cache (its content at that moment is the previous step's, which the state tensors show). A node that the
//! engine does not emit is missing; a tensor that the graph does not have is extra.

use std::path::Path;

use super::HarnessError;
use crate::compare::{Comparison, Limit, LogitsResult, Shaped, TensorResult};
use crate::dump::{Dump, Node};
use crate::engine::{Engine, Tap, TapError, Ubatch};
use crate::synth::UNFOLDED_FROM;
use crate::tensor::{GgmlType, TensorId, Values};

/// Called with tensors compared so far and in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// The node that holds the logits.
const LOGITS: &str = "result_output";

/// What a check found.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// The results.
    pub comparison: Comparison,
    /// Named f32 tensors of the graph that the dump does not hold, because its filters left them out.
    pub not_captured: u64,
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
    check_model(model_sha256, dump)?;
    if !dump.manifest().capture.unchanged {
        return Err(HarnessError::CaptureChanged { dump: dump.path().to_owned() });
    }
    // A dump that is damaged anywhere proves nothing, even if the damage lies in what is not compared.
    dump.verify()?;
    let ubatches = ubatches_of(dump)?;
    let wanted: Vec<bool> =
        dump.nodes().iter().map(|node| is_compared(node) && dump.has_values(node)).collect();
    let expected = wanted.iter().filter(|&&wanted| wanted).count() as u64;
    if expected == 0 {
        return Err(HarnessError::NothingToCompare { dump: dump.path().to_owned() });
    }
    let not_captured = dump.nodes().iter().filter(|node| is_compared(node)).count() as u64 - expected;
    let mut comparer = Comparer {
        dump,
        results: vec![None; dump.nodes().len()],
        extra: Vec::new(),
        logits: Vec::new(),
        wanted,
        compared: 0,
        expected,
        progress,
    };
    for ubatch in &ubatches {
        engine.step(ubatch, &mut comparer)?;
    }
    Ok(Check { comparison: comparer.finish(), not_captured })
}

fn check_model(model_sha256: &str, dump: &Dump) -> Result<(), HarnessError> {
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

fn ubatches_of(dump: &Dump) -> Result<Vec<Ubatch>, HarnessError> {
    let path = || Path::to_owned(dump.path());
    let mut ubatches = Vec::new();
    for ubatch in &dump.manifest().run.ubatches {
        if let Some(got) = ubatch.seq_ids.iter().find(|ids| **ids != [0]) {
            return Err(HarnessError::Sequences { dump: path(), step: ubatch.step, got: got.clone() });
        }
        let token = |&token: &i32| {
            u32::try_from(token).map_err(|_| HarnessError::TokenId { dump: path(), step: ubatch.step, token })
        };
        ubatches.push(Ubatch {
            tokens: ubatch.tokens.iter().map(token).collect::<Result<_, _>>()?,
            positions: ubatch.positions.iter().map(|&p| p.into()).collect(),
            outputs: ubatch.outputs.iter().map(|&o| o != 0).collect(),
        });
    }
    Ok(ubatches)
}

fn is_compared(node: &Node) -> bool {
    node.is_named() && node.ty == GgmlType::F32 && !node.ne.contains(&0) && !node.is_cache_view()
}

/// The tap that compares.
struct Comparer<'a> {
    dump: &'a Dump,
    /// One per node of the dump.
    results: Vec<Option<TensorResult>>,
    extra: Vec<TensorResult>,
    logits: Vec<LogitsResult>,
    wanted: Vec<bool>,
    compared: u64,
    expected: u64,
    progress: Progress<'a>,
}

impl Comparer<'_> {
    fn compare(&mut self, id: &TensorId, ne: [u64; 4], values: Values<'_>) -> Result<(), HarnessError> {
        let Some(node) = self.dump.find(id) else {
            self.extra.push(TensorResult::extra(id.clone(), ne, Limit::CUMULATIVE));
            return Ok(());
        };
        let index = node.id as usize;
        if !self.wanted[index] {
            return Ok(());
        }
        // `wanted` holds only nodes with values, so this is never empty.
        let Some(reference) = self.dump.f32(node)? else { return Ok(()) };
        let op = self.dump.root_op(node);
        let reference = Shaped { ne: node.ne, values: &*reference };
        let actual = Shaped { ne, values };
        let result = TensorResult::measure(id.clone(), op, reference, actual, None, Limit::CUMULATIVE)?;
        if id.name == LOGITS && reference.ne == ne {
            self.compare_logits(id.step, reference, values)?;
        }
        self.results[index] = Some(result);
        self.compared += 1;
        (self.progress)(self.compared, self.expected);
        Ok(())
    }

    fn compare_logits(
        &mut self,
        step: u32,
        reference: Shaped<&[f32]>,
        actual: Values<'_>,
    ) -> Result<(), HarnessError> {
        let n_vocab = reference.ne[0] as usize;
        for (row, logits) in reference.values.chunks_exact(n_vocab).enumerate() {
            let range = row * n_vocab..(row + 1) * n_vocab;
            let actual = match actual {
                Values::F32(values) => Values::F32(&values[range]),
                Values::F64(values) => Values::F64(&values[range]),
            };
            self.logits.push(LogitsResult::measure(step, row as u32, logits, actual)?);
        }
        Ok(())
    }

    fn finish(self) -> Comparison {
        let mut results = Vec::with_capacity(self.expected as usize);
        for ((node, result), wanted) in self.dump.nodes().iter().zip(self.results).zip(self.wanted) {
            match result {
                Some(result) => results.push(result),
                None if wanted => {
                    let op = self.dump.root_op(node);
                    results.push(TensorResult::missing(node.id(), op, node.ne, Limit::CUMULATIVE));
                }
                None => {}
            }
        }
        results.extend(self.extra);
        Comparison { results, logits: self.logits }
    }
}

impl Tap for Comparer<'_> {
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        self.compare(id, ne, values)?;
        Ok(None)
    }
}
