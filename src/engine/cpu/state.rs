//! What sequences leave behind: keys and values, convolution columns, delta-net states.

use std::collections::{BTreeMap, VecDeque};

use ndarray::{Array, Array2, Array3, Axis, RemoveAxis, s};

use super::cells::Cells;
use crate::engine::{EngineError, Memory, StateChange, Ubatch};
use crate::model::{Hparams, LayerKind};
use crate::ops::Real;

/// The state of all sequences.
pub(super) struct State<T> {
    pub(super) memory: Memory,
    /// Cells of each stream.
    n_ctx: usize,
    /// Tokens run so far, by sequence.
    pub(super) n_past: BTreeMap<i32, usize>,
    /// By stream; the same in all layers.
    pub(super) cells: BTreeMap<i32, Cells>,
    pub(super) layers: Vec<LayerState<T>>,
}

pub(super) enum LayerState<T> {
    /// By stream.
    Attention(BTreeMap<i32, KvCache<T>>),
    /// By sequence.
    DeltaNet(BTreeMap<i32, DeltaNetState<T>>),
}

/// Keys after rotation and values, a row per cell. Cells that are free hold what was in them last, as in llama.cpp.
#[derive(Clone)]
pub(super) struct KvCache<T> {
    pub(super) k: Array2<T>, // [n_kv, n_head_kv * head_dim]
    pub(super) v: Array2<T>, // [n_kv, n_head_kv * head_dim]
}

#[derive(Clone)]
pub(super) struct DeltaNetState<T> {
    /// The last columns of the convolution's input, before the convolution.
    pub(super) conv: History<Array2<T>>, // [channels, d_conv - 1]
    /// The recurrent state, v-major.
    pub(super) s: History<Array3<T>>, // [n_v, d_v, d_k]
}

/// A state and some of those before it, one per token.
#[derive(Clone)]
pub(super) struct History<A> {
    pub(super) now: A,
    /// Newest first.
    pub(super) earlier: VecDeque<A>,
}

/// Where the tokens of a ubatch go in the caches, and what they read.
pub(super) struct Placement {
    /// The streams in the order of the ubatch, each with as many tokens.
    pub(super) streams: Vec<StreamPlacement>,
    /// Cells that attention reads.
    pub(super) n_kv: usize,
    /// The sequences in the order of the ubatch, each with as many tokens.
    pub(super) sequences: Vec<i32>,
}

pub(super) struct StreamPlacement {
    pub(super) stream: i32,
    /// The cell of each token.
    pub(super) cells: Vec<usize>,
    /// The cells that each token reads, ascending.
    pub(super) seen: Vec<Vec<usize>>,
}

impl<A> History<A> {
    pub(super) fn new(now: A) -> History<A> {
        History { now, earlier: VecDeque::new() }
    }

    /// Goes back by `n` tokens; the caller has seen to it that there are as many.
    fn back(&mut self, n: usize) {
        self.earlier.drain(..n.saturating_sub(1).min(self.earlier.len()));
        if let Some(earlier) = self.earlier.pop_front().filter(|_| n > 0) {
            self.now = earlier;
        }
    }
}

impl<T: Real> DeltaNetState<T> {
    /// What a sequence begins with.
    pub(super) fn zero(h: &Hparams) -> DeltaNetState<T> {
        DeltaNetState {
            conv: History::new(Array2::from_elem((h.conv_channels(), h.ssm_d_conv - 1), T::ZERO)),
            s: History::new(Array3::from_elem((h.ssm_dt_rank, h.ssm_d_state, h.ssm_d_state), T::ZERO)),
        }
    }
}

impl<T: Real> KvCache<T> {
    fn empty(hparams: &Hparams) -> KvCache<T> {
        let empty = Array2::from_elem((0, hparams.n_embd_kv()), T::ZERO);
        KvCache { k: empty.clone(), v: empty }
    }

