//! The tap of a cumulative run: each tensor is compared as it comes.

use std::collections::BTreeMap;

use super::HarnessError;
use super::floor::Floor;
use super::follow::Follower;
use super::reference::reference_of;
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
    /// Gives the terms that errors are scaled by, if the model that the reference ran is at hand.
    follower: Option<Follower<'a>>,
    count: &'a mut dyn FnMut(),
}

/// The largest floor on the way to a tensor: in its own step so far, and in its layer and those before in earlier steps, whose
/// states it reads.
struct RunningFloor<'a> {
    floor: &'a Floor,
    step: u32,
    so_far: f64,
    earlier: BTreeMap<u32, f64>,
}

impl<'a> Comparer<'a> {
    pub(super) fn new(
        dump: &'a Dump,
        wanted: Vec<bool>,
        floor: Option<&'a Floor>,
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
            floor: floor.map(|floor| RunningFloor { floor, step: 0, so_far: 0.0, earlier: BTreeMap::new() }),
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
        // `wanted` holds only nodes with values, so this is never empty.
        let Some(reference) = self.dump.f32(node)? else { return Ok(()) };
        let op = self.dump.root_op(node);
        let reference = Shaped { ne: node.ne, values: &*reference };
        let actual = Shaped { ne, values };
        let limit = floor.map_or(Limit::CUMULATIVE, Limit::of_floor);
        let result = TensorResult::measure(id.clone(), op, reference, actual, None, limit)?;
        if id.name == LOGITS && reference.ne == ne {
            self.logits.extend(logits(id.step, reference, values)?);
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
        let mut results = Vec::with_capacity(self.results.len());
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
        Ok(Comparison { results, logits: self.logits })
    }
}

/// Adds the error in units of the terms to what was measured.
fn scale(
    dump: &Dump,
    results: &mut [Option<TensorResult>],
    judged: &Judged<'_>,
    values: Values<'_>,
) -> Result<(), HarnessError> {
    let result = results.get_mut(judged.node.id as usize).and_then(Option::as_mut);
    let metrics = result.and_then(|result| result.metrics.as_mut());
    // What is only moved has no terms to scale by.
    let terms = judged.terms().filter(|terms| terms.iter().any(|&terms| terms != 0.0));
    if let (Some(metrics), Some(terms), Some(reference)) = (metrics, terms, dump.f32(judged.node)?) {
        metrics.scaled_error = Some(scaled_error(&reference, values, terms)?);
    }
    Ok(())
}

/// Compares each row of logits.
pub(super) fn logits(
    step: u32,
    reference: Shaped<&[f32]>,
    actual: Values<'_>,
) -> Result<Vec<LogitsResult>, HarnessError> {
    let n_vocab = reference.ne[0] as usize;
    let mut results = Vec::new();
    for (row, logits) in reference.values.chunks_exact(n_vocab).enumerate() {
        let range = row * n_vocab..(row + 1) * n_vocab;
        let actual = match actual {
            Values::F32(values) => Values::F32(&values[range]),
            Values::F64(values) => Values::F64(&values[range]),
        };
        results.push(LogitsResult::measure(step, row as u32, logits, actual)?);
    }
    Ok(results)
}

impl RunningFloor<'_> {
    /// The floor of a tensor, in the order in which the engine emits them; none if it was not measured.
    fn at(&mut self, id: &TensorId) -> Option<f64> {
        let own = *self.floor.get(id)?;
        if id.step != self.step {
            (self.step, self.so_far) = (id.step, 0.0);
        }
        let earlier =
            id.layer().and_then(|layer| self.earlier.range(..=layer).map(|(_, &floor)| floor).reduce(larger));
        self.so_far = larger(larger(self.so_far, own), earlier.unwrap_or(0.0));
        if let Some(layer) = id.layer() {
            self.earlier.insert(layer, self.so_far);
        }
        Some(self.so_far)
    }
}

/// The larger one; NaN stays.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_runs_along_the_way_to_a_tensor() {
        let id = |step, name: &str| TensorId { step, name: name.to_owned(), occurrence: 0 };
        let measured = [
            (0, "a-0", 1.0),
            (0, "b-0", 0.5),
            (0, "a-1", 4.0),
            (1, "embed", 0.25),
            (1, "a-0", 0.5),
            (1, "a-1", 2.0),
        ];
        let floor: Floor = measured.iter().map(|&(step, name, floor)| (id(step, name), floor)).collect();
        let mut running = RunningFloor { floor: &floor, step: 0, so_far: 0.0, earlier: BTreeMap::new() };
        let seen: Vec<f64> =
            measured.iter().map(|&(step, name, _)| running.at(&id(step, name)).unwrap()).collect();
        assert_eq!(seen, [1.0, 1.0, 4.0, 0.25, 1.0, 4.0]);
        assert_eq!(running.at(&id(1, "other")), None);
    }
}
