//! What sequences leave behind on the device: keys and values by stream, states of the delta net by slot.

use std::collections::{BTreeMap, VecDeque};

use super::cache::CacheRows;
use super::slots::{SequenceSlots, Slots, StateAt};
use super::{Buffer, Device, GpuError};
use crate::engine::sequences::Sequences;
use crate::engine::{EngineError, Memory, StateChange};
use crate::model::{Hparams, LayerKind};
use crate::tensor::GgmlType;

/// The state of all sequences.
pub(super) struct State {
    pub(super) sequences: Sequences,
    pub(super) slots: Slots,
    pub(super) layers: Vec<LayerState>,
    sizes: Sizes,
    /// Cells hold rows of sequences from before the engine was reset.
    is_used: bool,
}

pub(super) enum LayerState {
    /// By stream.
    Attention(BTreeMap<i32, KvCache>),
    DeltaNet(DeltaNetStates),
}

/// Keys and values, a row of `n_embd_kv` for each cell.
pub(super) struct KvCache {
    pub(super) k: CacheRows,
    pub(super) v: CacheRows,
}

/// States of all slots of a layer.
pub(super) struct DeltaNetStates {
    /// `[2 slots, channels, d_conv - 1]`: what a step reads and what it writes are apart.
    pub(super) conv: Buffer<f32>,
    /// `[slots, n_v, d_v, d_k]`
    pub(super) s: Buffer<f32>,
}

/// Sizes of what is kept, in elements.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Of a convolution's columns.
    pub(super) conv: usize,
    /// Of a recurrent state.
    pub(super) s: usize,
    /// Of a row of keys, and of values.
    pub(super) kv_row: usize,
    n_ctx: usize,
    /// What keys and values are kept in.
    types: (GgmlType, GgmlType),
}

impl Sizes {
    fn new(h: &Hparams, types: (GgmlType, GgmlType), n_ctx: usize) -> Sizes {
        Sizes {
            conv: h.conv_channels() * (h.ssm_d_conv - 1),
            s: h.ssm_dt_rank * h.ssm_d_state * h.ssm_d_state,
            kv_row: h.n_embd_kv(),
            n_ctx,
            types,
        }
    }
}