    fn reserve(&mut self, n_rows: usize) {
        for rows in [&mut self.k, &mut self.v] {
            if rows.nrows() < n_rows {
                let mut grown = Array2::from_elem((n_rows, rows.ncols()), T::ZERO);
                grown.slice_mut(s![..rows.nrows(), ..]).assign(rows);
                *rows = grown;
            }
        }
    }
}

impl<T: Real> State<T> {
    pub(super) fn new(hparams: &Hparams, memory: Memory, n_ctx: usize) -> State<T> {
        let layer = |kind: &LayerKind| match kind {
            LayerKind::Attention => LayerState::Attention(BTreeMap::new()),
            LayerKind::DeltaNet => LayerState::DeltaNet(BTreeMap::new()),
        };
        let layers = hparams.layers.iter().map(layer).collect();
        State { memory, n_ctx, n_past: BTreeMap::new(), cells: BTreeMap::new(), layers }
    }

    pub(super) fn n_past(&self, sequence: i32) -> usize {
        self.n_past.get(&sequence).copied().unwrap_or(0)
    }

    pub(super) fn stream_of(&self, sequence: i32) -> i32 {
        if self.memory.kv_unified { 0 } else { sequence }
    }

    /// Free cells for the tokens of a ubatch, by stream, in the order of the ubatch. Changes nothing.
    ///
    /// # Errors
    /// If a stream has too few.
    pub(super) fn find(&self, ubatch: &Ubatch) -> Result<Vec<(i32, Vec<usize>)>, EngineError> {
        let mut n_tokens: Vec<(i32, usize)> = Vec::new();
        for &sequence in &ubatch.sequences {
            let stream = self.stream_of(sequence);
            match n_tokens.iter_mut().find(|(known, _)| *known == stream) {
                Some((_, n)) => *n += 1,
                None => n_tokens.push((stream, 1)),
            }
        }
        let find = |(stream, n): (i32, usize)| {
            let fresh = Cells::new(self.n_ctx);
            let cells = self.cells.get(&stream).unwrap_or(&fresh);
            let full = || EngineError::ContextFull { needed: cells.used() + n, n_ctx: self.n_ctx };
            Ok((stream, cells.find(n).ok_or_else(full)?))
        };
        n_tokens.into_iter().map(find).collect()
    }

    /// Gives the tokens of a ubatch the cells that [`State::find`] found.
    pub(super) fn place(
        &mut self,
        ubatch: &Ubatch,
        found: Vec<(i32, Vec<usize>)>,
        hparams: &Hparams,
    ) -> Placement {
        let tokens: Vec<(i32, i64)> =
            ubatch.sequences.iter().copied().zip(ubatch.positions.iter().copied()).collect();
        let (mut streams, mut n_kv, mut first) = (Vec::new(), 0, 0);
        for (stream, at) in found {
            let own = &tokens[first..first + at.len()];
            first += at.len();
            let cells = self.cells.entry(stream).or_insert_with(|| Cells::new(self.n_ctx));
            cells.put(&at, own.iter().copied());
            n_kv = n_kv.max(cells.n_kv());
            let seen = own.iter().map(|&(sequence, position)| cells.seen_by(sequence, position)).collect();
            streams.push(StreamPlacement { stream, cells: at, seen });
        }
        for layer in &mut self.layers {
            let LayerState::Attention(caches) = layer else { continue };
            for StreamPlacement { stream, .. } in &streams {
                caches.entry(*stream).or_insert_with(|| KvCache::empty(hparams)).reserve(n_kv);
            }
        }
        let mut sequences = ubatch.sequences.clone();
        sequences.dedup();
        Placement { streams, n_kv, sequences }
    }

    /// The tokens of a ubatch have been run.
    pub(super) fn advance(&mut self, sequences: &[i32]) {
        for &sequence in sequences {
            *self.n_past.entry(sequence).or_default() += 1;
        }
    }

