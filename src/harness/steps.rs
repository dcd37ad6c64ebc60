//! What a run does, step by step: changes of the state, then tokens.

use ndarray::Array2;

use super::HarnessError;
use crate::dump::{Dump, MemoryChange};
use crate::engine::{Engine, EngineError, Memory, StateChange, Tap, Ubatch};

/// One step of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What happens to the state first.
    pub before: Vec<StateChange>,
    /// The tokens that are run then.
    pub ubatch: Ubatch,
}

impl Step {
    /// Takes the step with an engine; returns its logits `[tokens with output, n_vocab]`.
    ///
    /// # Errors
    /// If the engine cannot.
    pub fn run(&self, engine: &mut dyn Engine, tap: &mut dyn Tap) -> Result<Array2<f32>, EngineError> {
        self.before.iter().try_for_each(|&change| engine.change(change))?;
        engine.step(&self.ubatch, tap)
    }
}

impl From<Ubatch> for Step {
    fn from(ubatch: Ubatch) -> Step {
        Step { before: Vec::new(), ubatch }
    }
}

/// The steps of the run that a dump was made of.
///
/// # Errors
/// If a token id is negative, or a token is in several sequences at once.
pub fn steps_of(dump: &Dump) -> Result<Vec<Step>, HarnessError> {
    let path = || dump.path().to_owned();
    let mut steps = Vec::new();
    for ubatch in &dump.manifest().run.ubatches {
        let step = ubatch.step;
        let token = |&token: &i32| {
            u32::try_from(token).map_err(|_| HarnessError::TokenId { dump: path(), step, token })
        };
        let sequence = |ids: &Vec<i32>| match ids[..] {
            [id] => Ok(id),
            _ => Err(HarnessError::Sequences { dump: path(), step, got: ids.clone() }),
        };
        let own = Ubatch {
            tokens: ubatch.tokens.iter().map(token).collect::<Result<_, _>>()?,
            positions: ubatch.positions.iter().map(|&p| p.into()).collect(),
            sequences: ubatch.seq_ids.iter().map(sequence).collect::<Result<_, _>>()?,
            outputs: ubatch.outputs.iter().map(|&o| o != 0).collect(),
        };
        steps.push(Step { before: ubatch.before.iter().copied().map(change).collect(), ubatch: own });
    }
    Ok(steps)
}

fn change(change: MemoryChange) -> StateChange {
    match change {
        MemoryChange::Clear => StateChange::Clear,
        MemoryChange::SeqRm { seq_id, p0 } => StateChange::Remove { sequence: seq_id, from: p0.into() },
        MemoryChange::SeqCp { seq_id_src, seq_id_dst } => {
            StateChange::Copy { from: seq_id_src, to: seq_id_dst }
        }
    }
}

/// The same in a dump's words.
pub(super) fn memory_change(change: StateChange) -> MemoryChange {
    match change {
        StateChange::Clear => MemoryChange::Clear,
        StateChange::Remove { sequence, from } => MemoryChange::SeqRm { seq_id: sequence, p0: from as i32 },
        StateChange::Copy { from, to } => MemoryChange::SeqCp { seq_id_src: from, seq_id_dst: to },
    }
}

/// How an engine has to keep its state to do as the run of a dump did, and for how many tokens: in each sequence, or where
/// all share one stream, together.
pub fn memory_of(dump: &Dump) -> (Memory, usize) {
    let run = &dump.manifest().run;
    let kv_unified = run.kv_unified.unwrap_or(false);
    let streams = if kv_unified { 1 } else { run.n_seq_max.max(1) };
    (Memory { kv_unified, n_rs_seq: run.n_rs_seq as usize }, (run.n_ctx / streams) as usize)
}
