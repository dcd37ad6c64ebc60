//! Candidates that an engine is made to run by something else than the convention of their question's name.

use crate::run::With;

/// Question, candidate, and how.
pub const EXCEPTIONS: &[(&str, &str, With)] = &[];

/// Candidates that no input can tell from another, with the reason.
pub const TIES: &[(&str, &str, &str)] = &[];
