//! `qkv_split_order`: in which order do q, k and v lie behind the convolution?
//!
//! What is unknown: which channels are which; q and k are equally many.
//! Why it matters: with q and k exchanged every width is right, and so are both norms.
//! Candidates: `qkv`, `kqv`, `vkq`.
//! Evidence: the activated channels; each of the three.
//! What cannot tell them apart: channels that are equal.

use ndarray::{Array2, s};

use super::asking::{Held, Probe, Site, packed, those_held};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::Tracked;

const CANDIDATES: &[Candidate] = &[
    candidate("qkv", "queries, keys, values"),
    candidate("kqv", "keys, queries, values"),
    candidate("vkq", "values, keys, queries"),
];

pub(super) const QUESTION: Question = Question {
    name: "qkv_split_order",
    asks: "in which order do q, k and v lie behind the convolution?",
    candidates: CANDIDATES,
    separated_by: "channels that are not all equal",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::DeltaNet)?;
    let h = site.hparams();
    let (key, inner) = (h.ssm_d_key(), h.ssm_d_inner);
    let channels: Array2<Tracked> = site.tensor("conv_output_silu")?.rows(2 * key + inner)?;
    let split = |which: usize, width: usize, part: Result<Held, _>| {
        let part = part?;
        let group = part.id.kind().to_owned();
        site.trial(&QUESTION, &group, part, |candidate| {
            let from = match candidate {
                "qkv" => [0, key, 2 * key],
                "kqv" => [key, 0, 2 * key],
                _ => [inner + key, inner, 0],
            };
            Ok(Some(packed(channels.slice(s![.., from[which]..from[which] + width]).to_owned())))
        })
    };
    those_held([
        split(0, key, site.tensor("q_conv")),
        split(1, key, site.tensor("k_conv")),
        split(2, inner, site.first_of(&["v_conv_predelta", "v_in"])),
    ])
}
