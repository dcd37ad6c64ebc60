//! `ssm_norm_scope`: over what is the delta net's output normalised?
//!
//! What is unknown: whether each head is divided by its own root mean square, or all by one.
//! Why it matters: heads differ in size, and the projection behind mixes them.
//! Candidates: `per_head`; `global` over all heads of a token.
//! Evidence: the recurrence's output; the norm behind it, or where that has no name, what weight and gate make of it.
//! What cannot tell them apart: one head, or heads of equal root mean square.

use super::asking::{Probe, Site, normalised};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] = &[
    candidate("per_head", "o / sqrt(mean(o^2) + eps), mean over a head"),
    candidate("global", "the same, mean over all heads"),
];

pub(super) const QUESTION: Question = Question {
    name: "ssm_norm_scope",
    asks: "over what is the delta net's output normalised?",
    candidates: CANDIDATES,
    separated_by: "more than one head",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let norm = site.gated_norm()?;
    let eps = site.hparams().f_norm_rms_eps.into();
    let (n_tokens, n_v, d) = norm.o.dim();
    site.only(&QUESTION, norm.result.id.kind(), norm.result.clone(), |candidate| {
        let width = if candidate == "per_head" { d } else { n_v * d };
        let shaped = |o: ndarray::Array3<_>, shape| o.into_shape_with_order(shape).expect("packed");
        let rows = shaped(norm.o.clone(), (n_tokens, n_v * d / width, width));
        Ok(Some(norm.result_of(shaped(normalised(rows, eps), (n_tokens, n_v, d)))))
    })
}
