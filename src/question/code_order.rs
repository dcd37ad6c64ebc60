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

use super::asking::{Misread, Probe, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::Codes;

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

/// Which element's code a candidate takes for each element of a block.
fn sources(candidate: &str, codes: Codes) -> Vec<usize> {
    let places: Vec<(usize, usize)> = (0..codes.block).map(codes.place).collect();
    let mut order: Vec<usize> = (0..codes.block).collect();
    let at = |place| places.iter().position(|&other| other == place);
    let digits = |byte| places.iter().filter(|&&(other, _)| other == byte).count();
    match candidate {
        "byte_by_byte" => order.sort_by_key(|&j| places[j]),
        "planes" => order.sort_by_key(|&j| (places[j].1, places[j].0)),
        "digits_reversed" => order.iter_mut().zip(&places).for_each(|(j, &(byte, digit))| {
            *j = at((byte, digits(byte) - 1 - digit)).unwrap_or(*j);
        }),
        "bytes_swapped" => order.iter_mut().zip(&places).for_each(|(j, &(byte, digit))| {
            *j = at((byte ^ 1, digit)).unwrap_or(*j);
        }),
        "reversed" => order.reverse(),
        _ => {}
    }
    order
}

fn misread(candidate: &str, codes: Codes) -> Option<Misread> {
    let sources = sources(candidate, codes);
    let is_stored = sources.is_sorted();
    (candidate == "as_stored" || !is_stored).then(|| -> Misread {
        Box::new(move |_, block| {
            let stored = block.to_vec();
            block.iter_mut().zip(&sources).for_each(|(value, &j)| *value = stored[j]);
        })
    })
}

fn look(site: &Site<'_>) -> Looked {
    site.misread(&QUESTION, misread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::format;
    use crate::tensor::GgmlType;

    /// The first elements' sources.
    fn first(ty: GgmlType, candidate: &str) -> Vec<usize> {
        sources(candidate, format(ty).unwrap().codes().unwrap())[..4].to_vec()
    }

    #[test]
    fn elements_take_the_codes_of_others() {
        // Q4_0: byte j holds elements j and 16 + j.
        assert_eq!(first(GgmlType::Q4_0, "byte_by_byte"), [0, 16, 1, 17]);
        assert_eq!(first(GgmlType::Q4_0, "planes"), [0, 1, 2, 3]);
        assert_eq!(first(GgmlType::Q4_0, "digits_reversed"), [16, 17, 18, 19]);
        assert_eq!(first(GgmlType::Q4_0, "bytes_swapped"), [1, 0, 3, 2]);
        // PQ2_0: byte j / 4, so that the first codes are those of elements 0, 4, 8.
        assert_eq!(first(GgmlType::PQ2_0, "planes"), [0, 4, 8, 12]);
        assert_eq!(first(GgmlType::PQ2_0, "digits_reversed"), [3, 2, 1, 0]);
        assert_eq!(first(GgmlType::PQ2_0, "bytes_swapped"), [4, 5, 6, 7]);
        assert_eq!(first(GgmlType::Q8_0, "reversed"), [31, 30, 29, 28]);
        // PTQ1_0: byte m holds elements m + 16 n.
        assert_eq!(first(GgmlType::PTQ1_0, "byte_by_byte"), [0, 16, 32, 48]);
        assert_eq!(first(GgmlType::PTQ1_0, "digits_reversed"), [64, 65, 66, 67]);
        assert_eq!(sources("planes", format(GgmlType::PTQ1_0).unwrap().codes().unwrap())[16], 80);
    }
}
