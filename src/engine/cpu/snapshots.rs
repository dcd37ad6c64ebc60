//! The state of the engine as a value, and back.

use ndarray::{Array, Array2, Axis, Dimension};

use super::state::{DeltaNetState, History, LayerState, State};
use crate::engine::{EngineError, LayerSnapshot, Memory, SequenceSnapshot, Snapshot, Ubatch};
use crate::model::Hparams;
use crate::ops::Real;

impl<T: Real> State<T> {
    /// What all sequences hold. Earlier states, which a sequence could be taken back to, are not part of it.
    pub(super) fn snapshot(&self) -> Snapshot {
        let of = |(sequence, n_past)| {
            let layers = self.layers.iter().map(|layer| self.layer_snapshot(layer, sequence)).collect();
            (sequence, SequenceSnapshot { n_past, layers })
        };
        Snapshot { sequences: self.sequences.all().map(of).collect() }
    }

    fn layer_snapshot(&self, layer: &LayerState<T>, sequence: i32) -> LayerSnapshot {
        let stream = self.sequences.stream_of(sequence);
        match layer {
            LayerState::Attention(caches) => {
                let cells = self.sequences.cells_of(sequence).unwrap_or_default();
                let rows = |rows: &Array2<T>| wide(&rows.select(Axis(0), &cells));
                match caches.get(&stream) {
                    Some(cache) => LayerSnapshot::Attention { k: rows(&cache.k), v: rows(&cache.v) },
                    None => LayerSnapshot::Attention { k: Array2::zeros((0, 0)), v: Array2::zeros((0, 0)) },
                }
            }
            LayerState::DeltaNet(states) => match states.get(&sequence) {
                Some(state) => LayerSnapshot::DeltaNet { conv: wide(&state.conv.now), s: wide(&state.s.now) },
                None => LayerSnapshot::DeltaNet {
                    conv: Array2::zeros((0, 0)),
                    s: ndarray::Array3::zeros((0, 0, 0)),
                },
            },
        }
    }

    /// A state that holds what a snapshot holds.
    ///
    /// # Errors
    /// If it is of another model, or its tokens do not fit into the context.
    pub(super) fn of_snapshot(
        snapshot: &Snapshot,
        hparams: &Hparams,
        memory: Memory,
        n_ctx: usize,
    ) -> Result<State<T>, EngineError> {
        let mut state = State::new(hparams, memory, n_ctx);
        for (&sequence, of_sequence) in &snapshot.sequences {
            let n = of_sequence.n_past;
            of_sequence.check(hparams, sequence)?;
            let tokens = Ubatch {
                tokens: vec![0; n],
                positions: (0..n as i64).collect(),
                sequences: vec![sequence; n],
                outputs: vec![false; n],
            };
            let found = state.sequences.find(&tokens)?;
            let placement = state.sequences.place(&tokens, found);
            state.reserve(&placement, hparams);
            state.sequences.holds(sequence, n);
            let cells = placement.streams.iter().map(|placed| (placed.stream, &placed.cells));
            for (stream, cells) in cells {
                for (layer, of_layer) in state.layers.iter_mut().zip(&of_sequence.layers) {
                    if let (LayerState::Attention(caches), LayerSnapshot::Attention { k, v }) =
                        (layer, of_layer)
                        && let Some(cache) = caches.get_mut(&stream)
                    {
                        for (rows, own) in [(k, &mut cache.k), (v, &mut cache.v)] {
                            let rows = rows.rows().into_iter().zip(cells);
                            rows.for_each(|(row, &cell)| own.row_mut(cell).assign(&narrow(&row.to_owned())));
                        }
                    }
                }
            }
            for (layer, of_layer) in state.layers.iter_mut().zip(&of_sequence.layers) {
                if let (LayerState::DeltaNet(states), LayerSnapshot::DeltaNet { conv, s }) = (layer, of_layer)
                {
                    let (conv, s) = (History::new(narrow(conv)), History::new(narrow(s)));
                    states.insert(sequence, DeltaNetState { conv, s });
                }
            }
        }
        Ok(state)
    }
}

fn wide<T: Real, D: Dimension>(values: &Array<T, D>) -> Array<f64, D> {
    values.map(|x| x.to_f64())
}

fn narrow<T: Real, D: Dimension>(values: &Array<f64, D>) -> Array<T, D> {
    values.map(|&x| T::from_f64(x))
}
