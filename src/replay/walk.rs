//! The nodes of a dump in evaluation order, each judged in turn: memory is bounded by the largest node and the caches.

use std::collections::HashMap;

use super::ReplayError;
use super::caches::Caches;
use super::evaluate::{Arithmetic, Evaluated, Run};
use super::judge::{self, About, NodeResult};
use super::operands::{Known, Operands};
use super::results::Results;
use super::snapshots;
use crate::arithmetic::{Isa, Primitives};
use crate::dump::{Dump, Node, Origin};
use crate::gguf::Gguf;
use crate::ops::exact::Oracles;
use crate::tensor::Values;

/// A replay that has come to some node of the graph.
pub struct Walk<'a> {
    operands: Operands<'a>,
    run: Run,
    caches: Caches<'a>,
    results: Results,
    /// Views that stand in for a computed node which the dump does not hold, by that node's number.
    views: HashMap<u32, Vec<&'a Node>>,
    computed: std::vec::IntoIter<&'a Node>,
    /// The steps that were entered.
    steps: u32,
}

/// A tensor that the dump holds, judged.
pub struct Judged<'a> {
    /// The tensor: a computed node, or a view of one that is not held itself.
    pub node: &'a Node,
    /// How the reference compares with the exact values.
    pub result: NodeResult,
    /// The exact values; none if the node was skipped.
    evaluated: Option<Evaluated>,
}

impl Judged<'_> {
    /// The terms of each element; none if the node was skipped.
    pub fn terms(&self) -> Option<&[f64]> {
        self.evaluated.as_ref().map(|evaluated| &evaluated.exact.terms[..])
    }

    /// The exact values; none if the node was skipped.
    pub fn exact(&self) -> Option<&[f64]> {
        self.evaluated.as_ref().map(|evaluated| &evaluated.exact.values[..])
    }

    /// Judges other values of this tensor, an engine's from the same inputs, in place of the reference's. `allowed` is what
    /// each element may be off beyond its budget, as the engine computes it by another way; empty for nothing.
    pub fn against(&self, values: Values<'_>, allowed: &[f64]) -> Option<NodeResult> {
        let evaluated = self.evaluated.as_ref()?;
        Some(judge::judge_values(self.result.clone(), self.node.ty, values, evaluated, allowed))
    }
}

