//! `ssm_out_permutation`: how are v heads reordered in front of a folded `ssm_out`?
//!
//! What is unknown: whether the delta net's heads change from llama.cpp's order (tiled: k + n_k r) to that of the weights (grouped:
//! k rep + r), and whether before or after the signs.
//! Why it matters: a fold mixes the columns of `ssm_out`, so that a converter cannot reorder them as it does in other files; the
//! right sizes come out either way.
//! Candidates: `tiled_to_grouped` before the signs; `tiled_to_grouped_after_signs`; `grouped_to_tiled`;
//! `grouped_to_tiled_after_signs`; `none`.
//! Evidence: the products with `ssm_out`: the tensor in front, the weight, the tensor behind.
//! What cannot tell them apart: as many k heads as v heads, or one: nothing moves. As many k heads as v heads for each: both
//! directions are the same.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::{HeadPermutation, PermutationTime, Transform};

const CANDIDATES: &[Candidate] = &[
    candidate("tiled_to_grouped", "H (s . P x), P: k + n_k r to k rep + r"),
    candidate("tiled_to_grouped_after_signs", "H P (s . x)"),
    candidate("grouped_to_tiled", "H (s . Q x), Q: k rep + r to k + n_k r"),
    candidate("grouped_to_tiled_after_signs", "H Q (s . x)"),
    candidate("none", "H (s . x)"),
];

pub(super) const QUESTION: Question = Question {
    name: "ssm_out_permutation",
    asks: "how are v heads reordered in front of a folded ssm_out?",
    candidates: CANDIDATES,
    separated_by: "a model with more v heads than k heads, not the square of their number, and more than one k head",
    probe: Probe::FOLDED,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let h = site.hparams();
    let grouped = HeadPermutation::tiled_to_grouped(h.ssm_n_group, h.ssm_rep(), h.ssm_d_state);
    let is_asked = |weight: &str| weight == "ssm_out";
    site.folded_products(
        &QUESTION,
        |product| is_asked(product.weight),
        |candidate, transform| {
            let after = PermutationTime::AfterSigns;
            let permutation = match candidate {
                "tiled_to_grouped" => Some(grouped.clone()),
                "tiled_to_grouped_after_signs" => Some(grouped.clone().at(after)),
                "grouped_to_tiled" => Some(grouped.inverse()),
                "grouped_to_tiled_after_signs" => Some(grouped.inverse().at(after)),
                _ => None,
            };
            Some(Transform { permutation, ..transform })
        },
    )
}
