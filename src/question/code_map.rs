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

use super::asking::{Misread, Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::Codes;

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

/// The multiple of d that a candidate makes of a code, given what the type makes of it.
fn level(candidate: &str, code: i32, specified: i32, count: i32) -> f32 {
    match candidate {
        "from_zero" => code as f32,
        "signed" if 2 * code < count => code as f32,
        "signed" => (code - count) as f32,
        "excess" => (code - count / 2) as f32,
        "symmetric" => code as f32 - (count - 1) as f32 / 2.0,
        "reversed" => -specified as f32,
        _ => specified as f32,
    }
}

fn misread(candidate: &str, codes: Codes) -> Option<Misread> {
    let levels: Vec<i32> = (0..codes.count).map(codes.level).collect();
    let lowest = levels.iter().copied().min().unwrap_or(0);
    let is_specified =
        |(code, &specified): (i32, &i32)| level(candidate, code, specified, codes.count) == specified as f32;
    if candidate != "as_specified" && (0..).zip(&levels).all(is_specified) {
        return None;
    }
    let mut read = vec![0.0; 2 * levels.len()]; // by the level above the lowest; of one bit there are two between
    for (code, &specified) in (0..).zip(&levels) {
        read[(specified - lowest) as usize] = level(candidate, code, specified, codes.count);
    }
    Some(Box::new(move |d, block| {
        for value in block.iter_mut().filter(|_| d != 0.0) {
            let above = (*value / d).round() as i32 - lowest;
            *value = read[above as usize] * d;
        }
    }))
}

fn look(site: &Site<'_>) -> Looked {
    site.misread(&QUESTION, misread)
}
