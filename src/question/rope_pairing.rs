//! `rope_pairing`: which elements of q and k rotate together?
//!
//! What is unknown: an element turns with its neighbour, or with the one half of the rotated part away.
//! Why it matters: files of some models are permuted so that the other one is right; both give vectors of the same length.
//! Candidates: `half` (i, i + n_rot / 2); `adjacent` (2 i, 2 i + 1).
//! Evidence: q and k in front of the rotation and behind it.
//! What cannot tell them apart: position 0, where nothing turns, or a rotated part of two elements.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::{Rope, RopePairing};

const CANDIDATES: &[Candidate] =
    &[candidate("half", "(i, i + n_rot / 2)"), candidate("adjacent", "(2 i, 2 i + 1)")];

pub(super) const QUESTION: Question = Question {
    name: "rope_pairing",
    asks: "which elements of q and k rotate together?",
    candidates: CANDIDATES,
    separated_by: "a token behind the first",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.rotations(&QUESTION, |candidate, rope| Rope {
        pairing: if candidate == "half" { RopePairing::Half } else { RopePairing::Adjacent },
        ..rope
    })
}
