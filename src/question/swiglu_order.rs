//! `swiglu_order`: which half of the feed-forward net goes through silu?
//!
//! What is unknown: two projections of one activation are multiplied, one of them behind silu.
//! Why it matters: the two have the same sizes, and their names are those that a converter gave.
//! Candidates: `gate_activated` silu(gate) up; `up_activated` silu(up) gate.
//! Evidence: both projections and their product.
//! What cannot tell them apart: projections that are equal or zero.

use super::asking::{Probe, Site, Stop, swiglu};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] =
    &[candidate("gate_activated", "silu(gate) up"), candidate("up_activated", "silu(up) gate")];

pub(super) const QUESTION: Question = Question {
    name: "swiglu_order",
    asks: "which half of the feed-forward net goes through silu?",
    candidates: CANDIDATES,
    separated_by: "projections that differ",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.layer.ok_or(Stop::Elsewhere)?;
    let (gate, up) = (site.tensor("ffn_gate")?, site.tensor("ffn_up")?);
    site.only(&QUESTION, "ffn_swiglu", site.tensor("ffn_swiglu")?, |candidate| {
        let (activated, other) = if candidate == "gate_activated" { (&gate, &up) } else { (&up, &gate) };
        Ok(Some(swiglu(activated, other)?))
    })
}
