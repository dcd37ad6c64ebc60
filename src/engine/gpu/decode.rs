//! The step that is recorded: one token of each sequence.

use super::forward::Tensor;
use super::tokens::Tokens;
use super::{Buffer, Recording};

/// What a recorded step was recorded for.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct DecodeKey {
    /// The streams in the order of the ubatch: each has a cache of its own.
    pub(super) streams: Vec<i32>,
    /// With more slots, states lie elsewhere.
    pub(super) n_slots: usize,
}

/// A step of one token for each sequence, which launches the same at every position.
pub(super) struct Decode {
    pub(super) key: DecodeKey,
    /// The launches, and where they leave the logits; none until it comes for the second time.
    pub(super) recorded: Option<(Recording, Tensor)>,
    /// What the launches read of a step.
    pub(super) ints: Option<Buffer<i32>>,
}

impl Decode {
    pub(super) fn first(key: DecodeKey) -> Decode {
        Decode { key, recorded: None, ints: None }
    }

    pub(super) fn take_ints(&mut self) -> Option<Buffer<i32>> {
        self.ints.take()
    }

    pub(super) fn give_ints(&mut self, tokens: Tokens) {
        self.ints = Some(tokens.into_ints());
    }
}