impl<'a> Walk<'a> {
    /// A walk that stands in front of the first node. `gguf` is the model that the reference ran, whose SHA-256 is `sha256`.
    ///
    /// # Errors
    /// If the model is another or the dump is damaged.
    pub fn new(
        arithmetic: Arithmetic,
        gguf: &'a Gguf,
        sha256: &str,
        dump: &'a Dump,
    ) -> Result<Walk<'a>, ReplayError> {
        dump.verify()?;
        Walk::showing(arithmetic, gguf, sha256, dump, false)
    }

    /// The same for what an engine gives, which has only tensors with names: a node without one is shown by its views, and where
    /// it can be, a tensor is evaluated from those with names in front of it. The dump must have been verified.
    ///
    /// # Errors
    /// If the model is another.
    pub fn by_name(gguf: &'a Gguf, sha256: &str, dump: &'a Dump) -> Result<Walk<'a>, ReplayError> {
        Walk::showing(Arithmetic::default(), gguf, sha256, dump, true)
    }

    fn showing(
        arithmetic: Arithmetic,
        gguf: &'a Gguf,
        sha256: &str,
        dump: &'a Dump,
        by_name: bool,
    ) -> Result<Walk<'a>, ReplayError> {
        let model = &dump.manifest().model;
        if model.sha256 != sha256 {
            return Err(ReplayError::OtherModel {
                dump: dump.path().to_owned(),
                file: model.file.clone(),
                expected: model.sha256.clone(),
                got: sha256.to_owned(),
            });
        }
        let computed: Vec<&Node> =
            dump.nodes().iter().filter(|node| !node.is_pure_view() && !node.ne.contains(&0)).collect();
        let run = Run::of(dump, arithmetic)?;
        let results = if run.is_to_the_bit() { Results::new(dump, &computed) } else { Results::default() };
        Ok(Walk {
            operands: Operands { gguf, dump, by_name },
            run,
            results,
            caches: Caches::new(dump),
            views: held_views(dump, |root| {
                !dump.has_values(root)
                    || by_name && !root.is_named()
                    || snapshots::filled(dump, root).is_some()
            }),
            computed: computed.into_iter(),
            steps: 0,
        })
    }

    /// The same with other primitives in place of ggml-cpu's, where nodes are evaluated to the bit.
    #[must_use]
    pub fn with_primitives(mut self, primitives: &'static Primitives) -> Walk<'a> {
        self.run.primitives = primitives;
        self
    }

    /// The same with other oracles in place of [`ORACLES`](crate::ops::exact::ORACLES).
    #[must_use]
    pub fn with_oracles(mut self, oracles: &'static Oracles) -> Walk<'a> {
        self.run.oracles = oracles;
        self
    }

    /// The build in whose arithmetic nodes are evaluated; none for exact arithmetic.
    pub fn arithmetic(&self) -> Option<Isa> {
        self.run.isa()
    }

    /// Computed nodes that are still to come.
    pub fn remaining(&self) -> usize {
        self.computed.len()
    }

    /// The tensors that the next step judges; none at the end.
    pub fn next_shown(&self) -> Option<Vec<&'a Node>> {
        let node = *self.computed.as_slice().first()?;
        let mut shown = self.views.get(&node.id).cloned().unwrap_or_default();
        if self.operands.dump.has_values(node) && snapshots::filled(self.operands.dump, node).is_none() {
            shown.push(node);
        }
        Some(shown)
    }

    /// Evaluates the next computed node, and judges what the dump holds of it: nothing, the node, or views of it. None at the
    /// end.
    ///
    /// # Errors
    /// If the dump cannot be read.
    pub fn step(&mut self) -> Result<Option<Vec<Judged<'a>>>, ReplayError> {
        let Some(node) = self.computed.next() else { return Ok(None) };
        self.enter(node.step);
        let is_filled = snapshots::filled(self.operands.dump, node).is_none();
        let held = self.operands.dump.bytes(node)?.filter(|_| is_filled);
        let mut evaluated = self.evaluate(self.operands, node, held.as_deref())?;
        if self.operands.by_name && evaluated.is_err() {
            let operands = Operands { by_name: false, ..self.operands };
            evaluated = self.evaluate(operands, node, held.as_deref())?;
        }
        self.caches.write(node, held.as_deref(), evaluated.as_ref().ok());
        self.results.keep(node, evaluated.as_ref().ok());
        let views = self.views.get(&node.id).map_or(&[][..], Vec::as_slice);
        let mut judged = Vec::with_capacity(views.len() + 1);
        for &view in views {
            let Some(held) = self.operands.dump.bytes(view)? else { continue };
            let selected = evaluated.as_ref().map_err(Clone::clone).and_then(|e| e.select(node, view));
            judged.push(self.judge(node, view, &held, selected));
        }
        if let Some(held) = held {
            judged.push(self.judge(node, node, &held, evaluated));
        }
        Ok(Some(judged))
    }

    fn evaluate(
        &self,
        operands: Operands<'_>,
        node: &Node,
        held: Option<&[u8]>,
    ) -> Result<Result<Evaluated, String>, ReplayError> {
        let known = Known { caches: &self.caches, results: &self.results, run: &self.run };
        Ok(match operands.of(node, known)? {
            Err(missing) => Err(missing),
            Ok(sources) => snapshots::evaluated(operands.dump, node, &sources, held, &self.run),
        })
    }

    /// Does to the caches what was done to the memory before each step up to this one.
    fn enter(&mut self, step: u32) {
        let run = &self.operands.dump.manifest().run;
        let entered = run.ubatches.iter().take(step as usize + 1).skip(self.steps as usize);
        for change in entered.flat_map(|ubatch| &ubatch.before) {
            self.caches.change(change, run.kv_unified);
        }
        self.steps = step + 1;
    }

    fn judge(
        &self,
        computed: &Node,
        shown: &'a Node,
        held: &[u8],
        evaluated: Result<Evaluated, String>,
    ) -> Judged<'a> {
        let (op, types) = (judge::op_of(computed), self.operands.types(computed));
        let about = About { id: shown.id(), op, types, ty: shown.ty };
        match evaluated {
            Ok(e) => Judged { node: shown, result: judge::judge(about, held, &e), evaluated: Some(e) },
            Err(reason) => Judged { node: shown, result: judge::skipped(about, reason), evaluated: None },
        }
    }
}

/// The views that stand in for a computed node, by that node's number: `new_state` and `attn_output` for the unnamed result of
/// the delta net. What was written in place into the memory of another node is shown for the one that wrote.
fn held_views(dump: &Dump, is_shown_by_views: impl Fn(&Node) -> bool) -> HashMap<u32, Vec<&Node>> {
    let mut views: HashMap<u32, Vec<&Node>> = HashMap::new();
    for node in dump.nodes().iter().filter(|node| node.is_pure_view() && dump.has_values(node)) {
        if let Origin::Node(computed) = dump.computed_by(node)
            && dump.node(computed).is_some_and(&is_shown_by_views)
        {
            views.entry(computed).or_default().push(node);
        }
    }
    views
}
