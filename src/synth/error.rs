//! Why a model could not be made.

use thiserror::Error;

use super::{PRESETS, TYPES, is_folded};
use crate::gguf::GgufError;
use crate::model::ModelError;
use crate::tensor::GgmlType;

/// Why a model could not be made.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum SynthError {
    /// The source cannot be read or the result not written.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The source is no model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// There is no such preset.
    #[error("unknown preset `{got}`; presets: {}", PRESETS.iter().map(|p| p.name).collect::<Vec<_>>().join(", "))]
    Preset {
        /// What was asked for.
        got: String,
    },
    /// Synthetic weights are not made in this type.
    #[error("synthetic models are not made in {got}; types: {}", TYPES.iter().map(|t| t.name()).collect::<Vec<_>>().join(", "))]
    Type {
        /// What was asked for.
        got: GgmlType,
    },
    /// A model of no type.
    #[error("no type for the matrices; types: {}", TYPES.iter().map(|t| t.name()).collect::<Vec<_>>().join(", "))]
    NoType,
    /// A type that cannot stand beside others in one model.
    #[error("{got} cannot be one of several types of a model; expected types that are not folded: {}",
        TYPES.iter().filter(|t| !is_folded(**t)).map(|t| t.name()).collect::<Vec<_>>().join(", "))]
    Mixed {
        /// What was asked for.
        got: GgmlType,
    },
    /// A size of a preset makes no model.
    #[error("{field} = {got}, expected {expected}")]
    Size {
        /// The field of the preset.
        field: &'static str,
        /// Its value.
        got: String,
        /// What it should be.
        expected: String,
    },
    /// A tensor cannot be scaled by this.
    #[error("{tensor} * {factor}, expected {expected}")]
    Scale {
        /// The bare name.
        tensor: String,
        /// The factor.
        factor: f32,
        /// What is possible.
        expected: String,
    },
    /// There is no fold to undo.
    #[error("{model} has no `prism.hadamard.*` metadata: it is not folded, llama.cpp can run it as it is")]
    NotFolded {
        /// The file.
        model: String,
    },
    /// More or fewer layers than the model has.
    #[error("cannot keep {got} layers of a model that has {have}; expected 1 to {have}")]
    Layers {
        /// What was asked for.
        got: usize,
        /// What the model has.
        have: usize,
    },
}
