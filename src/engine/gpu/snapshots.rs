//! The state of the engine as a value, and back.

use ndarray::Array2;

use super::cache::CacheRows;
use super::state::{LayerState, Sizes, State};
use super::{GpuEngine, GpuError};
use crate::engine::{EngineError, LayerSnapshot, Snapshot, Ubatch};

impl GpuEngine<'_> {
    /// What one layer holds of a sequence.
    pub(super) fn layer_snapshot(
        &self,
        layer: &LayerState,
        sequence: i32,
    ) -> Result<LayerSnapshot, EngineError> {
        let h = self.hparams();
        let Sizes { conv, s, kv_row, .. } = self.state.sizes();
        match layer {
            LayerState::Attention(caches) => {
                let cells = self.state.sequences.cells_of(sequence).unwrap_or_default();
                let cache = caches.get(&self.state.sequences.stream_of(sequence));
                let rows = |rows: Option<&CacheRows>| {
                    let mut values = Array2::zeros((cells.len(), h.n_embd_kv()));
                    let Some(rows) = rows else { return Ok(values) };
                    for (&cell, mut to) in cells.iter().zip(values.rows_mut()) {
                        let row = rows.read(&self.model.device, cell * kv_row..(cell + 1) * kv_row)?;
                        to.iter_mut().zip(row).for_each(|(to, x)| *to = f64::from(x));
                    }
                    Ok::<_, GpuError>(values)
                };
                let (k, v) = (rows(cache.map(|cache| &cache.k))?, rows(cache.map(|cache| &cache.v))?);
                Ok(LayerSnapshot::Attention { k, v })
            }
            LayerState::DeltaNet(states) => {
                let at = self.state.state_of(sequence).expect("a sequence that holds tokens has a slot");
                let wide = |part| {
                    Ok::<_, GpuError>(self.model.device.read(part)?.into_iter().map(f64::from).collect())
                };
                let columns = wide(states.conv.part(at.conv * conv..(at.conv + 1) * conv))?;
                let state = wide(states.s.part(at.s * s..(at.s + 1) * s))?;
                let (n_v, d) = (h.ssm_dt_rank, h.ssm_d_state);
                let expect = "a slot holds as many";
                Ok(LayerSnapshot::DeltaNet {
                    conv: Array2::from_shape_vec((h.conv_channels(), h.ssm_d_conv - 1), columns)
                        .expect(expect),
                    s: ndarray::Array3::from_shape_vec((n_v, d, d), state).expect(expect),
                })
            }
        }
    }

    /// A state that holds what a snapshot holds.
    pub(super) fn restored(&self, snapshot: &Snapshot) -> Result<State, EngineError> {
        let (device, h) = (&self.model.device, self.hparams());
        let mut state = self.empty()?;
        let Sizes { conv, s, kv_row, .. } = state.sizes();
        for (&sequence, of_sequence) in &snapshot.sequences {
            let n = of_sequence.n_past;
            of_sequence.check(h, sequence)?;
            let tokens = Ubatch {
                tokens: vec![0; n],
                positions: (0..n as i64).collect(),
                sequences: vec![sequence; n],
                outputs: vec![false; n],
            };
            let found = state.sequences.find(&tokens)?;
            state.reserve_streams(device, found.iter().map(|&(stream, _)| stream))?;
            let placement = state.sequences.place(&tokens, found);
            state.sequences.holds(sequence, n);
            let at = state.state_at(device, sequence)?;
            for (layer, of_layer) in state.layers.iter_mut().zip(&of_sequence.layers) {
                match (layer, of_layer) {
                    (LayerState::Attention(caches), LayerSnapshot::Attention { k, v }) => {
                        for placed in &placement.streams {
                            let Some(cache) = caches.get_mut(&placed.stream) else { continue };
                            for (rows, own) in [(k, &mut cache.k), (v, &mut cache.v)] {
                                for (row, &cell) in rows.rows().into_iter().zip(&placed.cells) {
                                    let row: Vec<f32> = row.iter().map(|&x| x as f32).collect();
                                    own.write(device, cell * kv_row, &row)?;
                                }
                            }
                        }
                    }
                    (LayerState::DeltaNet(states), LayerSnapshot::DeltaNet { conv: columns, s: own }) => {
                        let narrow =
                            |values: Vec<f64>| values.into_iter().map(|x| x as f32).collect::<Vec<_>>();
                        let columns = narrow(columns.iter().copied().collect());
                        let own = narrow(own.iter().copied().collect());
                        device.write(
                            &mut states.conv.part_mut(at.conv * conv..(at.conv + 1) * conv),
                            &columns,
                        )?;
                        device.write(&mut states.s.part_mut(at.s * s..(at.s + 1) * s), &own)?;
                    }
                    _ => unreachable!("the snapshot's layers were checked"),
                }
            }
        }
        Ok(state)
    }
}
