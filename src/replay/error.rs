//! Why a dump could not be replayed.

use std::path::PathBuf;

use thiserror::Error;

use crate::arithmetic::UnknownBuild;
use crate::dump::DumpError;

/// Why a dump could not be replayed.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// The dump is damaged.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// It is not known in which order the build that made the dump computes.
    #[error("dump {}: {source}; leave out --arithmetic ggml", dump.display())]
    Arithmetic {
        /// The dump.
        dump: PathBuf,
        /// The build.
        source: UnknownBuild,
    },
    /// The model is not the one that the reference ran.
    #[error(
        "dump {} was made from `{file}` with sha256 {expected}; the model given has {got}: replay needs the very file that \
         llama.cpp ran, for a folded model its unfolded twin", dump.display()
    )]
    OtherModel {
        /// The dump.
        dump: PathBuf,
        /// The file name of the model it was made from.
        file: String,
        /// That model's SHA-256.
        expected: String,
        /// The SHA-256 of the model that was given.
        got: String,
    },
}
