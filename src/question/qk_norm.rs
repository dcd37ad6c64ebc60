//! `qk_norm`: when are q and k of attention normalised?
//!
//! What is unknown: q and k have a norm with a weight for each element of a head; whether it comes before the rotation.
//! Why it matters: a rotation keeps the length, so that only the weight, which then meets turned elements, shows it.
//! Candidates: `before_rotation` rope(w norm(x)); `after_rotation` w norm(rope(x)); `none` rope(x).
//! Evidence: q and k as they are projected, and as attention reads them.
//! What cannot tell them apart: position 0, where nothing turns, or weights that are all equal.

use super::asking::{Probe, Site, packed, those_held, weighted};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::rms_norm;

const CANDIDATES: &[Candidate] = &[
    candidate("before_rotation", "rope(w norm(x))"),
    candidate("after_rotation", "w norm(rope(x))"),
    candidate("none", "rope(x)"),
];

pub(super) const QUESTION: Question = Question {
    name: "qk_norm",
    asks: "when are q and k of attention normalised?",
    candidates: CANDIDATES,
    separated_by: "a token behind the first, and norm weights that differ within a head",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::Attention)?;
    let eps = f64::from(site.hparams().f_norm_rms_eps);
    let trial = |(kind, input, occurrence, weight): (&str, &str, u32, &str)| {
        let (result, x) =
            (site.occurrence(kind, occurrence)?, site.tensor(input)?.shaped(site.heads_shape(kind))?);
        let weight = site.vector(weight)?;
        let norm = |mut x| {
            rms_norm(&mut x, eps);
            weighted(x, &weight)
        };
        let rotate = |x| site.rotated(x, &site.rope());
        site.trial(&QUESTION, kind, result, |candidate| {
            let x = x.clone();
            Ok(Some(packed(match candidate {
                "before_rotation" => rotate(norm(x))?,
                "after_rotation" => norm(rotate(x)?),
                _ => rotate(x)?,
            })))
        })
    };
    let q = ("Qcur", "Qcur_reshaped", 0, "attn_q_norm.weight");
    let k = ("Kcur", "Kcur", 1, "attn_k_norm.weight");
    those_held([q, k].map(trial))
}
