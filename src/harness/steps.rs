//! What a run does, step by step: changes of the state, then tokens.

use std::collections::BTreeMap;

use ndarray::Array2;

use super::HarnessError;
use crate::dump::{Dump, MemoryChange, Run};
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

/// Steps of a run in front of which tokens were taken back beyond the last ubatch of their sequence, by step. llama.cpp
/// (b11434) keeps the recurrent states of the last ubatch only, and goes on from a wrong one without a word.
pub fn stale_rollbacks(run: &Run) -> Vec<u32> {
    let (mut stale, mut held) = (Vec::new(), BTreeMap::<i32, Held>::new());
    for ubatch in &run.ubatches {
        for change in &ubatch.before {
            match *change {
                MemoryChange::Clear => held.clear(),
                MemoryChange::SeqRm { seq_id, p0 } => {
                    let of = held.entry(seq_id).or_default();
                    if p0 > 0 && run.n_rs_seq > 0 && of.end - p0 >= of.in_last_ubatch {
                        stale.push(ubatch.step);
                    }
                    of.end = p0;
                }
                MemoryChange::SeqCp { seq_id_src, seq_id_dst } => {
                    let source = held.get(&seq_id_src).copied().unwrap_or_default();
                    held.insert(seq_id_dst, source);
                }
            }
        }
        let tokens = ubatch.seq_ids.iter().zip(&ubatch.positions);
        let mut counts = BTreeMap::<i32, i32>::new();
        for (&seq_id, &position) in tokens.flat_map(|(ids, p)| ids.iter().map(move |id| (id, p))) {
            *counts.entry(seq_id).or_default() += 1;
            held.entry(seq_id).or_default().end = position.saturating_add(1);
        }
        counts.into_iter().for_each(|(seq_id, n)| held.entry(seq_id).or_default().in_last_ubatch = n);
    }
    stale
}

/// Where a sequence stands.
#[derive(Clone, Copy, Default)]
struct Held {
    /// The position of its next token.
    end: i32,
    in_last_ubatch: i32,
}

/// How an engine has to keep its state to do as the run of a dump did, and for how many tokens: in each sequence, or where
/// all share one stream, together.
pub fn memory_of(dump: &Dump) -> (Memory, usize) {
    let run = &dump.manifest().run;
    let kv_unified = run.kv_unified.unwrap_or(false);
    let streams = if kv_unified { 1 } else { run.n_seq_max.max(1) };
    (Memory { kv_unified, n_rs_seq: run.n_rs_seq as usize }, (run.n_ctx / streams) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A run of one sequence: how many tokens each ubatch has, and how many are taken back in front of it.
    fn run(n_rs_seq: u32, ubatches: &[(i32, i32)]) -> Run {
        let mut end = 0;
        let mut step = |(step, &(n, back)): (usize, &(i32, i32))| {
            let p0 = end - back;
            let before: Vec<Value> =
                (back > 0).then(|| json!({"op": "seq_rm", "seq_id": 0, "p0": p0})).into_iter().collect();
            end = p0 + n;
            json!({
                "step": step, "tokens": vec![7; n as usize], "positions": (p0..end).collect::<Vec<_>>(),
                "seq_ids": vec![[0]; n as usize], "outputs": vec![1; n as usize], "before": before,
            })
        };
        let ubatches: Vec<Value> = ubatches.iter().enumerate().map(&mut step).collect();
        serde_json::from_value(json!({
            "ubatches": ubatches, "schedule": [], "generated": 0, "prompt": null, "n_ctx": 256, "n_seq_max": 1,
            "n_rs_seq": n_rs_seq, "n_batch": 8, "n_ubatch": 8, "n_threads": 1, "flash_attn": false, "type_k": "f32",
            "type_v": "f32", "repack": null, "reference_kernels": false, "fused_gdn": null, "filters": [],
            "named_only": true, "views": false, "selected": [],
        }))
        .unwrap()
    }

    #[test]
    fn a_rollback_is_right_only_within_the_last_ubatch() {
        assert_eq!(stale_rollbacks(&run(2, &[(3, 0), (2, 1), (1, 0)])), [0; 0]);
        assert_eq!(stale_rollbacks(&run(2, &[(3, 0), (1, 0), (1, 1)])), [2]);
        assert_eq!(stale_rollbacks(&run(2, &[(3, 0), (2, 0), (1, 2), (1, 0)])), [2]);
        // All of it: the sequence begins anew.
        assert_eq!(stale_rollbacks(&run(2, &[(3, 0), (2, 3)])), [0; 0]);
    }
}
