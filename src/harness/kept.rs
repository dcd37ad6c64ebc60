//! States that an engine keeps in a reseeded run, and what is computed from them.

use std::collections::HashSet;

use crate::dump::{Dump, Node, Origin};

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
    pub(super) fn is(self, node: &Node) -> bool {
        let id = node.id();
        match self {
            StateKind::Conv => matches!(id.kind(), "conv_states" | "conv_input"),
            StateKind::Recurrent => {
                // A result with a name holds outputs and states; the outputs are given once more as a view of it.
                node.op == "GATED_DELTA_NET"
                    || matches!(id.kind(), "state_predelta" | "dnet_add_ch_state" | "new_state")
            }
            StateKind::Kv => {
                (id.kind() == "Kcur" && node.op == "ROPE") || (id.kind() == "Vcur" && node.op == "MUL_MAT")
            }
        }
    }

    /// Whether a cache of the reference holds it (llama-kv-cache.cpp, llama-memory-recurrent.cpp).
    fn is_in(self, cache: &str) -> bool {
        let prefixes: &[&str] = match self {
            StateKind::Conv => &["cache_r_l"],
            StateKind::Recurrent => &["cache_s_l"],
            StateKind::Kv => &["cache_k_l", "cache_v_l"],
        };
        prefixes.iter().any(|prefix| cache.starts_with(prefix))
    }
}

/// Whether an engine computes a tensor from a state that it keeps, so not from the reference's inputs.
pub(super) fn is_carried(dump: &Dump, keep: &[StateKind], node: &Node) -> bool {
    let is_kept = |from| match from {
        Origin::Leaf(id) => {
            dump.leaf(id).is_some_and(|leaf| keep.iter().any(|state| state.is_in(&leaf.name)))
        }
        Origin::Node(id) => dump.node(id).is_some_and(|node| keep.iter().any(|state| state.is(node))),
    };
    !keep.is_empty() && reads(dump, node, &is_kept)
}

/// Whether a node reads something for which `is_it` holds, directly or through nodes without a name, which no engine emits.
pub(super) fn reads(dump: &Dump, node: &Node, is_it: &dyn Fn(Origin) -> bool) -> bool {
    let (mut readers, mut seen) = (vec![node], HashSet::new());
    while let Some(reader) = readers.pop() {
        for source in reader.sources.iter().flatten() {
            if is_it(source.from) {
                return true;
            }
            if let Origin::Node(id) = source.from
                && seen.insert(id)
            {
                readers.extend(dump.node(id).filter(|source| !source.is_named()));
            }
        }
    }
    false
}
