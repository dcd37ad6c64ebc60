//! `attn_head_map`: which kv head does q head h of attention read?
//!
//! What is unknown: attention has fewer kv heads than q heads; which keys and values belong to q head h.
//! Why it matters: the right sizes come out either way, and the delta net of the same model wants the other map.
//! Candidates: `blocked` h / (n_q / n_kv); `interleaved` h % n_kv.
//! Evidence: queries and keys behind norm and rotation, and the scores; probabilities and values, and their product.
//! What cannot tell them apart: as many kv heads as q heads, or one.

use super::asking::{HeadMap, Probe, Site, blocked};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] =
    &[candidate("blocked", "h / (n_q / n_kv)"), candidate("interleaved", "h % n_kv")];

pub(super) const QUESTION: Question = Question {
    name: "attn_head_map",
    asks: "which kv head does q head h of attention read?",
    candidates: CANDIDATES,
    separated_by: "a model with fewer kv heads than q heads, and more than one",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let attention = site.attention()?;
    let map = |candidate: &str| -> HeadMap {
        match candidate {
            "blocked" => blocked,
            _ => |h, (n_kv, _)| h % n_kv,
        }
    };
    let (kq, p, kqv) = (site.tensor("kq")?, site.tensor("kq_soft_max")?, site.tensor("kqv")?);
    let keys = site.trial(&QUESTION, "keys", kq.clone(), |candidate| {
        Ok(Some(attention.scores(&kq, map(candidate), None)?))
    })?;
    let values = site.trial(&QUESTION, "values", kqv, |candidate| {
        Ok(Some(attention.weighted(&p, map(candidate), None)?))
    })?;
    Ok(vec![keys, values])
}