impl State {
    pub(super) fn new(
        device: &Device,
        h: &Hparams,
        types: (GgmlType, GgmlType),
        memory: Memory,
        n_ctx: usize,
    ) -> Result<State, GpuError> {
        let sizes = Sizes::new(h, types, n_ctx);
        let layer = |kind: &LayerKind| {
            Ok(match kind {
                LayerKind::Attention => LayerState::Attention(BTreeMap::new()),
                LayerKind::DeltaNet => {
                    LayerState::DeltaNet(DeltaNetStates { conv: device.alloc(0)?, s: device.alloc(0)? })
                }
            })
        };
        let layers = h.layers.iter().map(layer).collect::<Result<_, GpuError>>()?;
        Ok(State {
            sequences: Sequences::new(memory, n_ctx),
            slots: Slots::default(),
            layers,
            sizes,
            is_used: false,
        })
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Makes caches for streams that have none. What no token was put in is zero, as in a new context of llama.cpp: scores of cells
    /// that nobody sees are shown too.
    pub(super) fn reserve_streams(
        &mut self,
        device: &Device,
        streams: impl Iterator<Item = i32> + Clone,
    ) -> Result<(), GpuError> {
        if std::mem::take(&mut self.is_used) {
            for layer in &mut self.layers {
                let LayerState::Attention(caches) = layer else { continue };
                for cache in caches.values_mut() {
                    cache.k.clear(device)?;
                    cache.v.clear(device)?;
                }
            }
        }
        let Sizes { kv_row, n_ctx, types: (type_k, type_v), .. } = self.sizes;
        for layer in &mut self.layers {
            let LayerState::Attention(caches) = layer else { continue };
            for stream in streams.clone() {
                if let std::collections::btree_map::Entry::Vacant(entry) = caches.entry(stream) {
                    let k = CacheRows::zeros(device, type_k, n_ctx * kv_row)?;
                    entry.insert(KvCache { k, v: CacheRows::zeros(device, type_v, n_ctx * kv_row)? });
                }
            }
        }
        Ok(())
    }

    /// A free slot, in which nothing is to be relied on.
    fn take_slot(&mut self, device: &Device) -> Result<usize, GpuError> {
        if self.slots.free.is_empty() {
            self.grow(device)?;
        }
        Ok(self.slots.free.pop().expect("there are free ones now"))
    }

    /// Doubles the number of slots.
    fn grow(&mut self, device: &Device) -> Result<(), GpuError> {
        let old = self.slots.n;
        let new = (2 * old).max(1);
        let sizes = self.sizes;
        for states in self.delta_nets() {
            for (buffer, size) in [(&mut states.conv, 2 * sizes.conv), (&mut states.s, sizes.s)] {
                let mut grown = device.alloc(new * size)?;
                device.copy(&mut grown.part_mut(0..old * size), buffer.part(0..old * size))?;
                *buffer = grown;
            }
        }
        self.slots.free.extend((old..new).rev());
        self.slots.n = new;
        self.slots.odd.resize(new, false);
        Ok(())
    }

    pub(super) fn delta_nets(&mut self) -> impl Iterator<Item = &mut DeltaNetStates> {
        self.layers.iter_mut().filter_map(|layer| match layer {
            LayerState::DeltaNet(states) => Some(states),
            LayerState::Attention(_) => None,
        })
    }

    /// The slot of a sequence's state now; a sequence that has none gets one that is zero.
    fn slot(&mut self, device: &Device, sequence: i32) -> Result<usize, GpuError> {
        if let Some(&slot) = self.slots.of.get(&sequence).and_then(VecDeque::front) {
            return Ok(slot);
        }
        let slot = self.take_slot(device)?;
        let at = self.slots.at(slot);
        let Sizes { conv, s, .. } = self.sizes;
        for states in self.delta_nets() {
            device.clear(&mut states.conv.part_mut(at.conv * conv..(at.conv + 1) * conv))?;
            device.clear(&mut states.s.part_mut(at.s * s..(at.s + 1) * s))?;
        }
        self.slots.of.insert(sequence, VecDeque::from([slot]));
        Ok(slot)
    }

    /// Where a sequence's state is, which is made zero if it has none.
    pub(super) fn state_at(&mut self, device: &Device, sequence: i32) -> Result<StateAt, GpuError> {
        let slot = self.slot(device, sequence)?;
        Ok(self.slots.at(slot))
    }

    /// The slots of a sequence in a step that keeps the states behind its last `n` tokens.
    pub(super) fn slots_for_step(
        &mut self,
        device: &Device,
        sequence: i32,
        n: usize,
    ) -> Result<SequenceSlots, GpuError> {
        let slot = self.slot(device, sequence)?;
        let kept = self.push_slots(device, sequence, n)?;
        Ok(SequenceSlots {
            before: self.slots.at(slot),
            kept: kept.into_iter().map(|slot| self.slots.at(slot)).collect(),
            conv_after: 2 * slot + usize::from(!self.slots.odd[slot]),
        })
    }

    /// Fresh slots for the states behind `n` more tokens of a sequence, oldest first; the newest is its state from now on, those
    /// before it are kept as earlier ones, `n_rs_seq` at most.
    fn push_slots(&mut self, device: &Device, sequence: i32, n: usize) -> Result<Vec<usize>, GpuError> {
        let fresh = (0..n).map(|_| self.take_slot(device)).collect::<Result<Vec<_>, _>>()?;
        let n_rs_seq = self.sequences.memory.n_rs_seq;
        let of = self.slots.of.entry(sequence).or_default();
        fresh.iter().for_each(|&slot| of.push_front(slot));
        let gone: Vec<usize> = of.drain((n_rs_seq + 1).min(of.len())..).collect();
        self.slots.gone.extend(gone);
        Ok(fresh)
    }

    /// The tokens of a ubatch have been run.
    pub(super) fn advance(&mut self, sequences: &[i32]) {
        self.sequences.advance(sequences);
        self.slots.free.append(&mut self.slots.gone);
        if self.sequences.memory.n_rs_seq == 0 {
            for run in sequences.chunk_by(|a, b| a == b) {
                if let Some(&slot) = self.slots.of.get(&run[0]).and_then(VecDeque::front) {
                    self.slots.odd[slot] ^= true;
                }
            }
        }
    }

    /// # Errors
    /// If a recurrent state cannot be taken back as far as that, or the driver fails.
    pub(super) fn change(&mut self, device: &Device, change: StateChange) -> Result<(), EngineError> {
        match change {
            StateChange::Clear => self.forget_all(),
            StateChange::Remove { sequence, from } => self.remove(sequence, from)?,
            StateChange::Copy { from, to } if from != to => self.copy(device, from, to)?,
            StateChange::Copy { .. } => {}
        }
        Ok(())
    }

    /// Begins anew: forgets all sequences, and what lies in cells.
    pub(super) fn reset(&mut self) {
        self.forget_all();
        self.is_used = true;
    }

    /// Forgets all sequences. What lies in cells and slots stays there until it is written over, as in llama.cpp.
    fn forget_all(&mut self) {
        self.sequences.clear();
        self.slots.of.clear();
        self.slots.gone.clear();
        self.slots.free = (0..self.slots.n).rev().collect();
    }

    fn remove(&mut self, sequence: i32, from: i64) -> Result<(), EngineError> {
        let has_states = self.delta_nets().next().is_some();
        let kept = has_states.then(|| self.slots.of.get(&sequence).map_or(0, |slots| slots.len() - 1));
        let (n_left, n) = self.sequences.taken_back(sequence, from, kept)?;
        self.sequences.keep_first(sequence, n_left);
        match n_left {
            0 => self.slots.forget(sequence),
            _ => self.slots.back(sequence, n),
        }
        Ok(())
    }

    fn copy(&mut self, device: &Device, from: i32, to: i32) -> Result<(), EngineError> {
        self.remove(to, 0)?;
        let streams = self.sequences.copy(from, to);
        let Sizes { conv, s, .. } = self.sizes;
        if let Some((source, target)) = streams {
            self.reserve_streams(device, [target].into_iter())?;
            for layer in &mut self.layers {
                let LayerState::Attention(caches) = layer else { continue };
                let Some(mut own) = caches.remove(&target) else { continue };
                if let Some(other) = caches.get(&source) {
                    own.k.copy_from(device, &other.k)?;
                    own.v.copy_from(device, &other.v)?;
                }
                caches.insert(target, own);
            }
        }
        let slots: Vec<usize> = self.slots.of.get(&from).into_iter().flatten().copied().collect();
        let mut copies = VecDeque::new();
        for slot in slots {
            let fresh = self.take_slot(device)?;
            let (own, other) = (self.slots.at(fresh), self.slots.at(slot));
            for states in self.delta_nets() {
                copy_slot(device, &mut states.conv, (own.conv, other.conv), conv)?;
                copy_slot(device, &mut states.s, (own.s, other.s), s)?;
            }
            copies.push_back(fresh);
        }
        if !copies.is_empty() {
            self.slots.of.insert(to, copies);
        }
        Ok(())
    }

    /// Where the state of a sequence is that has one.
    pub(super) fn state_of(&self, sequence: i32) -> Option<StateAt> {
        self.slots.of.get(&sequence).and_then(VecDeque::front).map(|&slot| self.slots.at(slot))
    }

    /// Slots that there are: what was recorded with fewer is not to be replayed.
    pub(super) fn n_slots(&self) -> usize {
        self.slots.n
    }
}

/// Copies the state of one slot to another.
pub(super) fn copy_slot(
    device: &Device,
    states: &mut Buffer<f32>,
    (to, from): (usize, usize),
    size: usize,
) -> Result<(), GpuError> {
    if to == from {
        return Ok(());
    }
    let (mut to, from) = states.two_parts(to * size..(to + 1) * size, from * size..(from + 1) * size);
    device.copy(&mut to, from)
}
