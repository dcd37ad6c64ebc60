//! What sequences leave behind: keys and values, convolution columns, delta-net states.

use std::collections::{BTreeMap, VecDeque};

use ndarray::{Array, Array2, Array3, Axis, RemoveAxis, s};

use crate::engine::sequences::{Placement, Sequences};
use crate::engine::{EngineError, Memory, StateChange};
use crate::model::{Hparams, LayerKind};
use crate::ops::Real;

/// The state of all sequences.
pub(super) struct State<T> {
    pub(super) sequences: Sequences,
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
        State { sequences: Sequences::new(memory, n_ctx), layers }
    }

    /// Makes room in the caches of the streams that tokens were placed in.
    pub(super) fn reserve(&mut self, placement: &Placement, hparams: &Hparams) {
        for layer in &mut self.layers {
            let LayerState::Attention(caches) = layer else { continue };
            for placed in &placement.streams {
                let cache = caches.entry(placed.stream).or_insert_with(|| KvCache::empty(hparams));
                cache.reserve(placement.n_kv);
            }
        }
    }

    /// # Errors
    /// If a recurrent state cannot be taken back as far as that.
    pub(super) fn change(&mut self, change: StateChange) -> Result<(), EngineError> {
        match change {
            StateChange::Clear => {
                self.sequences.clear();
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
        let kept = |states: &BTreeMap<i32, DeltaNetState<T>>| {
            states.get(&sequence).map_or(0, |state| state.s.earlier.len())
        };
        let kept = self.delta_nets().map(|states| kept(states)).min();
        let (n_left, n) = self.sequences.taken_back(sequence, from, kept)?;
        self.sequences.keep_first(sequence, n_left);
        for states in self.delta_nets() {
            if n_left == 0 {
                states.remove(&sequence);
            } else if let Some(state) = states.get_mut(&sequence) {
                state.conv.back(n);
                state.s.back(n);
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: i32, to: i32) -> Result<(), EngineError> {
        self.remove(to, 0)?;
        let streams = self.sequences.copy(from, to);
        for layer in &mut self.layers {
            match layer {
                LayerState::Attention(caches) => {
                    if let Some((source, target)) = streams
                        && let Some(cache) = caches.get(&source)
                    {
                        caches.insert(target, cache.clone());
                    }
                }
                LayerState::DeltaNet(states) => {
                    if let Some(state) = states.get(&from) {
                        states.insert(to, state.clone());
                    }
                }
            }
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
