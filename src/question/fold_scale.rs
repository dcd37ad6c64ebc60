//! `fold_scale`: is the Hadamard transform scaled?
//!
//! What is unknown: whether the transform keeps lengths, or leaves out the factor.
//! Why it matters: without the factor every product is sqrt(block) times too large, and a norm behind it hides that.
//! Candidates: `normalized` H H = 1; `unscaled` H of ones, H H = block.
//! Evidence: every product with a folded weight: the tensor in front, the weight, the tensor behind; and the lookup of a rotated
//! table. One answer for each kind of weight.
//! What cannot tell them apart: activations of zero.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::Transform;

const CANDIDATES: &[Candidate] =
    &[candidate("normalized", "elements +-1 / sqrt(block)"), candidate("unscaled", "elements +-1")];

pub(super) const QUESTION: Question = Question {
    name: "fold_scale",
    asks: "is the Hadamard transform scaled?",
    candidates: CANDIDATES,
    separated_by: "activations that are not zero",
    probe: Probe::FOLDED,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.folded(&QUESTION, |candidate, transform| {
        Some(Transform { normalize: candidate == "normalized", ..transform })
    })
}
