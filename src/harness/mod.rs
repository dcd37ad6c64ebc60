//! Running engines beside references: cases, the check of a run, the recording of one.

mod case;
mod check;
mod comparer;
mod diagnose;
mod dialect;
mod error;
mod floor;
mod folded;
mod follow;
mod invariants;
mod kept;
mod recipe;
mod record;
mod reference;
mod reseed;
mod schedule;
mod steps;

pub use case::{Case, CaseDump};
pub use check::{
    Check, CheckOptions, Mode, Progress, ReferenceModel, check, check_model, check_with, measure_floor,
    numerics,
};
pub use diagnose::{Which, diagnose_dumps, diagnose_node};
pub use dialect::{Rule, rules};
pub use error::HarnessError;
pub use floor::{Floor, widen};
pub use invariants::{
    CpuSubject, Departure, GpuSubject, INVARIANTS, Invariants, JudgedBy, LENGTHS, NotTried, Outcome, Subject,
    SumOrder, invariants,
};
pub use kept::StateKind;
pub use recipe::ModelRecipe;
pub use record::Recorder;
pub use schedule::{Cut, Places, Schedule, ubatches};
pub use steps::{Step, memory_of, stale_rollbacks, steps_of};
