//! The tap of a reseeded run: after each tensor the engine goes on with the reference's values, so that what it gives next is
//! what its own operator makes of the reference's inputs. A walk through the graph gives the exact result of the same operator.

use super::HarnessError;
use super::check::CheckOptions;
use super::comparer::logits;
use super::folded::allowed_by_fold;
use super::follow::Follower;
use super::reference::reference_of;
use crate::compare::{
    Comparison, Leg, Legs, Limit, LogitsResult, Shaped, TensorResult, U, Verdict, scaled_error,
};
use crate::dump::{Dump, Node, Origin};
use crate::engine::{Tap, TapError};
use crate::model::Model;
use crate::replay::{Judged, NodeResult, Outcome, Walk};
use crate::tensor::{TensorId, Values};

/// A state that an engine carries from one step to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateKind {
    /// The last columns of the convolution's input.
    Conv,
    /// The delta net's recurrent state.
    Recurrent,
    /// Keys and values.
    Kv,
}

impl StateKind {
    /// Whether a tensor is what is kept of it: the columns and the window of the convolution, the state in front of and behind a step, keys
    /// after their rotation and values as they are projected.
    fn is(self, node: &Node) -> bool {
        let id = node.id();
        match self {
            StateKind::Conv => matches!(id.kind(), "conv_states" | "conv_input"),
            StateKind::Recurrent => matches!(id.kind(), "state_predelta" | "new_state"),
            StateKind::Kv => {
                (id.kind() == "Kcur" && node.op == "ROPE") || (id.kind() == "Vcur" && node.op == "MUL_MAT")
            }
        }
    }
}

/// The tap that reseeds.
pub(super) struct Reseeder<'a> {
    dump: &'a Dump,
    follower: Follower<'a>,
    results: Results<'a>,
    options: CheckOptions<'a>,
    wanted: Vec<bool>,
    logits: Vec<LogitsResult>,
    extra: Vec<TensorResult>,
    count: &'a mut dyn FnMut(),
}

/// What is known of each node of the dump so far.
struct Results<'a> {
    dump: &'a Dump,
    model: Option<&'a Model>,
    of_node: Vec<Option<TensorResult>>,
}

impl<'a> Reseeder<'a> {
    pub(super) fn new(
        dump: &'a Dump,
        wanted: Vec<bool>,
        walk: Walk<'a>,
        options: CheckOptions<'a>,
        count: &'a mut dyn FnMut(),
    ) -> Reseeder<'a> {
        let results = Results { dump, model: options.model, of_node: vec![None; dump.nodes().len()] };
        let follower = Follower::new(walk, wanted.clone());
        let (logits, extra) = (Vec::new(), Vec::new());
        Reseeder { dump, follower, results, options, wanted, logits, extra, count }
    }

    fn take(&mut self, id: &TensorId, ne: [u64; 4], values: Values<'_>) -> Result<(), HarnessError> {
        let Some(node) = self.dump.find(id) else {
            if self.dump.manifest().run.until.is_none() {
                self.extra.push(TensorResult::extra(id.clone(), ne, Limit::CUMULATIVE));
            }
            return Ok(());
        };
        if !self.wanted[node.id as usize] {
            return Ok(());
        }
        (self.count)();
        if node.ne != ne {
            let verdict = Verdict::Shape { reference: node.ne, actual: ne };
            let result =
                TensorResult::missing(node.id(), self.dump.root_op(node), node.ne, Limit::CUMULATIVE);
            self.results.of_node[node.id as usize] = Some(TensorResult { verdict, ..result });
            self.follower.without(node);
            return Ok(());
        }
        if id.name == "result_output"
            && let Some(reference) = self.dump.f32(node)?
        {
            self.logits.extend(logits(id.step, Shaped { ne, values: &*reference }, values)?);
        }
        if let Some(root) = self.given_root(node) {
            return self.results.judge_view(node, root, values);
        }
        let results = &mut self.results;
        self.follower.give(node, values, &mut |judged, values| results.judge(judged, values))
    }

    /// The node that a view shows a part of, if the engine has been given that one already.
    fn given_root(&self, node: &Node) -> Option<u32> {
        let root = node.view_of.as_ref().filter(|_| node.is_pure_view()).map(|view| view.root);
        match root {
            Some(Origin::Node(root)) => Some(root).filter(|&root| self.wanted[root as usize]),
            _ => None,
        }
    }

    pub(super) fn finish(mut self) -> Result<Comparison, HarnessError> {
        let results = &mut self.results;
        self.follower.finish(&mut |judged, values| results.judge(judged, values))?;
        let mut all = Vec::with_capacity(self.results.of_node.len());
        for ((node, result), wanted) in self.dump.nodes().iter().zip(self.results.of_node).zip(self.wanted) {
            match result {
                Some(result) => all.push(result),
                None if wanted => {
                    let op = self.dump.root_op(node);
                    all.push(TensorResult::missing(node.id(), op, node.ne, Limit::CUMULATIVE));
                }
                None => {}
            }
        }
        all.extend(self.extra);
        Ok(Comparison { results: all, logits: self.logits })
    }
}

