//! `conv_activation`: what does the convolution's output go through?
//!
//! What is unknown: the function between the convolution and the split into q, k and v.
//! Why it matters: q and k are normalised behind it, so that a wrong one still gives vectors of the right length.
//! Candidates: `silu` x / (1 + exp(-x)); `sigmoid` 1 / (1 + exp(-x)); `none`.
//! Evidence: what the convolution gives; the activated.
//! What cannot tell them apart: nothing; a sum of 0 already tells sigmoid, any other all three.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::{Tracked, sigmoid, silu};

const CANDIDATES: &[Candidate] = &[
    candidate("silu", "x / (1 + exp(-x))"),
    candidate("sigmoid", "1 / (1 + exp(-x))"),
    candidate("none", "x"),
];

pub(super) const QUESTION: Question = Question {
    name: "conv_activation",
    asks: "what does the convolution's output go through?",
    candidates: CANDIDATES,
    separated_by: "a convolution whose output is not zero",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::DeltaNet)?;
    let raw = site.tensor("conv_output_raw")?.array();
    site.only(&QUESTION, "conv_output_silu", site.tensor("conv_output_silu")?, |candidate| {
        let activation: fn(Tracked) -> Tracked = match candidate {
            "silu" => silu,
            "sigmoid" => sigmoid,
            _ => |x| x,
        };
        Ok(Some(raw.iter().copied().map(activation).collect()))
    })
}
