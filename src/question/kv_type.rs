//! `kv_type`: to which type are keys and values rounded?
//!
//! What is unknown: a cache keeps keys and values in a type of fewer digits, and products round their other factor to it.
//! Why it matters: a dump of an f16 cache cannot be matched by an engine that keeps f32, nor the other way round.
//! Candidates: `f32` nothing is rounded; `f16`; `bf16`. The manifest says what the run was set to; this is what it did.
//! Evidence: queries, keys and scores; probabilities, values and their product. Flash attention leaves neither.
//! What cannot tell them apart: values that the narrow types hold.
//! What is no candidate: a quantised cache. b11434 does more than round for one: it rotates q and k (v, and what attention makes of it)
//! by a Hadamard matrix in front of it (`attn_inp_k_rot` of `llama_kv_cache`). None fits then, and it is said why.

use super::asking::{AskError, Probe, Site, Subject, blocked, those_held};
use super::{Candidate, Looked, Question, candidate};

const CANDIDATES: &[Candidate] = &[
    candidate("f32", "as they are"),
    candidate("f16", "rounded to f16"),
    candidate("bf16", "rounded to bf16"),
];

pub(super) const QUESTION: Question = Question {
    name: "kv_type",
    asks: "to which type are keys and values rounded?",
    candidates: CANDIDATES,
    separated_by: "keys and values that the narrow types do not hold",
    probe: Probe::PLAIN,
    look,
    also,
};

fn look(site: &Site<'_>) -> Looked {
    let attention = site.attention()?;
    let keys = || {
        let kq = site.tensor("kq")?;
        site.trial(&QUESTION, "keys", kq.clone(), |ty| Ok(Some(attention.scores(&kq, blocked, Some(ty))?)))
    };
    let values = || {
        let (p, kqv) = (site.tensor("kq_soft_max")?, site.tensor("kqv")?);
        site.trial(&QUESTION, "values", kqv, |ty| Ok(Some(attention.weighted(&p, blocked, Some(ty))?)))
    };
    those_held([keys(), values()])
}

fn also(subject: &Subject<'_>) -> Result<Vec<String>, AskError> {
    let others = subject.cache_types().into_iter().filter(|(_, ty)| QUESTION.index(ty).is_none());
    let said = |(what, ty)| {
        format!(
            "the run was told to keep {what} as {ty}, which is no candidate; in front of a quantised cache llama.cpp also rotates \
             what goes into it by a Hadamard matrix"
        )
    };
    Ok(others.map(said).collect())
}
