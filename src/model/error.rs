//! Why a GGUF file is not a model that this crate can run.

use thiserror::Error;

use super::FoldError;
use crate::gguf::GgufError;
use crate::quant::QuantError;
use crate::tensor::GgmlType;

/// Why a GGUF file is not a model that this crate can run.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum ModelError {
    /// The file itself is broken, or a key is missing or of the wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The fold contract is broken.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// Another architecture.
    #[error(
        "architecture `{got}`, expected `qwen35`: the engine runs no other, and `lockstep replay` needs no engine"
    )]
    Architecture {
        /// What `general.architecture` says.
        got: String,
    },
    /// A hyperparameter makes no model.
    #[error("{key} = {got}, expected {expected}")]
    Hparam {
        /// The metadata key.
        key: String,
        /// Its value.
        got: String,
        /// What it should be.
        expected: String,
    },
    /// A tensor that the architecture needs is not there.
    #[error("tensor `{name}` is missing")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A tensor has another shape than the hyperparameters say.
    #[error("tensor `{name}` has ne = {got:?}, expected {expected:?} (dimension 0 first)")]
    Shape {
        /// Its name.
        name: String,
        /// What the file says.
        got: Vec<u64>,
        /// What the hyperparameters say.
        expected: Vec<u64>,
    },
    /// A tensor that must be plain has a block type.
    #[error("tensor `{name}` is {got}, expected f32, f16 or bf16")]
    PlainType {
        /// Its name.
        name: String,
        /// Its type.
        got: GgmlType,
    },
    /// The weights of a tensor cannot be decoded.
    #[error("tensor `{name}`: {cause}")]
    Quant {
        /// Its name.
        name: String,
        /// Why.
        cause: QuantError,
    },
}
