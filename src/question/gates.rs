//! `gates`: are alpha and beta activated before they gate the delta net?
//!
//! What is unknown: whether the projections are the gates themselves.
//! Why it matters: an engine's operator may take either; raw ones in place of activated ones are another recurrence altogether.
//! Candidates: `activated` gate = a softplus(alpha + dt), beta = sigmoid(beta); `raw_alpha` gate = alpha; `raw_beta` beta = beta;
//! `raw` both.
//! Evidence: alpha, `ssm_dt.bias` and `ssm_a`; the gate. Beta; what the recurrence takes. Each is explained by two candidates, both
//! together by one.
//! What cannot tell them apart: a dump in which one of the two has no name.

use super::asking::{Held, Probe, Site, those_held};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::{Tracked, sigmoid, softplus};

const CANDIDATES: &[Candidate] = &[
    candidate("activated", "a softplus(alpha + dt), sigmoid(beta)"),
    candidate("raw_alpha", "alpha, sigmoid(beta)"),
    candidate("raw_beta", "a softplus(alpha + dt), beta"),
    candidate("raw", "alpha, beta"),
];

pub(super) const QUESTION: Question = Question {
    name: "gates",
    asks: "are alpha and beta activated before they gate the delta net?",
    candidates: CANDIDATES,
    separated_by: "a dump that holds alpha, beta and both gates",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::DeltaNet)?;
    let (dt, a) = (site.vector("ssm_dt.bias")?, site.vector("ssm_a")?);
    let gate = |gate: Held| {
        let alpha = site.tensor("alpha")?.rows(a.len())?;
        site.trial(&QUESTION, "gate", gate, |candidate| {
            let is_raw = matches!(candidate, "raw_alpha" | "raw");
            let of = |(i, &alpha): (usize, &Tracked)| {
                let head = i % a.len();
                if is_raw { alpha } else { softplus(alpha + dt[head]) * a[head] }
            };
            Ok(Some(alpha.iter().enumerate().map(of).collect()))
        })
    };
    let beta = |gate: Held| {
        let beta = site.tensor("beta")?.array();
        site.trial(&QUESTION, "beta", gate, |candidate| {
            let is_raw = matches!(candidate, "raw_beta" | "raw");
            Ok(Some(beta.iter().map(|&beta| if is_raw { beta } else { sigmoid(beta) }).collect()))
        })
    };
    those_held([site.tensor("gate").and_then(gate), site.beta().and_then(beta)])
}
