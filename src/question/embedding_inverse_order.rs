//! `embedding_inverse_order`: what does a row of a rotated embedding table go through?
//!
//! What is unknown: whether a row meets the Hadamard transform and signs behind the lookup, and in which order.
//! Why it matters: the inverse has the opposite order of what is in front of products; a wrong one spoils the residual stream from
//! its first token on.
//! Candidates: `wht_then_signs`, `signs_then_wht`, `wht_only`, `signs_only`, `none`.
//! Evidence: the tokens of a step, the table, and the tensor that the lookup made.
//! What cannot tell them apart: signs that are all +1, or rows of zeros.

use super::asking::{Probe, Site};
use super::fold_order::order;
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::Transform;

const CANDIDATES: &[Candidate] = &[
    candidate("wht_then_signs", "s . H row"),
    candidate("signs_then_wht", "H (s . row)"),
    candidate("wht_only", "H row"),
    candidate("signs_only", "s . row"),
    candidate("none", "row"),
];

pub(super) const QUESTION: Question = Question {
    name: "embedding_inverse_order",
    asks: "what does a row of a rotated embedding table go through?",
    candidates: CANDIDATES,
    separated_by: "signs of both kinds and rows that are not zero",
    probe: Probe::FOLDED,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let trial = site.folded_lookup(&QUESTION, |candidate, transform| {
        Some(Transform { order: order(candidate), ..transform })
    })?;
    Ok(vec![trial])
}
