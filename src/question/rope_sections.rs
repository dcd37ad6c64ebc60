//! `rope_sections`: how are the channels of a position spread over the pairs?
//!
//! What is unknown: a position has channels for time, height and width and a fourth; whether their pairs take turns, or
//! lie section by section.
//! Why it matters: on text nothing shows it; the first image does.
//! Candidates: `interleaved` t, h, w take turns as far as their sections reach; `contiguous` all of t, then h, then w.
//! Evidence: q and k in front of the rotation and behind it, with the positions that the graph read.
//! What cannot tell them apart: text, of which all sections see the same position, unless a pair reads the fourth channel, which
//! llama.cpp sets to 0 on text.

use super::asking::{Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::{Rope, RopeSections};

const CANDIDATES: &[Candidate] =
    &[candidate("interleaved", "t, h, w in turn"), candidate("contiguous", "t, then h, then w")];

pub(super) const QUESTION: Question = Question {
    name: "rope_sections",
    asks: "how are the channels of a position spread over the pairs?",
    candidates: CANDIDATES,
    separated_by: "positions of an image, as on text all sections see the same position, or a model with pairs of the \
                   fourth channel, which is 0 on text",
    probe: Probe {
        rope_sections: Some([6, 0, 0, 10]),
        because: "pairs of the fourth channel, whose position is 0 on text, do not turn: which they are shows",
        ..Probe::PLAIN
    },
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.rotations(&QUESTION, |candidate, rope| Rope {
        layout: if candidate == "interleaved" { RopeSections::Interleaved } else { RopeSections::Contiguous },
        ..rope
    })
}
