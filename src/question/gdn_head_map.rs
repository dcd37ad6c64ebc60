//! `gdn_head_map`: which k head does v head h of the delta net read?
//!
//! What is unknown: the delta net has fewer k heads than v heads; which k and q head belong to v head h.
//! Why it matters: the right sizes come out either way, and half of a hybrid's layers (attention) want the other map.
//! Candidates: `interleaved` h % n_k; `blocked` h / (n_v / n_k).
//! Evidence: q, k, v, gates and the state in front of the recurrence; the output and the state behind it. Where q was repeated to
//! as many heads as v has: each head and the first one that reads the same.
//! What cannot tell them apart: as many k heads as v heads, one k head, or heads that are equal.

use super::asking::{Probe, Rules, Site, packed};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] =
    &[candidate("interleaved", "h % n_k"), candidate("blocked", "h / (n_v / n_k)")];

pub(super) const QUESTION: Question = Question {
    name: "gdn_head_map",
    asks: "which k head does v head h of the delta net read?",
    candidates: CANDIDATES,
    separated_by: "a model with fewer k heads than v heads",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn k_head(candidate: &str) -> fn(usize, (usize, usize)) -> usize {
    match candidate {
        "interleaved" => |h, (n_k, _)| h % n_k,
        _ => |h, (n_k, n_v)| h / (n_v / n_k),
    }
}

fn look(site: &Site<'_>) -> Looked {
    let net = site.delta_net()?;
    let heads = (site.hparams().ssm_n_group, net.v.dim().2);
    if net.q.dim().2 == heads.1 && heads.0 < heads.1 {
        let repeated = site.tensor("q_conv_predelta")?;
        return site.only(&QUESTION, "q_conv_predelta", repeated, |candidate| {
            let reads = |head| k_head(candidate)(head, heads);
            let first = |head| (0..heads.1).find(|&other| reads(other) == reads(head)).unwrap_or(head);
            let firsts: Vec<usize> = (0..heads.1).map(first).collect();
            Ok(Some(packed(net.q.select(ndarray::Axis(2), &firsts))))
        });
    }
    net.scored(site, &QUESTION, |candidate, result| {
        net.run(result, Rules { k_head: k_head(candidate), ..Rules::default() })
    })
}