impl Results<'_> {
    /// A view must be what it shows, to the bit, if what it shows could be judged.
    fn judge_view(&mut self, node: &Node, root: u32, values: Values<'_>) -> Result<(), HarnessError> {
        let of_root = self.of_node.get(root as usize).and_then(Option::as_ref).map(|result| &result.verdict);
        if let Some(Verdict::Skipped(reason)) = of_root {
            let (reason, op) = (reason.clone(), self.dump.root_op(node));
            let skipped = TensorResult::skipped(node.id(), op, node.ne, reason, Limit::CUMULATIVE);
            self.of_node[node.id as usize] = Some(skipped);
            return Ok(());
        }
        let Some(reference) = self.dump.f32(node)? else { return Ok(()) };
        let differs = |i: usize, x: f32| {
            let own = values.get(i).unwrap_or(f64::NAN);
            own != f64::from(x) && !(own.is_nan() && x.is_nan())
        };
        let first = reference.iter().enumerate().find(|&(i, &x)| differs(i, x)).map(|(i, _)| i);
        let at = first.unwrap_or(0);
        let value = |x: Option<f64>| x.unwrap_or(0.0);
        let exact = value(reference.get(at).map(|&x| x.into()));
        let error = if first.is_some() { f64::INFINITY } else { 0.0 };
        let leg = |error: f64, value: f64| Leg {
            scaled_error: error,
            share: error,
            worst_index: at as u64,
            value,
            exact,
            flips: 0,
        };
        let legs =
            Legs { introduced: error, actual: leg(error, value(values.get(at))), reference: leg(0.0, exact) };
        self.put(node, &reference, values, legs)
    }

    fn judge(&mut self, judged: &Judged<'_>, values: Values<'_>) -> Result<(), HarnessError> {
        let node = judged.node;
        let Some(reference) = self.dump.f32(node)? else { return Ok(()) };
        let op = self.dump.root_op(node);
        if let Outcome::Skipped(reason) = &judged.result.outcome {
            let skipped = TensorResult::skipped(node.id(), op, node.ne, reason.clone(), Limit::CUMULATIVE);
            self.of_node[node.id as usize] = Some(skipped);
            return Ok(());
        }
        let allowed = match self.model {
            Some(model) => allowed_by_fold(model, self.dump, node)?,
            None => Vec::new(),
        };
        let (Some(actual), Some(terms)) = (judged.against(values, &allowed), judged.terms()) else {
            return Ok(());
        };
        let introduced = scaled_error(&reference, values, terms)?;
        let legs = Legs { introduced, actual: leg(&actual), reference: leg(&judged.result) };
        self.put(node, &reference, values, legs)
    }

    fn put(
        &mut self,
        node: &Node,
        reference: &[f32],
        values: Values<'_>,
        legs: Legs,
    ) -> Result<(), HarnessError> {
        let (op, ne) = (self.dump.root_op(node), node.ne);
        let reference = Shaped { ne, values: reference };
        // Only the legs judge here; the relative L2 is shown and has no limit of its own.
        let limit = Limit { relative_l2: f64::MAX };
        let result = TensorResult::measure(node.id(), op, reference, Shaped { ne, values }, None, limit)?;
        self.of_node[node.id as usize] = Some(result.with_legs(legs));
        Ok(())
    }
}

fn leg(result: &NodeResult) -> Leg {
    Leg {
        scaled_error: result.scaled_error * U,
        share: result.share,
        worst_index: result.worst_index,
        value: result.reference,
        exact: result.exact,
        flips: result.flips,
    }
}

impl Tap for Reseeder<'_> {
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        self.take(id, ne, values)?;
        let is_kept = |node: &Node| self.options.keep.iter().any(|state| state.is(node));
        if self.dump.find(id).is_some_and(is_kept) {
            return Ok(None);
        }
        // A tensor of another shape is reported, and the engine goes on with its own.
        let reference = reference_of(self.dump, id)?;
        Ok(reference.filter(|reference| reference.len() == values.len()))
    }
}
