//! `attn_scale`: what factor do the scores of attention get?
//!
//! What is unknown: scores are scaled in front of the softmax; by which function of the head size.
//! Why it matters: another factor makes attention sharper or flatter, and the text still reads well for a while.
//! Candidates: `inverse_sqrt` 1 / sqrt(d); `inverse` 1 / d; `one` 1.
//! Evidence: the scores, and the probabilities that the softmax makes of those which a token sees.
//! What cannot tell them apart: tokens that see one key, whose probability is 1. A file that gives the factor leaves nothing to
//! ask.

use super::asking::{Probe, Site, Stop};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;

const CANDIDATES: &[Candidate] =
    &[candidate("inverse_sqrt", "1 / sqrt(d)"), candidate("inverse", "1 / d"), candidate("one", "1")];

pub(super) const QUESTION: Question = Question {
    name: "attn_scale",
    asks: "what factor do the scores of attention get?",
    candidates: CANDIDATES,
    separated_by: "a token that sees several keys",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::Attention)?;
    if let Some(scale) = site.hparams().f_attention_scale {
        return Err(Stop::NotApplicable(format!("the file gives the factor: attention.scale = {scale}")));
    }
    let (attention, d) = (site.attention()?, site.hparams().n_embd_head as f64);
    let (kq, p) = (site.tensor("kq")?, site.tensor("kq_soft_max")?);
    site.only(&QUESTION, "kq_soft_max", p, |candidate| {
        let scale = match candidate {
            "inverse_sqrt" => 1.0 / d.sqrt(),
            "inverse" => 1.0 / d,
            _ => 1.0,
        };
        Ok(Some(attention.soft_max(&kq, scale)?))
    })
}
