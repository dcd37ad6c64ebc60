//! `rope_dims`: how many elements of a head rotate?
//!
//! What is unknown: whether the rotation covers the part of a head that the file names, or all of it.
//! Why it matters: in most models the two are the same; here three quarters of a head pass through.
//! Candidates: `from_file` `rope.dimension_count`; `whole_head` `attention.key_length`. Frequencies are spread over as many.
//! Evidence: q and k in front of the rotation and behind it.
//! What cannot tell them apart: position 0, or a file that names the whole head.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::Rope;

const CANDIDATES: &[Candidate] =
    &[candidate("from_file", "rope.dimension_count"), candidate("whole_head", "attention.key_length")];

pub(super) const QUESTION: Question = Question {
    name: "rope_dims",
    asks: "how many elements of a head rotate?",
    candidates: CANDIDATES,
    separated_by: "a token behind the first, and a file that does not name the whole head",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let whole = site.hparams().n_embd_head;
    site.rotations(&QUESTION, |candidate, rope| Rope {
        n_dims: if candidate == "from_file" { rope.n_dims } else { whole },
        ..rope
    })
}
