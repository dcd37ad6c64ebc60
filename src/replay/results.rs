//! Results that the dump does not hold, of nodes that were evaluated to the bit: they are what the reference had, and what follows is
//! evaluated from them. One is kept until the last node that takes it.

use std::collections::HashMap;

use super::evaluate::Evaluated;
use crate::dump::{Dump, Node, Origin};

/// The results that are still to be taken, by node.
#[derive(Default)]
pub(super) struct Results {
    kept: HashMap<u32, Evaluated>,
    /// For each node whose result is not held, the last one that takes it.
    last_taken_by: HashMap<u32, u32>,
}

impl Results {
    /// None yet, of nodes that are evaluated in this order.
    pub(super) fn new(dump: &Dump, nodes: &[&Node]) -> Results {
        let mut last_taken_by = HashMap::new();
        for node in nodes {
            for source in node.sources.iter().flatten() {
                if let Origin::Node(id) = source.from
                    && let Some(shown) = dump.node(id)
                    && let Origin::Node(computed) = dump.computed_by(shown)
                    && dump.node(computed).is_some_and(|computed| !dump.has_values(computed))
                {
                    last_taken_by.insert(computed, node.id);
                }
            }
        }
        Results { kept: HashMap::new(), last_taken_by }
    }

    /// The result of a node.
    pub(super) fn of(&self, computed: u32) -> Option<&Evaluated> {
        self.kept.get(&computed)
    }

    /// Keeps what was evaluated of a node if another takes it, and lets go of what no other takes.
    pub(super) fn keep(&mut self, node: &Node, evaluated: Option<&Evaluated>) {
        if self.last_taken_by.contains_key(&node.id)
            && let Some(evaluated) = evaluated
        {
            self.kept.insert(node.id, evaluated.clone());
        }
        self.kept.retain(|computed, _| self.last_taken_by.get(computed) != Some(&node.id));
    }
}
