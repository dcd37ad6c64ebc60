//! `rope_base`: what is the base of the rotation's frequencies?
//!
//! What is unknown: whether the base that the file gives is used, or the one that most programs take where none is given.
//! Why it matters: at small positions only the slow pairs differ, so that short prompts read well and long ones do not.
//! Candidates: `from_file` `rope.freq_base`; `10000`.
//! Evidence: q and k in front of the rotation and behind it.
//! What cannot tell them apart: position 0, or a file that gives 10000.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::Rope;

const CANDIDATES: &[Candidate] = &[candidate("from_file", "rope.freq_base"), candidate("10000", "10000")];

pub(super) const QUESTION: Question = Question {
    name: "rope_base",
    asks: "what is the base of the rotation's frequencies?",
    candidates: CANDIDATES,
    separated_by: "a token behind the first, and a file with another base than 10000",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.rotations(&QUESTION, |candidate, rope| Rope {
        freq_base: if candidate == "from_file" { rope.freq_base } else { 10_000.0 },
        ..rope
    })
}
