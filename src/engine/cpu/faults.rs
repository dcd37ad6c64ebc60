//! Mistakes that the engine makes on purpose, where they reach into the state between steps.

use std::collections::BTreeMap;

use super::state::{DeltaNetState, LayerState, State};
use crate::engine::Ubatch;
use crate::ops::Real;

impl<T: Real> State<T> {
    /// Gives the first token of each sequence that goes on the cell of its last token, which is still needed.
    pub(super) fn reuse_last_cells(&self, ubatch: &Ubatch, found: &mut [(i32, Vec<usize>)]) {
        for (stream, at) in found {
            let own =
                ubatch.sequences.iter().filter(|&&sequence| self.sequences.stream_of(sequence) == *stream);
            let mut before = None;
            for (&sequence, at) in own.zip(at) {
                if before != Some(sequence)
                    && let Some(&last) = self.sequences.cells_of(sequence).unwrap_or_default().last()
                {
                    *at = last;
                }
                before = Some(sequence);
            }
        }
    }

    /// The delta-net states of all layers, taken out.
    pub(super) fn take_delta_nets(&mut self) -> Vec<BTreeMap<i32, DeltaNetState<T>>> {
        self.delta_nets().map(std::mem::take).collect()
    }

    /// Puts them back.
    pub(super) fn put_delta_nets(&mut self, states: Vec<BTreeMap<i32, DeltaNetState<T>>>) {
        self.delta_nets().zip(states).for_each(|(own, states)| *own = states);
    }

    /// Rounds the recurrent states of some sequences.
    pub(super) fn round_to_bf16(&mut self, sequences: &[i32]) {
        let round = |x: T| T::from_f32(half::bf16::from_f32(x.to_f64() as f32).to_f32());
        for layer in &mut self.layers {
            let LayerState::DeltaNet(states) = layer else { continue };
            let own = states.iter_mut().filter(|(sequence, _)| sequences.contains(sequence));
            own.for_each(|(_, state)| state.s.now.mapv_inplace(round));
        }
    }
}
