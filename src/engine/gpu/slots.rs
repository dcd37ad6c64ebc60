//! Which slot of the delta nets' states belongs to which sequence.

use std::collections::{BTreeMap, VecDeque};

/// Which slot holds which state; the same in all layers.
#[derive(Default)]
pub(super) struct Slots {
    /// By sequence: the state now, then earlier ones, newest first.
    pub(super) of: BTreeMap<i32, VecDeque<usize>>,
    pub(super) free: Vec<usize>,
    /// Slots that are free once the step that runs has ended: its layers still read what is in them.
    pub(super) gone: Vec<usize>,
    /// Slots that there are.
    pub(super) n: usize,
    /// Which of the two places of a slot holds its columns.
    pub(super) odd: Vec<bool>,
}

/// Where a state lies: its columns, and the recurrent state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StateAt {
    pub(super) conv: usize,
    pub(super) s: usize,
}

/// The states of one sequence in a step.
pub(super) struct SequenceSlots {
    /// In front of the step.
    pub(super) before: StateAt,
    /// Behind each token whose state is kept, the last one's last; empty where no earlier states are kept.
    pub(super) kept: Vec<StateAt>,
    /// Where the columns behind the step go then; the recurrent state moves on in place.
    pub(super) conv_after: usize,
}

impl Slots {
    pub(super) fn at(&self, slot: usize) -> StateAt {
        StateAt { conv: 2 * slot + usize::from(self.odd[slot]), s: slot }
    }

    pub(super) fn forget(&mut self, sequence: i32) {
        self.free.extend(self.of.remove(&sequence).unwrap_or_default());
    }

    /// Goes back by `n` tokens; the caller has seen to it that there are as many states.
    pub(super) fn back(&mut self, sequence: i32, n: usize) {
        if let Some(slots) = self.of.get_mut(&sequence) {
            self.free.extend(slots.drain(..n.min(slots.len() - 1)));
        }
    }
}
