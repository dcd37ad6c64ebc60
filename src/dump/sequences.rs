//! Checks that every sequence of a run goes on where it was, or where a change of the memory left it.

#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;

use super::error::Defect;
use super::manifest::{MemoryChange, Run, Ubatch};

/// The position of each sequence's next token, by sequence; one that is absent is at 0.
type Places = HashMap<i32, i64>;

/// Checks sequence ids and positions of every ubatch, in order of step.
pub(super) fn check(run: &Run) -> Result<(), Defect> {
    let mut places = Places::new();
    for ubatch in &run.ubatches {
        for change in &ubatch.before {
            apply(&mut places, change, ubatch.step, run.n_seq_max)?;
        }
        advance(&mut places, ubatch, run.n_seq_max)?;
    }
    Ok(())
}

fn known(seq_id: i32, step: u32, n_seq_max: u32) -> Result<(), Defect> {
    match u32::try_from(seq_id) {
        Ok(id) if id < n_seq_max => Ok(()),
        _ => Err(Defect::UnknownSequence { step, seq_id, n_seq_max }),
    }
}

fn apply(places: &mut Places, change: &MemoryChange, step: u32, n_seq_max: u32) -> Result<(), Defect> {
    match *change {
        MemoryChange::Clear => places.clear(),
        MemoryChange::SeqRm { seq_id, p0 } => {
            known(seq_id, step, n_seq_max)?;
            let place = places.entry(seq_id).or_default();
            if !(0..=*place).contains(&i64::from(p0)) {
                return Err(Defect::RemovedPosition { step, seq_id, next: *place, p0 });
            }
            *place = p0.into();
        }
        MemoryChange::SeqCp { seq_id_src, seq_id_dst } => {
            known(seq_id_src, step, n_seq_max)?;
            known(seq_id_dst, step, n_seq_max)?;
            places.insert(seq_id_dst, places.get(&seq_id_src).copied().unwrap_or(0));
        }
    }
    Ok(())
}

fn advance(places: &mut Places, ubatch: &Ubatch, n_seq_max: u32) -> Result<(), Defect> {
    let step = ubatch.step;
    for (token, (&got, seq_ids)) in ubatch.positions.iter().zip(&ubatch.seq_ids).enumerate() {
        if seq_ids.is_empty() {
            return Err(Defect::NoSequence { step, token });
        }
        for &seq_id in seq_ids {
            known(seq_id, step, n_seq_max)?;
            let place = places.entry(seq_id).or_default();
            if i64::from(got) != *place {
                return Err(Defect::Position { step, token, seq_id, expected: *place, got });
            }
            *place += 1;
        }
    }
    Ok(())
}