    /// # Errors
    /// If a recurrent state cannot be taken back as far as that.
    pub(super) fn change(&mut self, change: StateChange) -> Result<(), EngineError> {
        match change {
            StateChange::Clear => {
                let size = self.n_ctx;
                self.cells.values_mut().for_each(|cells| *cells = Cells::new(size));
                self.n_past.clear();
                self.delta_nets().for_each(BTreeMap::clear);
            }
            StateChange::Remove { sequence, from } => self.remove(sequence, from)?,
            StateChange::Copy { from, to } if from != to => self.copy(from, to)?,
            StateChange::Copy { .. } => {}
        }
        Ok(())
    }

    pub(super) fn delta_nets(&mut self) -> impl Iterator<Item = &mut BTreeMap<i32, DeltaNetState<T>>> {
        self.layers.iter_mut().filter_map(|layer| match layer {
            LayerState::DeltaNet(states) => Some(states),
            LayerState::Attention(_) => None,
        })
    }

    fn remove(&mut self, sequence: i32, from: i64) -> Result<(), EngineError> {
        let n_past = self.n_past(sequence);
        let n_left = usize::try_from(from).unwrap_or(0).min(n_past);
        let n = n_past - n_left;
        let kept = |states: &BTreeMap<i32, DeltaNetState<T>>| {
            states.get(&sequence).map_or(0, |state| state.s.earlier.len())
        };
        let kept = self.delta_nets().map(|states| kept(states)).min();
        if let Some(kept) = kept.filter(|&kept| n_left > 0 && n > kept) {
            return Err(EngineError::Rollback { sequence, tokens: n, kept, n_rs_seq: self.memory.n_rs_seq });
        }
        let stream = self.stream_of(sequence);
        if let Some(cells) = self.cells.get_mut(&stream) {
            cells.remove(sequence, n_left as i64);
        }
        for states in self.delta_nets() {
            if n_left == 0 {
                states.remove(&sequence);
            } else if let Some(state) = states.get_mut(&sequence) {
                state.conv.back(n);
                state.s.back(n);
            }
        }
        match n_left {
            0 => drop(self.n_past.remove(&sequence)),
            n_left => drop(self.n_past.insert(sequence, n_left)),
        }
        Ok(())
    }

    fn copy(&mut self, from: i32, to: i32) -> Result<(), EngineError> {
        self.remove(to, 0)?;
        let (source, target) = (self.stream_of(from), self.stream_of(to));
        if source == target {
            self.cells.entry(source).and_modify(|cells| cells.share(from, to));
        } else if let Some(cells) = self.cells.get(&source) {
            self.cells.insert(target, cells.copied(from, to));
        }
        for layer in &mut self.layers {
            match layer {
                LayerState::Attention(caches) if source != target => {
                    if let Some(cache) = caches.get(&source) {
                        caches.insert(target, cache.clone());
                    }
                }
                LayerState::Attention(_) => {}
                LayerState::DeltaNet(states) => {
                    if let Some(state) = states.get(&from) {
                        states.insert(to, state.clone());
                    }
                }
            }
        }
        if let Some(&n_past) = self.n_past.get(&from) {
            self.n_past.insert(to, n_past);
        }
        Ok(())
    }
}

/// States of several sequences side by side, sequences first.
pub(super) fn side_by_side<T: Real, D: RemoveAxis<Larger: RemoveAxis<Smaller = D>>>(
    states: Vec<Array<T, D>>,
) -> Array<T, D::Larger> {
    let mut states: Vec<_> = states.into_iter().map(|state| state.insert_axis(Axis(0))).collect();
    match states.len() {
        // The states are the largest tensors of a layer: the only one is handed on, not copied.
        1 => states.remove(0),
        _ => {
            let views: Vec<_> = states.iter().map(|state| state.view()).collect();
            ndarray::concatenate(Axis(0), &views).expect("states of one layer are of one shape")
        }
    }
}

/// The other way round.
pub(super) fn apart<T: Real, D: RemoveAxis>(states: Array<T, D>) -> Vec<Array<T, D::Smaller>> {
    match states.len_of(Axis(0)) {
        1 => vec![states.index_axis_move(Axis(0), 0)],
        _ => states.outer_iter().map(|state| state.to_owned()).collect(),
    }
}
