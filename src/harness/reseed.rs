//! The tap of a reseeded run: after each tensor the engine goes on with the reference's values, so that what it gives next is
//! what its own operator makes of the reference's inputs. A walk through the graph gives the exact result of the same operator.

use std::collections::{HashMap, HashSet};

use super::HarnessError;
use super::check::CheckOptions;
use super::comparer::logits;
use super::diagnose::FirstDiagnosed;
use super::floor::RunningFloor;
use super::folded::allowed_by_fold;
use super::follow::Follower;
use super::kept::{is_carried, reads};
use super::reference::{in_graph_order, is_wanted, reference_of, scales};
use crate::compare::{
    Comparison, Departs, Leg, Legs, Limit, LogitsResult, Metrics, Shaped, TensorResult, U, Verdict,
    scaled_error,
};
use crate::dump::{Dump, Node, Origin};
use crate::engine::{Tap, TapError};
use crate::model::Model;
use crate::replay::{Judged, NodeResult, Outcome, Walk};
use crate::tensor::{TensorId, Values};

/// The tap that reseeds.
pub(super) struct Reseeder<'a> {
    dump: &'a Dump,
    follower: Follower<'a>,
    results: Results<'a>,
    options: CheckOptions<'a>,
    floor: Option<RunningFloor<'a>>,
    wanted: Vec<bool>,
    given: Vec<bool>,
    logits: Vec<LogitsResult>,
    extra: Vec<TensorResult>,
    count: &'a mut dyn FnMut(),
}

/// What is known of each node of the dump so far.
struct Results<'a> {
    dump: &'a Dump,
    model: Option<&'a Model>,
    of_node: Vec<Option<TensorResult>>,
    /// For tensors that the engine computes from a state that it keeps: the limit on what it carried.
    carried: HashMap<u32, Limit>,
    /// Tensors without a name in which the reference departs, and caches that they were copied into.
    departed: HashSet<Origin>,
    diagnosed: FirstDiagnosed,
}

impl<'a> Reseeder<'a> {
    pub(super) fn new(
        dump: &'a Dump,
        wanted: Vec<bool>,
        walk: Walk<'a>,
        options: CheckOptions<'a>,
        count: &'a mut dyn FnMut(),
    ) -> Reseeder<'a> {
        let results = Results {
            dump,
            model: options.model,
            of_node: vec![None; dump.nodes().len()],
            carried: HashMap::new(),
            departed: HashSet::new(),
            diagnosed: FirstDiagnosed::default(),
        };
        let follower = Follower::new(walk, wanted.clone());
        let (logits, extra) = (Vec::new(), Vec::new());
        let (floor, given) = (options.floor.map(RunningFloor::new), vec![false; wanted.len()]);
        Reseeder { dump, follower, results, options, floor, wanted, given, logits, extra, count }
    }

    fn take(&mut self, id: &TensorId, ne: [u64; 4], values: Values<'_>) -> Result<(), HarnessError> {
        let floor = self.floor.as_mut().and_then(|floor| floor.at(id));
        let Some(node) = self.dump.find(id) else {
            if self.dump.manifest().run.until.is_none() {
                self.extra.push(TensorResult::extra(id.clone(), ne, Limit::CUMULATIVE));
            }
            return Ok(());
        };
        if !self.wanted[node.id as usize] {
            return Ok(());
        }
        if std::mem::replace(&mut self.given[node.id as usize], true) {
            self.extra.push(TensorResult::extra(id.clone(), ne, Limit::CUMULATIVE));
            return Ok(());
        }
        if is_carried(self.dump, self.options.keep, node) {
            self.results.carried.insert(node.id, floor.map_or(Limit::CUMULATIVE, Limit::of_floor));
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
            let limit = floor.map_or(Limit::CUMULATIVE, Limit::of_floor);
            self.logits.extend(logits(id.step, Shaped { ne, values: &*reference }, values, limit)?);
        }
        if self.given_root(node).is_some() {
            return self.results.judge_view(node, values);
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
        let views = self.dump.nodes().iter().filter_map(|node| Some((node, self.given_root(node)?)));
        let views: Vec<(&Node, u32)> = views.collect();
        let results = &mut self.results;
        self.follower.finish(&mut |judged, values| results.judge(judged, values))?;
        views.into_iter().for_each(|(view, root)| results.skip_with_root(view, root));
        let results = in_graph_order(self.dump, self.results.of_node, &self.wanted, self.extra);
        Ok(Comparison { results, logits: self.logits })
    }
}

