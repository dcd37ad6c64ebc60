//! What a run does, act by act.

use super::Subject;
use super::trace::{Found, Limits, Trace, TraceCompare, TraceRecord};
use crate::engine::{Engine, EngineError, Memory, NullTap, Snapshot, Tap};
use crate::harness::{HarnessError, Step};

/// One act of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// A step whose tokens are compared.
    Step(Step),
    /// A step that is not: it is there to leave something behind.
    Aside(Step),
    /// Takes a snapshot.
    Save,
    /// Goes back to the last snapshot.
    Restore,
    /// Resets the engine.
    Reset,
}

/// A run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Script {
    pub(super) memory: Memory,
    pub(super) n_ctx: usize,
    pub(super) acts: Vec<Act>,
    /// Sequences whose state is compared at the end.
    pub(super) states: Vec<i32>,
}

/// Takes an engine through a script; gives what its sequences hold at the end.
fn run<W: Watch>(engine: &mut dyn Engine, script: &Script, watch: &mut W) -> Result<Snapshot, EngineError> {
    let mut saved = None;
    // Engines count anew after a reset; a reader counts on.
    let mut step_of_run = 0;
    for act in &script.acts {
        match act {
            Act::Step(step) => {
                watch.begin(step, step_of_run);
                step.run(engine, watch)?;
                step_of_run += 1;
            }
            Act::Aside(step) => {
                step.run(engine, &mut NullTap)?;
                step_of_run += 1;
            }
            Act::Save => saved = Some(engine.snapshot()?),
            Act::Restore => match &saved {
                Some(saved) => engine.restore(saved)?,
                None => engine.reset(),
            },
            Act::Reset => engine.reset(),
        }
    }
    engine.snapshot()
}

/// A tap that wants to know whose tokens it is about to see.
pub(super) trait Watch: Tap {
    fn begin(&mut self, step: &Step, step_of_run: u32);
}

/// Runs a script and keeps what others are compared with.
pub(super) fn record(subject: &dyn Subject, script: &Script) -> Result<Trace, HarnessError> {
    record_engine(&mut *subject.engine(script.memory, script.n_ctx)?, script)
}

/// The same with an engine that is there already.
pub(super) fn record_engine(engine: &mut dyn Engine, script: &Script) -> Result<Trace, HarnessError> {
    let mut record = TraceRecord::default();
    let states = run(engine, script, &mut record)?;
    Ok(record.finish(states, &script.states))
}

/// Runs a script and compares.
pub(super) fn compare(
    subject: &dyn Subject,
    script: &Script,
    expected: &Trace,
    limits: Limits<'_>,
) -> Result<Found, HarnessError> {
    let mut compare = TraceCompare::new(expected, limits);
    // An engine that cannot do what it did in the expected run breaks the invariant.
    Ok(match run(&mut *subject.engine(script.memory, script.n_ctx)?, script, &mut compare) {
        Ok(states) => compare.finish(&states),
        Err(error) => compare.refused(&error),
    })
}
