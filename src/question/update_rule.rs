//! `update_rule`: what does the delta net write into its state?
//!
//! What is unknown: whether what the state already predicts for the key is taken off first.
//! Why it matters: without that it is linear attention: a repeated key adds up instead of overwriting.
//! Candidates: `delta` S <- S + (v - S k) beta k^T; `linear` S <- S + v beta k^T.
//! Evidence: q, k, v, gates and the state in front of the recurrence; the output and the state behind it.
//! What cannot tell them apart: one token from an empty state: it predicts nothing.

use super::asking::{Probe, Rules, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::DeltaRule;

const CANDIDATES: &[Candidate] =
    &[candidate("delta", "S <- S + (v - S k) beta k^T"), candidate("linear", "S <- S + v beta k^T")];

pub(super) const QUESTION: Question = Question {
    name: "update_rule",
    asks: "what does the delta net write into its state?",
    candidates: CANDIDATES,
    separated_by: "more than one token",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let net = site.delta_net()?;
    net.scored(site, &QUESTION, |candidate, result| {
        let rule = match candidate {
            "delta" => DeltaRule::Delta,
            _ => DeltaRule::Linear,
        };
        net.run(result, Rules { rule, ..Rules::default() })
    })
}
