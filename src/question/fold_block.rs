//! `fold_block`: how many elements does the Hadamard transform mix?
//!
//! What is unknown: the size of the blocks that the transform works on, each by itself.
//! Why it matters: an engine that takes another size than the file's mixes other elements, and no product has any likeness.
//! Candidates: `64`, `128`, `256`, `512`, `1024`; `from_file` where the file has another size than these. One that does not divide a
//! row cannot be.
//! Evidence: every product with a folded weight: the tensor in front, the weight, the tensor behind; and the lookup of a rotated
//! table. One answer for each kind of weight.
//! What cannot tell them apart: activations of zero.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::Transform;

const CANDIDATES: &[Candidate] = &[
    candidate("64", "blocks of 64"),
    candidate("128", "blocks of 128"),
    candidate("256", "blocks of 256"),
    candidate("512", "blocks of 512"),
    candidate("1024", "blocks of 1024"),
    candidate("from_file", "prism.hadamard.block_size, where it is none of these"),
];

pub(super) const QUESTION: Question = Question {
    name: "fold_block",
    asks: "how many elements does the Hadamard transform mix?",
    candidates: CANDIDATES,
    separated_by: "rows that every size divides, and activations that are not zero",
    probe: Probe {
        sizes: &[
            ("n_layer", 2),
            ("full_attention_interval", 2),
            ("n_embd", 1024),
            ("n_ff", 1024),
            ("n_head", 32),
            ("ssm_dt_rank", 64),
        ],
        because: "every size divides rows of 1024",
        ..Probe::FOLDED
    },
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.folded(&QUESTION, |candidate, transform| {
        let block = match candidate.parse() {
            Ok(block) => block,
            Err(_) => Some(transform.block).filter(|block| QUESTION.index(&block.to_string()).is_none())?,
        };
        Some(Transform { block, ..transform })
    })
}
