//! `update_order`: does the delta net's state decay before it is corrected, or after?
//!
//! What is unknown: whether the new term decays with the rest.
//! Why it matters: each token is off by a factor near 1, which no width and no norm shows.
//! Candidates: `decay_first` S <- exp(g) S, then the update; `decay_last` the update, then S <- exp(g) S.
//! Evidence: q, k, v, gates and the state in front of the recurrence; the output and the state behind it.
//! What cannot tell them apart: gates of 0.

use super::asking::{Probe, Rules, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::DecayOrder;

const CANDIDATES: &[Candidate] =
    &[candidate("decay_first", "decay, predict, write"), candidate("decay_last", "predict, write, decay")];

pub(super) const QUESTION: Question = Question {
    name: "update_order",
    asks: "does the delta net's state decay before it is corrected, or after?",
    candidates: CANDIDATES,
    separated_by: "gates that are not 0",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let net = site.delta_net()?;
    net.scored(site, &QUESTION, |candidate, result| {
        let order = match candidate {
            "decay_first" => DecayOrder::BeforePrediction,
            _ => DecayOrder::AfterUpdate,
        };
        net.run(result, Rules { order, ..Rules::default() })
    })
}
