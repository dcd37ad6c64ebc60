//! The tap of a cumulative run: each tensor is compared as it comes.

use super::HarnessError;
use super::diagnose::FirstDiagnosed;
use super::floor::{Floor, RunningFloor};
use super::follow::Follower;
use super::reference::{in_graph_order, is_wanted, reference_of, scales};
use crate::compare::{Comparison, Limit, LogitsResult, Shaped, TensorResult, scaled_error};
use crate::dump::Dump;
use crate::engine::{Tap, TapError};
use crate::replay::{Judged, Walk};
use crate::tensor::{TensorId, Values};

/// The node that holds the logits.
const LOGITS: &str = "result_output";

/// The tap that compares.
pub(super) struct Comparer<'a> {
    dump: &'a Dump,
    /// One per node of the dump.
    results: Vec<Option<TensorResult>>,
    extra: Vec<TensorResult>,
    logits: Vec<LogitsResult>,
    wanted: Vec<bool>,
    floor: Option<RunningFloor<'a>>,
    /// The limit of a tensor without a floor.
    without_floor: Limit,
    /// Gives the terms that errors are scaled by, if the model that the reference ran is at hand.
    follower: Option<Follower<'a>>,
    diagnosed: FirstDiagnosed,
    count: &'a mut dyn FnMut(),
}

impl<'a> Comparer<'a> {
    pub(super) fn new(
        dump: &'a Dump,
        wanted: Vec<bool>,
        (floor, without_floor): (Option<&'a Floor>, Limit),
        walk: Option<Walk<'a>>,
        count: &'a mut dyn FnMut(),
    ) -> Comparer<'a> {
        Comparer {
            follower: walk.map(|walk| Follower::new(walk, wanted.clone())),
            dump,
            results: vec![None; dump.nodes().len()],
            extra: Vec::new(),
            logits: Vec::new(),
            wanted,
            floor: floor.map(RunningFloor::new),
            without_floor,
            diagnosed: FirstDiagnosed::default(),
            count,
        }
    }

    fn compare(&mut self, id: &TensorId, ne: [u64; 4], values: Values<'_>) -> Result<(), HarnessError> {
        let floor = self.floor.as_mut().and_then(|floor| floor.at(id));
        let Some(node) = self.dump.find(id) else {
            // Of a graph that was cut off on purpose, what lies behind the cut is not told apart from what is too much.
            if self.dump.manifest().run.until.is_none() {
                self.extra.push(TensorResult::extra(id.clone(), ne, Limit::CUMULATIVE));
            }
            return Ok(());
        };
        let index = node.id as usize;
        if !self.wanted[index] {
            return Ok(());
        }
        if self.results[index].is_some() {
            self.extra.push(TensorResult::extra(id.clone(), ne, Limit::CUMULATIVE));
            return Ok(());
        }
        // `wanted` holds only nodes with values, so this is never empty.
        let Some(reference) = self.dump.f32(node)? else { return Ok(()) };
        let op = self.dump.root_op(node);
        let reference = Shaped { ne: node.ne, values: &*reference };
        let actual = Shaped { ne, values };
        let limit = floor.map_or(self.without_floor, Limit::of_floor);
        let mut result = TensorResult::measure(id.clone(), op, reference, actual, None, limit)?;
        self.diagnosed.look(self.dump, node, &mut result, reference.values, values)?;
        if id.name == LOGITS && reference.ne == ne {
            self.logits.extend(logits(id.step, reference, values, limit)?);
        }
        let is_measured = result.metrics.is_some();
        self.results[index] = Some(TensorResult { floor, ..result });
        (self.count)();
        let Some(follower) = &mut self.follower else { return Ok(()) };
        if !is_measured {
            follower.without(node);
            return Ok(());
        }
        let (dump, results) = (self.dump, &mut self.results);
        follower.give(node, values, &mut |judged, values| scale(dump, results, judged, values))
    }

    pub(super) fn finish(mut self) -> Result<Comparison, HarnessError> {
        if let Some(follower) = self.follower {
            let (dump, results) = (self.dump, &mut self.results);
            follower.finish(&mut |judged, values| scale(dump, results, judged, values))?;
        }
        let results = in_graph_order(self.dump, self.results, &self.wanted, self.extra);
        Ok(Comparison { results, logits: self.logits })
    }
}

/// Adds the error in units of the terms to what was measured.
fn scale(
    dump: &Dump,
    results: &mut [Option<TensorResult>],
    judged: &Judged<'_>,
    values: Option<Values<'_>>,
) -> Result<(), HarnessError> {
    let Some(values) = values else { return Ok(()) };
    let result = results.get_mut(judged.node.id as usize).and_then(Option::as_mut);
    let metrics = result.and_then(|result| result.metrics.as_mut());
    if let (Some(metrics), Some(terms), Some(reference)) = (metrics, judged.terms(), dump.f32(judged.node)?) {
        metrics.scaled_error = Some(scaled_error(&reference, values, &scales(terms, &reference))?);
    }
    Ok(())
}

/// Compares each row of logits; `limit` is that of the whole tensor.
pub(super) fn logits(
    step: u32,
    reference: Shaped<&[f32]>,
    actual: Values<'_>,
    limit: Limit,
) -> Result<Vec<LogitsResult>, HarnessError> {
    let n_vocab = reference.ne[0] as usize;
    let mut results = Vec::new();
    for (row, logits) in reference.values.chunks_exact(n_vocab).enumerate() {
        let range = row * n_vocab..(row + 1) * n_vocab;
        let actual = match actual {
            Values::F32(values) => Values::F32(&values[range]),
            Values::F64(values) => Values::F64(&values[range]),
        };
        results.push(LogitsResult::measure(step, row as u32, logits, actual, limit)?);
    }
    Ok(results)
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

    fn rounds_like(&mut self, id: &TensorId) -> Result<Option<Vec<f32>>, TapError> {
        Ok(reference_of(self.dump, id)?)
    }

    fn wants(&self, id: &TensorId) -> bool {
        is_wanted(self.dump, id)
    }
}
