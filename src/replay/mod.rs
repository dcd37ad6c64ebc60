//! Re-executing the graph of a dump: every node is evaluated in f64 from the reference's own inputs, and what the reference
//! computed is compared with that. It works for any architecture whose operators have an oracle.
//!
//! Caches (keys, values, states) are leaves without values in a dump. They start as zeros, as llama.cpp clears them, and are
//! followed through the nodes that write to them and through what is done to the memory between steps.

mod bits;
mod caches;
mod error;
mod evaluate;
mod judge;
mod operands;
mod results;
mod snapshots;
mod stored;
mod walk;
mod weights;

pub use bits::{Bits, arithmetic_of};
pub use error::ReplayError;
pub use evaluate::{Arithmetic, Assumed};
pub use judge::{NodeResult, Outcome};
pub use walk::{Judged, Walk};

pub use crate::ops::exact::{ActivationRounding, Rounding};

use crate::arithmetic::Isa;
use crate::dump::Dump;
use crate::gguf::Gguf;

/// Called with nodes replayed so far and in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// What replaying a dump gave.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Replay {
    /// One result per node whose values the dump holds, in evaluation order.
    pub results: Vec<NodeResult>,
    /// Computed nodes whose values the dump does not hold: nothing can be said of them.
    pub not_held: u64,
    /// The build in whose arithmetic nodes were evaluated; none for exact arithmetic.
    pub arithmetic: Option<Isa>,
}

/// The counts of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplaySummary {
    /// Nodes that were compared.
    pub compared: u64,
    /// Of those, within their budget.
    pub within: u64,
    /// Of those, over it.
    pub over: u64,
    /// Of those, with a value that is not finite where the exact one is.
    pub nonfinite: u64,
    /// Nodes that could not be evaluated.
    pub skipped: u64,
    /// Among those within their budget, the nodes whose every value is zero on both sides: equal, and no evidence.
    pub zero: u64,
}

impl Replay {
    /// The counts.
    pub fn summary(&self) -> ReplaySummary {
        let mut s = ReplaySummary::default();
        for result in &self.results {
            match result.outcome {
                Outcome::Within => s.within += 1,
                Outcome::Over => s.over += 1,
                Outcome::NonFinite => s.nonfinite += 1,
                Outcome::Skipped(_) => s.skipped += 1,
            }
        }
        s.compared = s.within + s.over + s.nonfinite;
        let is_zero = |r: &&NodeResult| r.is_zero && r.outcome == Outcome::Within;
        s.zero = self.results.iter().filter(is_zero).count() as u64;
        s
    }

    /// Whether something was compared that is not zero on both sides, and everything compared is within its budget.
    pub fn is_pass(&self) -> bool {
        let s = self.summary();
        s.compared > s.zero && s.within == s.compared
    }
}

impl std::ops::AddAssign for ReplaySummary {
    /// Joins the counts of two replays.
    fn add_assign(&mut self, other: ReplaySummary) {
        self.compared += other.compared;
        self.within += other.within;
        self.over += other.over;
        self.nonfinite += other.nonfinite;
        self.skipped += other.skipped;
        self.zero += other.zero;
    }
}

impl ReplaySummary {
    /// The part of the held nodes that were compared, 0 to 1; 0 if there are none.
    pub fn coverage(&self) -> f64 {
        let all = self.compared + self.skipped;
        if all == 0 { 0.0 } else { self.compared as f64 / all as f64 }
    }
}

/// Replays every node of a dump. `gguf` is the model that the reference ran, whose SHA-256 is `sha256`.
///
/// # Errors
/// If the model is another or the dump is damaged.
pub fn replay(gguf: &Gguf, sha256: &str, dump: &Dump, progress: Progress<'_>) -> Result<Replay, ReplayError> {
    replay_in(Arithmetic::default(), gguf, sha256, dump, progress)
}

/// As [`replay`], with a choice of the arithmetic.
///
/// # Errors
/// As [`replay`]; and if the arithmetic of the dump's build is asked for and not known.
pub fn replay_in(
    arithmetic: Arithmetic,
    gguf: &Gguf,
    sha256: &str,
    dump: &Dump,
    progress: Progress<'_>,
) -> Result<Replay, ReplayError> {
    let mut walk = Walk::new(arithmetic, gguf, sha256, dump)?;
    let total = walk.remaining() as u64;
    let mut replay = Replay { arithmetic: walk.arithmetic(), ..Replay::default() };
    while let Some(judged) = walk.step()? {
        replay.not_held += u64::from(judged.is_empty());
        replay.results.extend(judged.into_iter().map(|judged| judged.result));
        progress(total - walk.remaining() as u64, total);
    }
    Ok(replay)
}
