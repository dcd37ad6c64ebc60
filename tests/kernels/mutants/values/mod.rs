//! Mistakes that give wrong values: heads mixed up, steps left out, steps in the wrong order, a neighbour taken for another.

mod attention;
mod choices;
mod delta_net;
mod formats;
mod matrices;
mod norms_and_folds;
mod products;

use super::Noticed::ByValues;
use super::{Edit, Mutant};

/// One mistake of several edits: the file, the test that sees it, and the first words of what it says, the kernel's name.
fn together(file: &str, test: &'static str, words: &'static str, edits: Vec<Edit>) -> Vec<Mutant> {
    vec![Mutant { file: file.to_owned(), edits, tests: vec![test], noticed: ByValues(words) }]
}

/// A mistake for each edit.
fn each(file: &str, test: &'static str, words: &'static str, edits: Vec<Edit>) -> Vec<Mutant> {
    edits.into_iter().flat_map(|edit| together(file, test, words, vec![edit])).collect()
}

pub(super) fn mutants() -> Vec<Mutant> {
    [
        attention::mutants(),
        delta_net::mutants(),
        norms_and_folds::mutants(),
        formats::mutants(),
        products::mutants(),
        matrices::mutants(),
        choices::mutants(),
    ]
    .concat()
}
