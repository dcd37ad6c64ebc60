//! `gdn_route`: by which route is the recurrence of the delta net computed?
//!
//! What is unknown: whether tokens come one by one, or in chunks of 64 that are solved as a triangular system.
//! Why it matters: an engine may take either, for its speed; it is not a way to be wrong.
//! Candidates: `token_by_token`; `chunked`, which is the same by algebra (one token goes by its own graph, as in llama.cpp).
//! Evidence: q, k, v, gates and the state in front of the recurrence; the output and the state behind it.
//! What cannot tell them apart: everything here; only the names and roundings of the tensors in between do (docs/judging.md, and
//! `tests/unfused.rs`, which replays both).

use super::asking::{Probe, Rules, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] = &[
    candidate("token_by_token", "S <- exp(g) S + (v - exp(g) S k) beta k^T for each token"),
    Candidate {
        same_as: Some("token_by_token"),
        ..candidate("chunked", "the same, solved for 64 tokens at once")
    },
];

pub(super) const QUESTION: Question = Question {
    name: "gdn_route",
    asks: "by which route is the recurrence of the delta net computed?",
    candidates: CANDIDATES,
    separated_by: "the tensors in between; inputs and outputs are the same",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let net = site.delta_net()?;
    net.scored(site, &QUESTION, |candidate, result| match candidate {
        "token_by_token" => net.run(result, Rules::default()),
        _ => net.run_unfused(result, Rules::default()),
    })
}
