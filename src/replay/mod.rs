//! Re-executing the graph of a dump: every node is evaluated in f64 from the reference's own inputs, and what the reference
//! computed is compared with that. It works for any architecture whose operators have an oracle.
//!
//! Caches (keys, values, states) are leaves without values in a dump. They start as zeros, as llama.cpp clears them, and are
//! followed through the nodes that write to them.

mod caches;
mod error;
mod judge;
mod operands;

pub use error::ReplayError;
pub use judge::{NodeResult, Outcome};

pub use crate::ops::exact::Rounding;

use std::collections::HashMap;

use crate::dump::{Dump, Node, Origin};
use crate::gguf::Gguf;
use crate::ops::exact::{Exact, Invocation, Operand, Setting, oracle};

use self::caches::Caches;
use self::judge::About;
use self::operands::Operands;

/// Called with nodes replayed so far and in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// What replaying a dump gave.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Replay {
    /// One result per node whose values the dump holds, in evaluation order.
    pub results: Vec<NodeResult>,
    /// Computed nodes whose values the dump does not hold: nothing can be said of them.
    pub not_held: u64,
}

/// The counts of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplaySummary {
    /// Nodes that were compared.
    pub compared: u64,
    /// Of those, within their budget.
    pub within: u64,
    /// Of those, over it.
    pub over: u64,
    /// Of those, with a value that is not finite where the exact one is.
    pub nonfinite: u64,
    /// Nodes that could not be evaluated.
    pub skipped: u64,
}

impl Replay {
    /// The counts.
    pub fn summary(&self) -> ReplaySummary {
        let mut s = ReplaySummary::default();
        for result in &self.results {
            match result.outcome {
                Outcome::Within => s.within += 1,
                Outcome::Over => s.over += 1,
                Outcome::NonFinite => s.nonfinite += 1,
                Outcome::Skipped(_) => s.skipped += 1,
            }
        }
        s.compared = s.within + s.over + s.nonfinite;
        s
    }

    /// Whether something was compared and everything compared is within its budget.
    pub fn is_pass(&self) -> bool {
        let s = self.summary();
        s.compared > 0 && s.within == s.compared
    }
}

impl std::ops::AddAssign for ReplaySummary {
    /// Joins the counts of two replays.
    fn add_assign(&mut self, other: ReplaySummary) {
        self.compared += other.compared;
        self.within += other.within;
        self.over += other.over;
        self.nonfinite += other.nonfinite;
        self.skipped += other.skipped;
    }
}

impl ReplaySummary {
    /// The part of the held nodes that were compared, 0 to 1; 0 if there are none.
    pub fn coverage(&self) -> f64 {
        let all = self.compared + self.skipped;
        if all == 0 { 0.0 } else { self.compared as f64 / all as f64 }
    }
}

/// Replays every node of a dump. `gguf` is the model that the reference ran, whose SHA-256 is `sha256`.
///
/// # Errors
/// If the model is another or the dump is damaged.
pub fn replay(gguf: &Gguf, sha256: &str, dump: &Dump, progress: Progress<'_>) -> Result<Replay, ReplayError> {
    let model = &dump.manifest().model;
    if model.sha256 != sha256 {
        return Err(ReplayError::OtherModel {
            dump: dump.path().to_owned(),
            file: model.file.clone(),
            expected: model.sha256.clone(),
            got: sha256.to_owned(),
        });
    }
    dump.verify()?;
    let operands = Operands { gguf, dump };
    let setting = setting_of(dump);
    let mut caches = Caches::new(dump);
    let mut replay = Replay::default();
    let views = held_views(dump);
    let computed: Vec<&Node> =
        dump.nodes().iter().filter(|node| !node.is_pure_view() && !node.ne.contains(&0)).collect();
    for (done, node) in computed.iter().enumerate() {
        progress(done as u64, computed.len() as u64);
        let views = views.get(&node.id).map_or(&[][..], Vec::as_slice);
        one(node, views, &operands, &setting, &mut caches, &mut replay)?;
    }
    Ok(replay)
}