impl Results<'_> {
    /// A view must be what it shows, to the bit.
    fn judge_view(&mut self, node: &Node, values: Values<'_>) -> Result<(), HarnessError> {
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
        let share = self.share_of_carried(node, &reference, values)?.unwrap_or(error);
        let leg = |error: f64, share: f64, value: f64| Leg {
            scaled_error: error,
            share,
            worst_index: at as u64,
            value,
            exact,
            flips: 0,
        };
        let actual = leg(error, share, value(values.get(at)));
        let legs = Legs { introduced: error, actual, reference: leg(0.0, 0.0, exact) };
        self.put(node, &reference, values, None, legs)
    }

    /// A view of what could not be judged was not judged either. Only known at the end: a view may come before the walk is at
    /// its root.
    fn skip_with_root(&mut self, view: &Node, root: u32) {
        let of_root = self.of_node.get(root as usize).and_then(Option::as_ref).map(|result| &result.verdict);
        let Some(Verdict::Skipped(reason)) = of_root else { return };
        let (reason, op) = (reason.clone(), self.dump.root_op(view));
        if let Some(result) = self.of_node.get_mut(view.id as usize).and_then(Option::as_mut)
            && result.verdict.is_pass()
        {
            *result = TensorResult::skipped(view.id(), op, view.ne, reason, Limit::CUMULATIVE);
        }
    }

    fn judge(&mut self, judged: &Judged<'_>, values: Option<Values<'_>>) -> Result<(), HarnessError> {
        let node = judged.node;
        let Some(values) = values else {
            self.judge_unnamed(judged);
            return Ok(());
        };
        let Some(reference) = self.dump.f32(node)? else { return Ok(()) };
        let op = self.dump.root_op(node);
        let reason = match &judged.result.outcome {
            Outcome::Skipped(reason) => Some(&reason[..]),
            // Exact would be what follows from the wrong values, which the engine was not given.
            _ if !self.departed.is_empty()
                && reads(self.dump, node, &|from| self.departed.contains(&from)) =>
            {
                Some("in a source without a name the reference departs")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            let skipped = TensorResult::skipped(node.id(), op, node.ne, reason, Limit::CUMULATIVE);
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
        let introduced = scaled_error(&reference, values, &scales(terms, &reference))?;
        let mut actual = leg(&actual);
        if let Some(share) = self.share_of_carried(node, &reference, values)? {
            actual.share = share;
        }
        let legs = Legs { introduced, actual, reference: leg(&judged.result) };
        self.put(node, &reference, values, judged.exact(), legs)
    }

    /// What an engine makes of a state that it keeps is off by what that state carries: it is judged like a run on its own
    /// values. None for every other tensor.
    fn share_of_carried(
        &self,
        node: &Node,
        reference: &[f32],
        values: Values<'_>,
    ) -> Result<Option<f64>, HarnessError> {
        let Some(limit) = self.carried.get(&node.id) else { return Ok(None) };
        Ok(Some(limit.share(Metrics::measure(reference, values, None)?.relative_l2)))
    }

    /// Of a tensor without a name there is only the reference's side: it shows up if that departs.
    fn judge_unnamed(&mut self, judged: &Judged<'_>) {
        let (node, result) = (judged.node, &judged.result);
        if !matches!(result.outcome, Outcome::Over | Outcome::NonFinite) {
            return;
        }
        self.departed.insert(Origin::Node(node.id));
        self.departed.extend(node.view_of.as_ref().map(|view| view.root));
        let reference = leg(result);
        let actual = Leg { scaled_error: 0.0, share: 0.0, value: reference.exact, flips: 0, ..reference };
        let legs = Legs { introduced: reference.scaled_error, actual, reference };
        let op = self.dump.root_op(node);
        let unmeasured = TensorResult::missing(node.id(), op, node.ne, Limit::CUMULATIVE);
        let differs = TensorResult { verdict: Verdict::Differ, share: Some(0.0), ..unmeasured };
        self.of_node[node.id as usize] = Some(differs.with_legs(legs));
    }

    fn put(
        &mut self,
        node: &Node,
        reference: &[f32],
        values: Values<'_>,
        exact: Option<&[f64]>,
        legs: Legs,
    ) -> Result<(), HarnessError> {
        let (op, ne) = (self.dump.root_op(node), node.ne);
        let shaped = Shaped { ne, values: reference };
        // Only the legs judge here; the relative L2 is shown and has no limit of its own.
        let limit = Limit { relative_l2: f64::INFINITY };
        let result = TensorResult::measure(node.id(), op, shaped, Shaped { ne, values }, None, limit)?;
        let mut result = result.with_legs(legs);
        // Who departs is held against what is exact, where it is known.
        let exact: Option<Vec<f32>> = exact.map(|exact| exact.iter().map(|&value| value as f32).collect());
        match (result.departs(), &exact) {
            (Some(Departs::Reference), Some(exact)) => {
                self.diagnosed.look(self.dump, node, &mut result, exact, Values::F32(reference))?;
            }
            (_, exact) => {
                let exact = exact.as_deref().unwrap_or(reference);
                self.diagnosed.look(self.dump, node, &mut result, exact, values)?;
            }
        }
        self.of_node[node.id as usize] = Some(result);
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

    fn wants(&self, id: &TensorId) -> bool {
        is_wanted(self.dump, id)
    }
}
