//! Why a check could not run. What a check finds is a verdict, not an error.

use std::path::PathBuf;

use thiserror::Error;

use crate::compare::CompareError;
use crate::dump::{DumpError, ScheduleDifference};
use crate::engine::EngineError;
use crate::gguf::GgufError;
use crate::model::ModelError;
use crate::replay::ReplayError;
use crate::synth::SynthError;

/// Why a check could not run.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum HarnessError {
    /// The dump is damaged.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// The engine could not run.
    #[error(transparent)]
    Engine(EngineError),
    /// The model cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file of the model cannot be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The model could not be made.
    #[error(transparent)]
    Synth(#[from] SynthError),
    /// Two tensors could not be laid side by side.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// `case.toml` cannot be read.
    #[error("read {}: {cause}", path.display())]
    CaseFile {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// Operators cannot be judged alone.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Operators cannot be judged alone without the file that the reference ran.
    #[error(
        "dump {}: judging each operator alone needs the very file that llama.cpp ran: give the unfolded twin of the model, or \
         compare the cumulative error only (--mode cumulative)", dump.display()
    )]
    NoReferenceModel {
        /// The dump.
        dump: PathBuf,
    },
    /// A dump that is to widen the noise floor is not of the same run.
    #[error(
        "dump {} {what} {}: a further dump must be of the same run under other settings", other.display(), dump.display()
    )]
    OtherRun {
        /// The dump that is checked.
        dump: PathBuf,
        /// The further one.
        other: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// A dump that is to widen the noise floor is of another schedule.
    #[error("dump {} is not of the same run as {}: {difference}", other.display(), dump.display())]
    OtherSchedule {
        /// The dump that is checked.
        dump: PathBuf,
        /// The further one.
        other: PathBuf,
        /// What differs first.
        difference: Box<ScheduleDifference>,
    },
    /// The dump's keys or values are of a type that does not exist.
    #[error("dump {}: run.{key} = \"{got}\", which is no type of ggml", dump.display())]
    CacheType {
        /// The dump.
        dump: PathBuf,
        /// `type_k` or `type_v`.
        key: &'static str,
        /// What it says.
        got: String,
    },
    /// A recipe names something that does not exist.
    #[error("{}: {key} = \"{got}\", expected one of {expected}", path.display())]
    CaseValue {
        /// `case.toml`.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// Its value.
        got: String,
        /// What it could be.
        expected: String,
    },
    /// A recipe gives another model than the one the case was made with.
    #[error(
        "{preset} seed {seed} has sha256 {got}, the case was made with {expected}: the recipe of synthetic models changed; \
         remake the dumps with scripts/make-references.sh"
    )]
    Recipe {
        /// The preset.
        preset: String,
        /// The seed.
        seed: u64,
        /// What the recipe gives.
        got: String,
        /// What `case.toml` says.
        expected: String,
    },
    /// The weights of a case are to be fetched, and were not.
    #[error("the weights of `{name}` are not at {}: fetch them with scripts/real-models.sh --fetch {name}", path.display())]
    NotFetched {
        /// The model's name in the script.
        name: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// A dump of a case is not in the repository and was not made.
    #[error("{} is not there: make it with scripts/make-references.sh {case}", path.display())]
    NotMade {
        /// The case.
        case: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// What lies where fetched weights should be is something else.
    #[error(
        "{} has sha256 {got}, the case was made with {expected}: remove it and run scripts/real-models.sh --fetch",
        path.display()
    )]
    FetchedOther {
        /// The file.
        path: PathBuf,
        /// What it has.
        got: String,
        /// What `case.toml` says.
        expected: String,
    },
    /// The dump was made from another model.
    #[error(
        "dump {} was made from another model: from `{file}` with sha256 {dump_sha256}{twin}; the model given has {model_sha256}",
        dump.display(), twin = unfolded_from.as_ref().map(|sha| format!(", unfolded from {sha}")).unwrap_or_default()
    )]
    OtherModel {
        /// The dump.
        dump: PathBuf,
        /// The file name of the model it was made from.
        file: String,
        /// That model's SHA-256.
        dump_sha256: String,
        /// The SHA-256 of the folded model that it is the twin of.
        unfolded_from: Option<String>,
        /// The SHA-256 of the model that was given.
        model_sha256: String,
    },
    /// Capturing the tensors changed the reference's result.
    #[error("dump {}: the reference gave other logits while it was captured; dump it again, it proves nothing", dump.display())]
    CaptureChanged {
        /// The dump.
        dump: PathBuf,
    },
    /// A token id is negative.
    #[error("dump {}: step {step} has token id {token}", dump.display())]
    TokenId {
        /// The dump.
        dump: PathBuf,
        /// The step.
        step: u32,
        /// The token id.
        token: i32,
    },
    /// A token is in several sequences at once, or in none.
    #[error("dump {}: step {step} has a token in the sequences {got:?}; the engine takes tokens of one sequence each", dump.display())]
    Sequences {
        /// The dump.
        dump: PathBuf,
        /// The step.
        step: u32,
        /// The sequences of a token.
        got: Vec<i32>,
    },
    /// Nothing in the dump can be compared.
    #[error("dump {} holds none of the tensors that llama.cpp names: nothing to compare", dump.display())]
    NothingToCompare {
        /// The dump.
        dump: PathBuf,
    },
    /// There are no tokens or no lengths to try.
    #[error("nothing to run: give at least one token and one length that is not 0")]
    NothingToRun,
    /// Three sequences cannot be told apart.
    #[error(
        "{distinct} different token id(s), and three sequences must differ from their first token on: give at least three different \
         ones"
    )]
    AlikeTokens {
        /// How many there are.
        distinct: usize,
    },
    /// An entry of a schedule cannot be done.
    #[error("schedule, `{entry}`: {why}")]
    ScheduleEntry {
        /// The entry.
        entry: String,
        /// Why not.
        why: String,
    },
    /// The schedule does not cover the tokens.
    #[error("a schedule of {scheduled} tokens in all for {tokens} tokens; expected the same number")]
    Schedule {
        /// Sum of the schedule.
        scheduled: usize,
        /// Number of tokens.
        tokens: usize,
    },
}

impl From<EngineError> for HarnessError {
    /// An error of one of the harness's own taps comes back as it was; every other is the engine's.
    fn from(error: EngineError) -> HarnessError {
        match error {
            EngineError::Tap { tensor, cause } => match cause.downcast::<HarnessError>() {
                Ok(own) => *own,
                Err(cause) => HarnessError::Engine(EngineError::Tap { tensor, cause }),
            },
            error => HarnessError::Engine(error),
        }
    }
}
