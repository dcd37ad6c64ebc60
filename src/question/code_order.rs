//! `code_order`: in which order do the codes of a block lie?
//!
//! What is unknown: which code of a block belongs to which element.
//! Why it matters: every order gives the same set of weights, with the same mean and size.
//! Candidates: `as_stored` what the type says; `byte_by_byte` all codes of a byte are neighbours; `planes` the first codes of all bytes,
//! then the second ones; `digits_reversed` the codes of each byte the other way round; `bytes_swapped` the other byte of each
//! two; `reversed` from the end of the block. One that a type stores itself is no other candidate of it.
//! Evidence: every product with such a weight: the tensor in front, the weight, the tensor behind; and the lookup in such a table. One
//! answer for each type.
//! What cannot tell them apart: blocks whose codes are all the same, or activations of zero.

use super::asking::{Probe, Site, moved, reordered, sorted};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] = &[
    candidate("as_stored", "as the type says"),
    candidate("byte_by_byte", "all codes of a byte, then those of the next"),
    candidate("planes", "the first codes of all bytes, then the second ones"),
    candidate("digits_reversed", "the codes of each byte the other way round"),
    candidate("bytes_swapped", "the other byte of each two"),
    candidate("reversed", "from the end of the block"),
];

pub(super) const QUESTION: Question = Question {
    name: "code_order",
    asks: "in which order do the codes of a block lie?",
    candidates: CANDIDATES,
    separated_by: "blocks with different codes and activations that are not zero",
    probe: Probe {
        ty: "ptq1_0",
        because: "its codes lie neither byte by byte nor in planes of the whole block",
        ..Probe::FOLDED
    },
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.misread(&QUESTION, |candidate, codes| {
        reordered(match candidate {
            "byte_by_byte" => sorted(codes, |place| place),
            "planes" => sorted(codes, |(byte, digit)| (digit, byte)),
            "digits_reversed" => moved(codes, |(byte, digit), digits| (byte, digits - 1 - digit)),
            "bytes_swapped" => moved(codes, |(byte, digit), _| (byte ^ 1, digit)),
            _ => (0..codes.block).rev().collect(),
        })
    })
}
