//! What two runs are compared by: rows of `l_out` and logits by token, and states at the end.

use std::collections::{BTreeMap, BTreeSet};

use super::Departure;
use super::script::Watch;
use crate::compare::Limit;
use crate::engine::{EngineError, LayerSnapshot, SequenceSnapshot, Snapshot, Tap, TapError};
use crate::harness::Step;
use crate::tensor::{TensorId, Values};

/// A token: its sequence and position.
type Token = (i32, i64);

/// The limit at a token and layer; of the logits, the number of layers.
pub(super) type Limits<'l> = &'l dyn Fn(i32, i64, usize) -> Limit;

/// The layer that stands for the logits, behind all others.
const LOGITS: usize = usize::MAX;

/// What a run gave.
#[derive(Default)]
pub(super) struct Trace {
    rows: BTreeMap<(Token, usize), Vec<f64>>,
    states: Snapshot,
    /// The first thing that the run should have given and did not: what neither of two runs gives was not compared.
    missing: Option<(Token, String)>,
}

/// What a comparison found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) compared: u64,
    pub(super) worst: f64,
    pub(super) share: f64,
    pub(super) first: Option<Departure>,
}

/// Splits the tensors that are compared into rows of tokens.
#[derive(Default)]
struct Rows {
    step: u32,
    tokens: Vec<Token>,
    outputs: Vec<bool>,
}

impl Rows {
    fn begin(&mut self, step: &Step, step_of_run: u32) {
        let ubatch = &step.ubatch;
        self.step = step_of_run;
        self.tokens = ubatch.sequences.iter().copied().zip(ubatch.positions.iter().copied()).collect();
        self.outputs.clone_from(&ubatch.outputs);
    }

    /// The rows of a tensor: token, layer, values. None if it is not compared.
    fn of(&self, id: &TensorId, values: Values<'_>) -> Vec<(Token, usize, Vec<f64>)> {
        let (layer, tokens): (usize, Vec<Token>) = match (id.kind(), id.layer()) {
            ("l_out", Some(layer)) => (layer as usize, self.tokens.clone()),
            ("result_output", None) => {
                let wanted = self.tokens.iter().zip(&self.outputs).filter(|(_, wanted)| **wanted);
                (LOGITS, wanted.map(|(&token, _)| token).collect())
            }
            _ => return Vec::new(),
        };
        let n = values.len() / tokens.len().max(1);
        let row = |t: usize| (t * n..(t + 1) * n).map(|i| values.get(i).unwrap_or(f64::NAN)).collect();
        tokens.into_iter().enumerate().map(|(t, token)| (token, layer, row(t))).collect()
    }
}

/// Keeps a run.
#[derive(Default)]
pub(super) struct TraceRecord {
    rows: Rows,
    trace: Trace,
    /// The tokens that were run, and whether their logits were wanted.
    begun: BTreeMap<Token, bool>,
}

impl TraceRecord {
    pub(super) fn finish(self, states: Snapshot, wanted: &[i32]) -> Trace {
        let TraceRecord { mut trace, begun, .. } = self;
        trace.states = states;
        trace.states.sequences.retain(|sequence, _| wanted.contains(sequence));
        trace.missing = missing(&trace, &begun, wanted);
        trace
    }
}

impl Watch for TraceRecord {
    fn begin(&mut self, step: &Step, step_of_run: u32) {
        self.rows.begin(step, step_of_run);
        self.begun.extend(self.rows.tokens.iter().copied().zip(self.rows.outputs.iter().copied()));
    }
}

/// A sequence without a state, a state without layers, or a token without a row of a layer or of logits.
fn missing(trace: &Trace, begun: &BTreeMap<Token, bool>, wanted: &[i32]) -> Option<(Token, String)> {
    let mut n_layers = 0;
    for &sequence in wanted {
        let last = begun.keys().rev().find(|token| token.0 == sequence).copied().unwrap_or((sequence, 0));
        match trace.states.sequences.get(&sequence).map(|state| state.layers.len()) {
            None | Some(0) => return Some((last, "a state".to_owned())),
            Some(n) if n_layers != 0 && n != n_layers => return Some((last, format!("{n_layers} layers"))),
            Some(n) => n_layers = n,
        }
    }
    let rows_of = |&wants_logits: &bool| (0..n_layers).chain(wants_logits.then_some(LOGITS));
    let rows = begun.iter().flat_map(|(&token, wants)| rows_of(wants).map(move |layer| (token, layer)));
    let lacking = rows.into_iter().find(|row| !trace.rows.contains_key(row));
    lacking.map(|(token, layer)| (token, row_name(layer)))
}

impl Tap for TraceRecord {
    fn tensor(
        &mut self,
        id: &TensorId,
        _: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        for (token, layer, row) in self.rows.of(id, values) {
            self.trace.rows.insert((token, layer), row);
        }
        Ok(None)
    }

    fn wants(&self, id: &TensorId) -> bool {
        is_traced(id)
    }
}

impl Trace {
    /// Its rows, by token and layer.
    pub(super) fn rows(&self) -> impl Iterator<Item = (i32, i64, usize, &[f64])> {
        self.rows.iter().map(|(&((sequence, position), layer), row)| (sequence, position, layer, &row[..]))
    }
}

/// Compares a run with another.
pub(super) struct TraceCompare<'a> {
    rows: Rows,
    expected: &'a Trace,
    limits: Limits<'a>,
    seen: BTreeSet<(Token, usize)>,
    found: Found,
}

