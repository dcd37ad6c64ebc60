//! `qgate_split`: how does `attn_q` hold queries and gates?
//!
//! What is unknown: one matrix gives queries and gates; whether they take turns by head, or all queries come first.
//! Why it matters: the sizes are the same, and a gate taken for a query is a plausible number.
//! Candidates: `per_head` each head's query, then its gate; `halves` all queries, then all gates.
//! Evidence: the product, and what was taken out of it as queries and as gates: moved values, equal to the last bit.
//! What cannot tell them apart: a single head.

use super::asking::{Held, Probe, Site, those_held};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::Tracked;

const CANDIDATES: &[Candidate] = &[
    candidate("per_head", "head h: query at 2 h d, gate at (2 h + 1) d"),
    candidate("halves", "head h: query at h d, gate at (n_head + h) d"),
];

pub(super) const QUESTION: Question = Question {
    name: "qgate_split",
    asks: "how does `attn_q` hold queries and gates?",
    candidates: CANDIDATES,
    separated_by: "a model with more than one head of attention",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::Attention)?;
    let (n_head, d) = (site.hparams().n_head, site.hparams().n_embd_head);
    let full = site.tensor("Qcur_full")?.rows(2 * n_head * d)?;
    let trial = |(kind, part): (&str, usize)| {
        let taken: Held = site.tensor(kind)?;
        site.trial(&QUESTION, kind, taken, |candidate| {
            let start = |head| match candidate {
                "per_head" => (2 * head + part) * d,
                _ => (part * n_head + head) * d,
            };
            let of_token =
                |t| (0..n_head).flat_map(move |head| (start(head)..start(head) + d).map(move |i| [t, i]));
            let taken: Vec<Tracked> = (0..full.nrows()).flat_map(of_token).map(|at| full[at]).collect();
            Ok(Some(taken))
        })
    };
    those_held([("Qcur_reshaped", 0), ("gate_reshaped", 1)].map(trial))
}
