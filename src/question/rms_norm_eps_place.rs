//! `rms_norm_eps_place`: where does the epsilon of a norm go?
//!
//! What is unknown: a small number keeps a norm from dividing by zero; whether it is added under the root, to the root, to the sum
//! of squares, or bounds the root.
//! Why it matters: it does not while mean squares are about 1; small activations come out by factors too large or too small.
//! Candidates: `inside_root`, `outside_root`, `max`, `on_sum`, `none`.
//! Evidence: what goes into a norm, and the norm without its weight.
//! What cannot tell them apart: mean squares much larger than the epsilon, as rounding then hides it.

use super::asking::{Probe, Site, packed, those_held};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::scale_rows;

const CANDIDATES: &[Candidate] = &[
    candidate("inside_root", "x / sqrt(mean + eps)"),
    candidate("outside_root", "x / (sqrt(mean) + eps)"),
    candidate("max", "x / max(sqrt(mean), eps)"),
    candidate("on_sum", "x / sqrt((sum + eps) / n)"),
    candidate("none", "x / sqrt(mean)"),
];

pub(super) const QUESTION: Question = Question {
    name: "rms_norm_eps_place",
    asks: "where does the epsilon of a norm go?",
    candidates: CANDIDATES,
    separated_by: "activations whose mean square is near the epsilon, or a large epsilon",
    probe: Probe {
        eps: Some(4.0),
        because: "an epsilon of 4 beside mean squares of about 1: each place for it gives another factor",
        ..Probe::PLAIN
    },
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let eps = f64::from(site.hparams().f_norm_rms_eps);
    those_held(site.norms().iter().map(|norm| {
        let (normed, x) = (norm.normed(site)?, norm.input(site)?);
        let x = x.rows(normed.shape[3])?;
        site.trial(&QUESTION, norm.name(), normed, |candidate| {
            let mut x = x.clone();
            scale_rows(&mut x, |sum, n| match (candidate, sum / n) {
                ("inside_root", mean) => 1.0 / (mean + eps).sqrt(),
                ("outside_root", mean) => 1.0 / (mean.sqrt() + eps),
                ("max", mean) => 1.0 / mean.sqrt().max(eps),
                ("on_sum", _) => 1.0 / ((sum + eps) / n).sqrt(),
                (_, mean) => 1.0 / mean.sqrt(),
            });
            Ok(Some(packed(x)))
        })
    }))
}
