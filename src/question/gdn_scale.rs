//! `gdn_scale`: what is the factor on the delta net's output?
//!
//! What is unknown: which power of the head size, if any.
//! Why it matters: the norm behind it hides nearly all of a wrong factor, but for its epsilon (`ssm_norm_eps`).
//! Candidates: `inverse_sqrt` 1 / sqrt(d); `inverse` 1 / d; `one`.
//! Evidence: q, k, v, gates and the state in front of the recurrence; its output.
//! What cannot tell them apart: an output that is zero.

use super::asking::{Held, Probe, Rules, Site, Stop};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] =
    &[candidate("inverse_sqrt", "S q / sqrt(d)"), candidate("inverse", "S q / d"), candidate("one", "S q")];

pub(super) const QUESTION: Question = Question {
    name: "gdn_scale",
    asks: "what is the factor on the delta net's output?",
    candidates: CANDIDATES,
    separated_by: "an output that is not zero",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let net = site.delta_net()?;
    let is_output = |result: &&Held| result.id.kind() == "attn_output";
    let output = net.results.iter().find(is_output).ok_or(Stop::NotHeld("attn_output".to_owned()))?;
    site.only(&QUESTION, "attn_output", output.clone(), |candidate| {
        let scale: fn(f64) -> f64 = match candidate {
            "inverse_sqrt" => |d| 1.0 / d.sqrt(),
            "inverse" => |d| 1.0 / d,
            _ => |_| 1.0,
        };
        Ok(Some(net.run(output, Rules { scale, ..Rules::default() })))
    })
}
