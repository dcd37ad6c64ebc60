//! The engine: a model's weights and the state of its sequences on one device.

use std::sync::Arc;

use ndarray::Array2;

use super::cache::CacheRows;
use super::forward::{Pass, Pool};
use super::launch;
use super::state::{LayerState, Sizes, State};
use super::tokens::Tokens;
use super::weights::{GpuModel, rope};
use super::{Buffer, Device, GpuError};
use crate::engine::{
    Conventions, DeltaNetRoute, Emitter, Engine, EngineError, LayerSnapshot, Memory, Numerics, QkL2Norm,
    SequenceSnapshot, Snapshot, StateChange, Tap, Ubatch,
};
use crate::model::Hparams;
use crate::tensor::GgmlType;

/// An engine that runs a model's layers on a GPU, or on the emulator of one.
pub struct GpuEngine<'m> {
    model: Arc<GpuModel<'m>>,
    /// Cosine and sine of each angle, `[n_ctx, n_rot / 2, 2]`.
    rope: Buffer<f32>,
    numerics: Numerics,
    qk_l2_norm: QkL2Norm,
    memory: Memory,
    n_ctx: usize,
    state: State,
    pool: Pool,
    steps: u32,
    /// A step has begun and not ended: some layers hold its tokens, others do not.
    unfinished: bool,
}

impl<'m> GpuEngine<'m> {
    /// An engine with an empty state, for at most `n_ctx` tokens in each sequence.
    ///
    /// # Errors
    /// If a convention is asked for that llama.cpp has not, or memory does not suffice.
    pub fn new(
        model: &Arc<GpuModel<'m>>,
        conventions: Conventions,
        n_ctx: usize,
    ) -> Result<GpuEngine<'m>, EngineError> {
        let GpuModel { device, model: of, .. } = &**model;
        let qk_l2_norm = conventions.qk_l2_norm;
        let others = Conventions { qk_l2_norm: Conventions::default().qk_l2_norm, ..conventions };
        if others != Conventions::default() || qk_l2_norm == QkL2Norm::Absent {
            let what = format!("{}: it computes as llama.cpp does", conventions.departures().join(", "));
            return Err(EngineError::NotSupported { engine: device.driver().to_string(), what });
        }
        let rope = device.upload(&launch::rope_table(&rope(of.hparams()), 0..n_ctx as i64))?;
        let (numerics, memory) = (Numerics::default(), Memory::default());
        let types = (numerics.type_k, numerics.type_v);
        let state = State::new(device, of.hparams(), types, memory, n_ctx)?;
        let pool = Pool::new(device);
        let (model, steps, unfinished) = (Arc::clone(model), 0, false);
        Ok(GpuEngine { model, rope, numerics, qk_l2_norm, memory, n_ctx, state, pool, steps, unfinished })
    }

    /// The engine with another way to keep the state of its sequences; it forgets those that it has.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn with_memory(mut self, memory: Memory) -> Result<Self, EngineError> {
        self.memory = memory;
        self.state = self.empty()?;
        Ok(self)
    }

    /// The engine with what it rounds on purpose; it forgets the sequences that it has.
    ///
    /// # Errors
    /// If keys or values are to be of a type that it does not keep, or the delta net is to run out of plain operators.
    pub fn with_numerics(mut self, numerics: Numerics) -> Result<Self, EngineError> {
        numerics.check(self.hparams())?;
        if numerics.delta_net == DeltaNetRoute::Unfused {
            let what = "a delta net out of plain operators (fused_gdn off)".to_owned();
            return Err(EngineError::NotSupported { engine: self.model.device.driver().to_string(), what });
        }
        self.numerics = numerics;
        self.state = self.empty()?;
        Ok(self)
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        &self.model.device
    }

    fn hparams(&self) -> &'m Hparams {
        self.model.model.hparams()
    }

    fn types(&self) -> (GgmlType, GgmlType) {
        (self.numerics.type_k, self.numerics.type_v)
    }

    fn empty(&self) -> Result<State, GpuError> {
        State::new(&self.model.device, self.hparams(), self.types(), self.memory, self.n_ctx)
    }

    fn check_finished(&self) -> Result<(), EngineError> {
        if self.unfinished { Err(EngineError::Unfinished { step: self.steps }) } else { Ok(()) }
    }

    /// What one layer holds of a sequence.
    fn layer_snapshot(&self, layer: &LayerState, sequence: i32) -> Result<LayerSnapshot, EngineError> {
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
    fn restored(&self, snapshot: &Snapshot) -> Result<State, EngineError> {
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

impl Engine for GpuEngine<'_> {
    fn name(&self) -> String {
        let name = self.model.device.driver().to_string();
        match self.numerics.describe() {
            rounded if rounded.is_empty() => name,
            rounded => format!("{name} ({rounded})"),
        }
    }

    fn step(&mut self, ubatch: &Ubatch, tap: &mut dyn Tap) -> Result<Array2<f32>, EngineError> {
        self.check_finished()?;
        let found = self.state.sequences.check(ubatch, self.hparams().n_vocab)?;
        self.unfinished = true;
        let device = &self.model.device;
        let tokens = Tokens::place(device, &mut self.state, ubatch, found, None)?;
        let wanted: Vec<usize> = (0..ubatch.tokens.len()).filter(|&t| ubatch.outputs[t]).collect();
        let mut pass = Pass {
            device,
            model: self.model.model,
            weights: &self.model.weights,
            rope: &self.rope,
            numerics: self.numerics,
            qk_l2_norm: self.qk_l2_norm,
            memory: self.memory,
            pool: &self.pool,
            emitter: Emitter::new(tap, self.steps),
        };
        let logits = match pass.run(&wanted, &tokens, &mut self.state)? {
            Some(logits) => device.read(logits.all())?,
            None => Vec::new(),
        };
        self.state.advance(&ubatch.sequences);
        self.steps += 1;
        self.unfinished = false;
        let n_vocab = self.hparams().n_vocab;
        let shape = (logits.len() / n_vocab, n_vocab);
        Ok(Array2::from_shape_vec(shape, logits).expect("rows of the vocabulary"))
    }

    fn change(&mut self, change: StateChange) -> Result<(), EngineError> {
        self.check_finished()?;
        self.state.change(&self.model.device, change)
    }

    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.check_finished()?;
        let mut snapshot = Snapshot::default();
        for (sequence, n_past) in self.state.sequences.all() {
            let layers = self.state.layers.iter().map(|layer| self.layer_snapshot(layer, sequence));
            let layers = layers.collect::<Result<_, _>>()?;
            snapshot.sequences.insert(sequence, SequenceSnapshot { n_past, layers });
        }
        Ok(snapshot)
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.state = self.restored(snapshot)?;
        self.unfinished = false;
        Ok(())
    }

    fn reset(&mut self) {
        self.state.reset();
        self.steps = 0;
        self.unfinished = false;
    }
}
