//! `state_layout`: which index of the delta net's state lies closest in memory?
//!
//! What is unknown: whether the rows of the stored state belong to values or to keys; both are as many.
//! Why it matters: the square fits either way, and a state that is handed on wrongly is only wrong from the second step on.
//! Candidates: `v_major` S[v][k]; `k_major` S[k][v].
//! Evidence: q, k, v, gates and the state in front of the recurrence; the output and the state behind it. From an empty state the one
//! behind the first token is beta v k^T, or its transpose.
//! What cannot tell them apart: without the state behind, one step from an empty state.

use super::asking::{Probe, Rules, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] =
    &[candidate("v_major", "S[v][k], keys closest"), candidate("k_major", "S[k][v], values closest")];

pub(super) const QUESTION: Question = Question {
    name: "state_layout",
    asks: "which index of the delta net's state lies closest in memory?",
    candidates: CANDIDATES,
    separated_by: "the state behind a step, or two steps",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let net = site.delta_net()?;
    net.scored(site, &QUESTION, |candidate, result| {
        net.run(result, Rules { is_k_major: candidate == "k_major", ..Rules::default() })
    })
}
