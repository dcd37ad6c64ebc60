//! `ssm_norm_gate`: how does z gate the delta net's output?
//!
//! What is unknown: whether the gate comes behind the norm or in front, and what z goes through.
//! Why it matters: models of this kind are found with either order, and the widths are the same.
//! Candidates: `norm_then_silu` rms_norm(o) w silu(z); `gate_first` rms_norm(o silu(z)) w; `norm_then_sigmoid` rms_norm(o) w sigmoid(z).
//! Evidence: the recurrence's output, `ssm_norm.weight`, z; `final_output`.
//! What cannot tell them apart: an output that is zero.

use super::asking::{Probe, Site, normalised, packed, weighted};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::{sigmoid, silu};

const CANDIDATES: &[Candidate] = &[
    candidate("norm_then_silu", "rms_norm(o) w silu(z)"),
    candidate("gate_first", "rms_norm(o silu(z)) w"),
    candidate("norm_then_sigmoid", "rms_norm(o) w sigmoid(z)"),
];

pub(super) const QUESTION: Question = Question {
    name: "ssm_norm_gate",
    asks: "how does z gate the delta net's output?",
    candidates: CANDIDATES,
    separated_by: "an output that is not zero",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let o = site.recurrence_output()?;
    let (weight, z) = (site.vector("ssm_norm.weight")?, site.z(&o)?);
    let eps = site.hparams().f_norm_rms_eps.into();
    site.only(&QUESTION, "final_output", site.tensor("final_output")?, |candidate| {
        let (o, silu, sigmoid) = (o.clone(), z.mapv(silu), z.mapv(sigmoid));
        Ok(Some(packed(match candidate {
            "norm_then_silu" => weighted(normalised(o, eps), &weight) * silu,
            "gate_first" => weighted(normalised(o * silu, eps), &weight),
            _ => weighted(normalised(o, eps), &weight) * sigmoid,
        })))
    })
}