/// The views that stand in for a computed node which the dump does not hold itself, by that node's number: `new_state` and
/// `attn_output` for the unnamed result of the delta net.
fn held_views(dump: &Dump) -> HashMap<u32, Vec<&Node>> {
    let mut views: HashMap<u32, Vec<&Node>> = HashMap::new();
    for node in dump.nodes().iter().filter(|node| node.is_pure_view() && dump.has_values(node)) {
        match node.view_of.as_ref().map(|view| view.root) {
            Some(Origin::Node(root)) if dump.node(root).is_some_and(|root| !dump.has_values(root)) => {
                views.entry(root).or_default().push(node);
            }
            _ => {}
        }
    }
    views
}

fn one(
    node: &Node,
    views: &[&Node],
    operands: &Operands<'_>,
    setting: &Setting,
    caches: &mut Caches<'_>,
    replay: &mut Replay,
) -> Result<(), ReplayError> {
    let held = operands.dump.bytes(node)?;
    let evaluated = match operands.of(node, caches)? {
        Err(missing) => Err(missing),
        Ok(sources) => evaluate(node, &sources, held.as_deref(), setting),
    };
    caches.write(node, held.as_deref(), evaluated.as_ref().ok().map(|e| &e.exact));
    let result = |shown: &Node, held: &[u8], evaluated: &Result<Evaluated, String>| {
        let about =
            About { id: shown.id(), op: judge::op_of(node), types: operands.types(node), ty: shown.ty };
        match evaluated {
            Ok(e) => judge::judge(about, held, &e.exact, e.rounding),
            Err(reason) => judge::skipped(about, reason.clone()),
        }
    };
    if let Some(held) = held {
        replay.results.push(result(node, &held, &evaluated));
    } else if views.is_empty() {
        replay.not_held += 1;
    }
    for view in views {
        let Some(held) = operands.dump.bytes(view)? else { continue };
        let selected = evaluated.as_ref().map_err(Clone::clone).and_then(|e| e.select(node, view));
        replay.results.push(result(view, &held, &selected));
    }
    Ok(())
}

/// The exact result of a node, and the rounding on purpose that it was computed with.
struct Evaluated {
    exact: Exact,
    rounding: Rounding,
}

impl Evaluated {
    /// The part that a view of the node shows.
    fn select(&self, node: &Node, view: &Node) -> Result<Evaluated, String> {
        Ok(Evaluated { exact: judge::select(&self.exact, node, view)?, rounding: self.rounding })
    }
}

/// Evaluates a node with each rounding that the reference may have used, and keeps the first that explains what the dump
/// holds; if none does, the one that comes nearest.
fn evaluate(
    node: &Node,
    sources: &[Option<Operand<'_>>],
    held: Option<&[u8]>,
    setting: &Setting,
) -> Result<Evaluated, String> {
    let (variant, params) = (node.variant.as_deref(), &node.params[..]);
    let invocation = Invocation { op: &node.op, variant, params, ne: node.ne, sources };
    let oracle = oracle(&invocation).map_err(|error| error.to_string())?;
    let mut nearest: Option<(f64, Evaluated)> = None;
    for rounding in oracle.roundings(&invocation, setting) {
        let exact = oracle.exact_with(&invocation, rounding).map_err(|error| error.to_string())?;
        let share = held.map_or(0.0, |held| judge::share(node.ty, held, &exact));
        if nearest.as_ref().is_none_or(|(so_far, _)| share < *so_far) {
            nearest = Some((share, Evaluated { exact, rounding }));
        }
        if share <= 1.0 {
            break;
        }
    }
    nearest
        .map(|(_, evaluated)| evaluated)
        .ok_or_else(|| format!("operator {}: no rounding is possible", node.op))
}

/// How the run that a dump tells of was set.
fn setting_of(dump: &Dump) -> Setting {
    let manifest = dump.manifest();
    Setting {
        backend: manifest.producer.backend.clone(),
        n_threads: manifest.run.n_threads,
        repack: manifest.run.repack,
    }
}
