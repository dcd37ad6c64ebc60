//! Why a question could not be asked.

use thiserror::Error;

use crate::compare::CompareError;
use crate::dump::DumpError;
use crate::harness::HarnessError;
use crate::model::ModelError;
use crate::ops::exact::OracleError;

/// Why a question could not be asked.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum AskError {
    /// No question has this name.
    #[error("no question is called `{got}`; `lockstep ask --list` names them: {expected}")]
    Unknown {
        /// What was asked for.
        got: String,
        /// All names.
        expected: String,
    },
    /// The dump was made from another model.
    #[error("{dump} was made from a model of {got}, {model} has {expected}")]
    OtherModel {
        /// The dump.
        dump: String,
        /// The model's file.
        model: String,
        /// What the dump says.
        got: String,
        /// What the model has.
        expected: String,
    },
    /// A tensor has other extents than the model gives it.
    #[error("{tensor} has extents {got:?}, expected {expected:?}")]
    Extents {
        /// The tensor.
        tensor: String,
        /// Outermost first.
        got: Vec<usize>,
        /// Outermost first.
        expected: Vec<usize>,
    },
    /// A step has a token that the embedding table does not have.
    #[error("step {step} has token {token}, the embedding table has {n_vocab} rows")]
    Token {
        /// The step.
        step: u32,
        /// The token.
        token: usize,
        /// Rows of the table.
        n_vocab: usize,
    },
    /// The model's file.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The dump.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// What an error looks like.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// A node that no model has.
    #[error(transparent)]
    Oracle(#[from] OracleError),
    /// Two tensors of different length.
    #[error("{tensor}: {source}")]
    Compare {
        /// The reference's tensor.
        tensor: String,
        /// The lengths.
        source: CompareError,
    },
}
