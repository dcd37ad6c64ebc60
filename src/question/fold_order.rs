//! `fold_order`: what does an activation go through in front of a folded weight?
//!
//! What is unknown: whether the activation meets signs and the Hadamard transform, and in which order.
//! Why it matters: the file says that a weight is folded and not how; a wrong order gives a product without any likeness.
//! Candidates: `signs_then_wht`, `wht_then_signs`, `wht_only`, `signs_only`, `none`.
//! Evidence: every product with a folded weight: the tensor in front, the weight, the tensor behind. One answer for each kind of
//! weight.
//! What cannot tell them apart: signs that are all +1, or activations of zero.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::{FoldOrder, Transform};

const CANDIDATES: &[Candidate] = &[
    candidate("signs_then_wht", "W H (s . x)"),
    candidate("wht_then_signs", "W (s . H x)"),
    candidate("wht_only", "W H x"),
    candidate("signs_only", "W (s . x)"),
    candidate("none", "W x"),
];

pub(super) const QUESTION: Question = Question {
    name: "fold_order",
    asks: "what does an activation go through in front of a folded weight?",
    candidates: CANDIDATES,
    separated_by: "signs of both kinds and activations that are not zero",
    probe: Probe::FOLDED,
    look,
    also: nothing_else,
};

/// The order that a candidate of this question or of `embedding_inverse_order` stands for.
pub(super) fn order(candidate: &str) -> FoldOrder {
    match candidate {
        "signs_then_wht" => FoldOrder::SignsThenWht,
        "wht_then_signs" => FoldOrder::WhtThenSigns,
        "wht_only" => FoldOrder::WhtOnly,
        "signs_only" => FoldOrder::SignsOnly,
        _ => FoldOrder::None,
    }
}

fn look(site: &Site<'_>) -> Looked {
    site.folded_products(
        &QUESTION,
        |_| true,
        |candidate, transform| Some(Transform { order: order(candidate), ..transform }),
    )
}
