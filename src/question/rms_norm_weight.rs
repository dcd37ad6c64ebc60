//! `rms_norm_weight`: how is a norm's weight applied?
//!
//! What is unknown: some models are trained with weights around 0 that 1 is added to; converters may have added it already.
//! Why it matters: twice or never the 1 is a factor on every activation, which the next norm hides.
//! Candidates: `plain` w x; `one_plus` (1 + w) x.
//! Evidence: a norm, its weight and what comes of both. The delta net's own is another question (`ssm_norm_gate`).
//! What cannot tell them apart: activations of zero.

use super::asking::{Probe, Site, packed, those_held, weighted};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::{Number, Tracked};

const CANDIDATES: &[Candidate] = &[candidate("plain", "w x"), candidate("one_plus", "(1 + w) x")];

pub(super) const QUESTION: Question = Question {
    name: "rms_norm_weight",
    asks: "how is a norm's weight applied?",
    candidates: CANDIDATES,
    separated_by: "activations that are not zero",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    those_held(site.norms().iter().map(|norm| {
        let normed = norm.normed(site)?;
        let (result, weight) = (norm.weighted(site, &normed)?, site.vector(norm.weight)?);
        let x = normed.rows(weight.len())?;
        site.trial(&QUESTION, norm.name(), result, |candidate| {
            let factor = |&w: &Tracked| if candidate == "plain" { w } else { Tracked::ONE + w };
            let weight: Vec<Tracked> = weight.iter().map(factor).collect();
            Ok(Some(packed(weighted(x.clone(), &weight))))
        })
    }))
}
