//! What a dump's graph says of the tree of llama.cpp that made it: how it shows what it computes, and which rule it follows where
//! trees compute something else.
//!
//! What the graph does not tell is taken to be as in the pinned tree, so that an engine that has too much or too little is found out.

use std::collections::HashSet;

use crate::dump::{Dump, Node, Origin};
use crate::engine::{Dialect, OutputRows};

/// How the graph shows what it computes.
pub(super) fn dialect(dump: &Dump) -> Dialect {
    let ids: Vec<_> = dump.nodes().iter().filter(|node| node.is_named()).map(Node::id).collect();
    let kinds: HashSet<&str> = ids.iter().map(|id| id.kind()).collect();
    let known = || Dialect::ALL.iter();
    let pinned = Dialect::PINNED;
    let operator = dump.nodes().iter().find(|node| node.op == "GATED_DELTA_NET");
    let beta = operator.and_then(|node| source(dump, node, BETA));
    let last_norm = dump.nodes().iter().find(|node| node.name == "result_norm");
    Dialect {
        conv_state_last: known()
            .map(|dialect| dialect.conv_state_last)
            .find(|&name| kinds.contains(name))
            .unwrap_or(pinned.conv_state_last),
        beta_sigmoid: match beta.is_some_and(|beta| !beta.is_named()) {
            true => None,
            false => known()
                .filter_map(|dialect| dialect.beta_sigmoid)
                .find(|&name| kinds.contains(name))
                .or(pinned.beta_sigmoid),
        },
        gated_delta_net: known()
            .filter_map(|dialect| dialect.gated_delta_net)
            .find(|names| [names.one, names.more].iter().any(|&name| kinds.contains(name))),
        // The norm's weight comes last, or rows are picked out of the weighted ones.
        output_rows: match last_norm.is_some_and(|norm| norm.op == "MUL") {
            true => OutputRows::InLastLayer,
            false => pinned.output_rows,
        },
    }
}

/// The source of `GATED_DELTA_NET` that holds beta (`ggml_gated_delta_net`).
const BETA: usize = 4;

fn source<'d>(dump: &'d Dump, node: &Node, slot: usize) -> Option<&'d Node> {
    match node.sources.get(slot)?.as_ref()?.from {
        Origin::Node(id) if id < node.id => dump.node(id),
        _ => None,
    }
}

/// A convention in which the tree of a dump departs from the pinned one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The convention.
    pub convention: &'static str,
    /// Its candidate in that tree.
    pub candidate: &'static str,
    /// What the tree does.
    pub words: &'static str,
}

const MAX_NORM_EPS: Rule = Rule {
    convention: "qk_l2_norm",
    candidate: "max_norm_eps",
    words: "normalises q and k by max(norm, eps)",
};

/// The rules of the run of a dump that are not those of the pinned tree, as its graph says: an engine is to follow them, unless it is
/// told otherwise.
pub fn rules(dump: &Dump) -> Vec<Rule> {
    let is_normalised = |node: &&Node| matches!(node.id().kind(), "q_conv_predelta" | "k_conv_predelta");
    let mut norms =
        dump.nodes().iter().filter(is_normalised).map(|node| normalised_by(dump, node)).peekable();
    // Of a graph that does both, no candidate is right.
    let all_are = norms.peek().is_some() && norms.all(|norm| norm == Some("L2_NORM"));
    if all_are { vec![MAX_NORM_EPS] } else { Vec::new() }
}

/// The operator that normalises a tensor, which may be repeated, shown differently or scaled behind it.
fn normalised_by<'d>(dump: &'d Dump, node: &'d Node) -> Option<&'d str> {
    let mut node = node;
    loop {
        match node.op.as_str() {
            norm @ ("L2_NORM" | "RMS_NORM") => return Some(norm),
            "REPEAT" | "SCALE" => {}
            _ if node.is_pure_view() => {}
            _ => return None,
        }
        node = source(dump, node, 0)?;
    }
}