impl<'a> TraceCompare<'a> {
    pub(super) fn new(expected: &'a Trace, limits: Limits<'a>) -> TraceCompare<'a> {
        let found = Found { compared: 0, worst: 0.0, share: 0.0, first: None };
        TraceCompare { rows: Rows::default(), expected, limits, seen: BTreeSet::new(), found }
    }

    /// Takes note of two vectors side by side.
    fn compare(&mut self, (sequence, position): Token, layer: usize, tensor: &str, pair: [&[f64]; 2]) {
        let [expected, actual] = pair;
        let limit = (self.limits)(sequence, position, layer);
        let distance = relative_l2(expected, actual);
        let is_same = expected.len() == actual.len()
            && expected.iter().zip(actual).all(|(x, y)| x.to_bits() == y.to_bits());
        let is_finite = expected.iter().chain(actual).all(|x| x.is_finite());
        let accepted = is_finite && (is_same || (limit.relative_l2 > 0.0 && limit.accepts(distance)));
        let share = if is_same { 0.0 } else { limit.share(distance) };
        self.found.compared += 1;
        self.found.worst = if self.found.worst >= distance { self.found.worst } else { distance };
        self.found.share = if self.found.share >= share { self.found.share } else { share };
        if !accepted {
            self.depart(sequence, position, tensor.to_owned(), distance, limit.relative_l2);
        }
    }

    fn depart(&mut self, sequence: i32, position: i64, tensor: String, relative_l2: f64, limit: f64) {
        let step = self.rows.step;
        let departure = Departure { step, sequence, position, tensor, relative_l2, limit };
        self.found.first.get_or_insert(departure);
    }

    /// The run ended at an error of the engine.
    pub(super) fn refused(mut self, error: &EngineError) -> Found {
        let (sequence, position) = self.rows.tokens.first().copied().unwrap_or((0, 0));
        self.depart(sequence, position, format!("the engine refuses: {error}"), f64::INFINITY, 0.0);
        self.found
    }

    pub(super) fn finish(mut self, states: &Snapshot) -> Found {
        let expected = self.expected;
        if let Some(((sequence, position), what)) = &expected.missing {
            let name = format!("{what}, which neither run gives");
            self.depart(*sequence, *position, name, f64::INFINITY, 0.0);
        }
        if let Some(&((sequence, position), layer)) =
            expected.rows.keys().find(|key| !self.seen.contains(key))
        {
            self.depart(
                sequence,
                position,
                format!("{}, which is missing", row_name(layer)),
                f64::INFINITY,
                0.0,
            );
        }
        for (&sequence, own) in &expected.states.sequences {
            let last = own.n_past as i64 - 1;
            let Some(other) = states.sequences.get(&sequence).filter(|other| other.n_past == own.n_past)
            else {
                self.depart(sequence, last, "a state that is missing".to_owned(), f64::INFINITY, 0.0);
                continue;
            };
            self.compare_states((sequence, last), own, other);
        }
        self.found
    }

    fn compare_states(&mut self, token: Token, expected: &SequenceSnapshot, actual: &SequenceSnapshot) {
        if expected.layers.len() != actual.layers.len() {
            self.depart(token.0, token.1, "a state of other layers".to_owned(), f64::INFINITY, 0.0);
        }
        for (layer, pair) in expected.layers.iter().zip(&actual.layers).enumerate() {
            let mut both = |name: &str, x: &[f64], y: &[f64]| {
                self.compare(token, layer, &format!("{name} of blk.{layer}"), [x, y]);
            };
            match pair {
                (LayerSnapshot::Attention { k, v }, LayerSnapshot::Attention { k: other_k, v: other_v }) => {
                    both("keys", flat(k), flat(other_k));
                    both("values", flat(v), flat(other_v));
                }
                (
                    LayerSnapshot::DeltaNet { conv, s },
                    LayerSnapshot::DeltaNet { conv: other_conv, s: other_s },
                ) => {
                    both("convolution columns", flat(conv), flat(other_conv));
                    both("recurrent state", flat(s), flat(other_s));
                }
                _ => both("a state of another kind", &[0.0], &[f64::NAN]),
            }
        }
    }
}

impl Watch for TraceCompare<'_> {
    fn begin(&mut self, step: &Step, step_of_run: u32) {
        self.rows.begin(step, step_of_run);
    }
}

impl Tap for TraceCompare<'_> {
    fn tensor(
        &mut self,
        id: &TensorId,
        _: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        for (token, layer, row) in self.rows.of(id, values) {
            self.seen.insert((token, layer));
            let expected = self.expected;
            match expected.rows.get(&(token, layer)) {
                Some(expected) => self.compare(token, layer, &row_name(layer), [expected, &row]),
                None => {
                    let name = format!("{}, which is too much", row_name(layer));
                    self.depart(token.0, token.1, name, f64::INFINITY, 0.0);
                }
            }
        }
        Ok(None)
    }

    fn wants(&self, id: &TensorId) -> bool {
        is_traced(id)
    }
}

/// Whether rows are taken from a tensor.
fn is_traced(id: &TensorId) -> bool {
    id.name.starts_with("l_out-") || id.name == "result_output"
}

fn row_name(layer: usize) -> String {
    if layer == LOGITS { "result_output".to_owned() } else { format!("l_out-{layer}") }
}

fn flat<D: ndarray::Dimension>(values: &ndarray::Array<f64, D>) -> &[f64] {
    values.as_slice().expect("a snapshot is packed")
}

/// `|x - y| / |x|`; infinite if they are not equally long.
pub(super) fn relative_l2(expected: &[f64], actual: &[f64]) -> f64 {
    if expected.len() != actual.len() {
        return f64::INFINITY;
    }
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let distance = norm(&mut expected.iter().zip(actual).map(|(x, y)| x - y));
    if distance == 0.0 { 0.0 } else { distance / norm(&mut expected.iter().copied()) }
}
