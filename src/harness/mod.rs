//! Running engines beside references: cases, the check of a run, the recording of one.

mod case;
mod check;
mod error;
mod record;
mod schedule;

pub use case::{Case, CaseDump, ModelRecipe};
pub use check::{Check, Progress, check};
pub use error::HarnessError;
pub use record::Recorder;
pub use schedule::{Continuation, ubatches};
