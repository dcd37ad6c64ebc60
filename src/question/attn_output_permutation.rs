//! `attn_output_permutation`: how are heads reordered in front of a folded `attn_output`?
//!
//! What is unknown: whether q heads change their order, as v heads of the delta net do in front of `ssm_out`.
//! Why it matters: both activations are as wide and made of heads; what is right for one is wrong for the other.
//! Candidates: `none`; `tiled_to_grouped` n_kv r + k to k rep + r; `grouped_to_tiled` the other way round.
//! Evidence: the products with `attn_output`: the tensor in front, the weight, the tensor behind.
//! What cannot tell them apart: as many kv heads as q heads, or one: nothing moves. As many kv heads as q heads for each: both
//! directions are the same.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::{HeadPermutation, Transform};

const CANDIDATES: &[Candidate] = &[
    candidate("none", "H (s . x)"),
    candidate("tiled_to_grouped", "H (s . P x), P: k + n_kv r to k rep + r"),
    candidate("grouped_to_tiled", "H (s . Q x), Q: k rep + r to k + n_kv r"),
];

pub(super) const QUESTION: Question = Question {
    name: "attn_output_permutation",
    asks: "how are heads reordered in front of a folded attn_output?",
    candidates: CANDIDATES,
    separated_by: "a model with more q heads than kv heads, not the square of their number, and more than one kv head",
    probe: Probe::FOLDED,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let h = site.hparams();
    let grouped = HeadPermutation::tiled_to_grouped(h.n_head_kv, h.n_head / h.n_head_kv, h.n_embd_head);
    let is_asked = |weight: &str| weight == "attn_output";
    site.folded_products(
        &QUESTION,
        |product| is_asked(product.weight),
        |candidate, transform| {
            let permutation = match candidate {
                "tiled_to_grouped" => Some(grouped.clone()),
                "grouped_to_tiled" => Some(grouped.inverse()),
                _ => None,
            };
            Some(Transform { permutation, ..transform })
        },
    )
}
