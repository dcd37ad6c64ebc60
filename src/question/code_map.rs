//! `code_map`: what does a code of the weights stand for?
//!
//! What is unknown: which multiple of its block's scale d each code stands for.
//! Why it matters: blocks of the right size decode to numbers of the right size either way.
//! Candidates, of a code c out of n: `as_specified` (c - 1) d of two bits and base 3, (c - 8) d of Q4_0, (2 c - 1) d of Q1_0, of Q8_0
//! c d with its sign; `from_zero` c d; `signed` c d, less n d from n / 2 on; `excess` (c - n / 2) d; `symmetric`
//! (c - (n - 1) / 2) d; `reversed` the specified one negated. One that a type specifies itself is no other candidate of it.
//! Evidence: every product with such a weight: the tensor in front, the weight, the tensor behind; and the lookup in such a table. One
//! answer for each type.
//! What cannot tell them apart: activations of zero.

use super::asking::{Probe, Site, relevelled};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] = &[
    candidate("as_specified", "the levels of the type"),
    candidate("from_zero", "c d"),
    candidate("signed", "c < n / 2 ? c d : (c - n) d"),
    candidate("excess", "(c - n / 2) d"),
    candidate("symmetric", "(c - (n - 1) / 2) d"),
    candidate("reversed", "the levels of the type, negated"),
];

pub(super) const QUESTION: Question = Question {
    name: "code_map",
    asks: "what does a code of the weights stand for?",
    candidates: CANDIDATES,
    separated_by: "weights with codes and activations that are not zero",
    probe: Probe { because: "two bits are read in a different way by every candidate", ..Probe::FOLDED },
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.misread(&QUESTION, |candidate, codes| {
        let n = codes.count;
        relevelled(codes, |code, specified| match candidate {
            "from_zero" => code as f32,
            "signed" => (if 2 * code < n { code } else { code - n }) as f32,
            "excess" => (code - n / 2) as f32,
            "symmetric" => code as f32 - (n - 1) as f32 / 2.0,
            _ => -specified as f32,
        })
    })
}
