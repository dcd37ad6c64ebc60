//! What a comparison looks like as text. Nothing is printed here: every format returns a string.
//!
//! Adding a format: a file here with a type that implements [`Format`], and one line in [`FORMATS`].
//! The phrases that several formats share are in `words/`.

mod html;
mod json;
mod junit;
mod table;
mod words;

use crate::compare::Comparison;

pub use words::{
    AskOptions, Step, StepToken, answer_table, ask_json, ask_line, bench_kernels_json, bench_kernels_text,
    bench_model_json, bench_model_text, bits_line, bits_table, brief_table, diagnosis_json,
    diagnosis_of_dumps, diagnosis_of_pair, diagnosis_of_pair_json, first_difference, invariants_json,
    invariants_table, replay_json, replay_line, replay_table, summary_line,
};

/// One comparison with what a reader needs to know about it.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// A short name: the case and the dump, `mini-bonsai / prompt-7-decode-4`.
    pub name: &'a str,
    /// Lines that the table begins with: the model, the engine, the reference.
    pub header: &'a [String],
    /// What each step evaluated; without it, steps are shown by their number alone.
    pub steps: &'a [Step],
    /// The results.
    pub comparison: &'a Comparison,
}

/// How much of a report to show, for formats that are read by people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Every tensor in graph order in place of the worst of each kind.
    pub all: bool,
    /// Columns of the terminal.
    pub width: u16,
}

impl Default for Options {
    /// The worst of each kind, in the 120 columns assumed where there is no terminal.
    fn default() -> Options {
        Options { all: false, width: 120 }
    }
}

/// A way to write reports down.
pub trait Format: Sync {
    /// The name on the command line and the file's stem.
    fn name(&self) -> &'static str;

    /// The text for the reports of one invocation, in order, ending with a line feed.
    fn render(&self, reports: &[Report<'_>], options: Options) -> String;
}

/// Every format, by name. `tests/registries.rs` compares this table with the folder.
pub const FORMATS: &[&dyn Format] = &[&html::Html, &json::Json, &junit::Junit, &table::Table];

/// The format with this name.
pub fn format(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_name_and_sorted() {
        assert!(FORMATS.is_sorted_by_key(|f| f.name()));
        assert!(format("json").is_some() && format("xml").is_none());
    }
}
