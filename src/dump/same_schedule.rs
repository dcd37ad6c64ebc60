//! Whether two runs evaluated the same tokens in the same steps.

use std::fmt;

use thiserror::Error;

use super::manifest::{MemoryChange, Run, Ubatch};

/// The first thing in which two runs differ, so that their tensors do not belong together.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the fields are what the messages quote
pub enum ScheduleDifference {
    /// The runs have different numbers of steps, which agree as far as both go.
    #[error("{reference} steps in the reference, {actual} in the actual run")]
    Steps { reference: usize, actual: usize },
    /// What was done to the memory before a step differs.
    #[error(
        "step {step}: the memory was changed by {reference} in the reference, by {actual} in the actual run"
    )]
    Memory { step: usize, reference: String, actual: String },
    /// A step has different numbers of tokens.
    #[error("step {step}: {reference} tokens in the reference, {actual} in the actual run")]
    Tokens { step: usize, reference: usize, actual: usize },
    /// A token, its position or its sequences differ.
    #[error(
        "step {step}, token {token}: {what} {reference} in the reference, {actual} in the actual run; run both on the \
         same tokens and schedule"
    )]
    Token { step: usize, token: usize, what: &'static str, reference: String, actual: String },
}

impl Run {
    /// Checks that another run evaluated the same tokens at the same positions of the same sequences, step by step, and
    /// changed the memory in the same way before each.
    ///
    /// # Errors
    /// The first difference, in order of step.
    pub fn same_schedule(&self, actual: &Run) -> Result<(), ScheduleDifference> {
        for (step, (reference, actual)) in self.ubatches.iter().zip(&actual.ubatches).enumerate() {
            same_ubatch(step, reference, actual)?;
        }
        match (self.ubatches.len(), actual.ubatches.len()) {
            (reference, actual) if reference != actual => {
                Err(ScheduleDifference::Steps { reference, actual })
            }
            _ => Ok(()),
        }
    }
}

fn same_ubatch(step: usize, reference: &Ubatch, actual: &Ubatch) -> Result<(), ScheduleDifference> {
    if reference.before != actual.before {
        let (reference, actual) = (changes(&reference.before), changes(&actual.before));
        return Err(ScheduleDifference::Memory { step, reference, actual });
    }
    let (n, n_actual) = (reference.tokens.len(), actual.tokens.len());
    if n != n_actual {
        return Err(ScheduleDifference::Tokens { step, reference: n, actual: n_actual });
    }
    same_list(step, "id", &reference.tokens, &actual.tokens)?;
    same_list(step, "position", &reference.positions, &actual.positions)?;
    same_list(step, "sequences", &reference.seq_ids, &actual.seq_ids)
}

fn same_list<T: PartialEq + fmt::Debug>(
    step: usize,
    what: &'static str,
    reference: &[T],
    actual: &[T],
) -> Result<(), ScheduleDifference> {
    let shown = |list: &[T], i| list.get(i).map_or("missing".to_owned(), |item| format!("{item:?}"));
    let n = reference.len().max(actual.len());
    match (0..n).find(|&i| reference.get(i) != actual.get(i)) {
        Some(token) => {
            let (reference, actual) = (shown(reference, token), shown(actual, token));
            Err(ScheduleDifference::Token { step, token, what, reference, actual })
        }
        None => Ok(()),
    }
}

fn changes(list: &[MemoryChange]) -> String {
    match list {
        [] => "nothing".to_owned(),
        list => list.iter().map(MemoryChange::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl fmt::Display for MemoryChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryChange::Clear => f.write_str("clear"),
            MemoryChange::SeqRm { seq_id, p0 } => write!(f, "seq_rm of sequence {seq_id} from {p0}"),
            MemoryChange::SeqCp { seq_id_src, seq_id_dst } => {
                write!(f, "seq_cp of sequence {seq_id_src} to {seq_id_dst}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::sample::manifest;

    /// The difference after a change of the second run.
    fn difference(change: impl FnOnce(&mut Run)) -> Result<(), ScheduleDifference> {
        let reference = manifest().run;
        let mut actual = reference.clone();
        change(&mut actual);
        reference.same_schedule(&actual)
    }

    #[test]
    fn settings_and_outputs_do_not_matter() {
        let other = |run: &mut Run| {
            run.n_threads += 1;
            run.ubatches[0].outputs = vec![0, 0, 1];
        };
        assert_eq!(difference(other), Ok(()));
    }

    #[test]
    fn the_first_difference_is_named() {
        let token = |step, token, what, reference: &str, actual: &str| {
            let (reference, actual) = (reference.to_owned(), actual.to_owned());
            Err(ScheduleDifference::Token { step, token, what, reference, actual })
        };
        assert_eq!(difference(|run| run.ubatches[0].tokens[1] = 9), token(0, 1, "id", "2", "9"));
        assert_eq!(difference(|run| run.ubatches[1].positions[0] = 9), token(1, 0, "position", "3", "9"));
        let sequences = difference(|run| run.ubatches[0].seq_ids[2] = vec![1]);
        assert_eq!(sequences, token(0, 2, "sequences", "[0]", "[1]"));
        let text = sequences.unwrap_err().to_string();
        assert!(text.starts_with("step 0, token 2: sequences [0] in the reference, [1]"), "{text}");
    }

    #[test]
    fn memory_and_numbers_of_tokens_and_steps_are_compared() {
        let memory =
            difference(|run| run.ubatches[1].before = vec![MemoryChange::SeqRm { seq_id: 0, p0: 2 }]);
        let text = memory.unwrap_err().to_string();
        assert!(text.contains("step 1: ") && text.contains("by nothing"), "{text}");
        assert!(text.contains("seq_rm of sequence 0 from 2"), "{text}");
        let tokens = difference(|run| run.ubatches[0].tokens.truncate(2));
        assert_eq!(tokens, Err(ScheduleDifference::Tokens { step: 0, reference: 3, actual: 2 }));
        let steps = difference(|run| drop(run.ubatches.pop()));
        assert_eq!(steps, Err(ScheduleDifference::Steps { reference: 2, actual: 1 }));
    }
}
