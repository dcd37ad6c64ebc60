//! The engine: a model's weights and the state of its sequences on one device.

use std::sync::Arc;

use ndarray::Array2;

use super::decode::{Decode, DecodeKey};
use super::forward::{self, Pass, Pool, Tensor};
use super::launch;
use super::state::State;
use super::supported;
use super::tokens::Tokens;
use super::weights::{GpuModel, rope};
use super::{Buffer, Device, GpuError};
use crate::engine::{
    ActivationMode, Conventions, DeltaNetRoute, Emitter, Engine, EngineError, Memory, NullTap, Numerics,
    OutputRows, QkL2Norm, SequenceSnapshot, Snapshot, StateChange, Tap, Ubatch,
};
use crate::model::Hparams;
use crate::tensor::GgmlType;

/// An engine that runs a model's layers on a GPU, or on the emulator of one.
pub struct GpuEngine<'m> {
    pub(super) model: Arc<GpuModel<'m>>,
    /// Cosine and sine of each angle, `[n_ctx, n_rot / 2, 2]`.
    rope: Buffer<f32>,
    numerics: Numerics,
    qk_l2_norm: QkL2Norm,
    memory: Memory,
    n_ctx: usize,
    pub(super) state: State,
    pool: Pool,
    /// Whether steps that launch the same at every position are recorded.
    records: bool,
    decode: Option<Decode>,
    steps: u32,
    /// A step has begun and not ended: some layers hold its tokens, others do not.
    unfinished: bool,
}

impl<'m> GpuEngine<'m> {
    /// An engine with an empty state, for at most `n_ctx` tokens in each sequence.
    ///
    /// # Errors
    /// If a convention is asked for that llama.cpp has not, a size of the model has no kernel, or memory does not suffice.
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
        supported::check(of, device.driver())?;
        let (numerics, memory) = (Numerics::default(), Memory::default());
        let types = (numerics.type_k, numerics.type_v);
        model.plan(types, n_ctx).check_sequence(device)?;
        let rope = device.upload(&launch::rope_table(&rope(of.hparams()), 0..n_ctx as i64))?;
        let state = State::new(device, of.hparams(), types, memory, n_ctx)?;
        let pool = Pool::new(device);
        let (model, steps, unfinished) = (Arc::clone(model), 0, false);
        Ok(GpuEngine {
            model,
            rope,
            numerics,
            qk_l2_norm,
            memory,
            n_ctx,
            state,
            pool,
            records: true,
            decode: None,
            steps,
            unfinished,
        })
    }

    /// The engine with another way to keep the state of its sequences; it forgets those that it has.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn with_memory(mut self, memory: Memory) -> Result<Self, EngineError> {
        self.memory = memory;
        self.put(self.empty()?);
        Ok(self)
    }

    /// The engine without recorded launches: each is made anew in every step.
    #[must_use]
    pub fn without_graph(mut self) -> Self {
        self.set_graph(false);
        self
    }

    /// Whether launches are recorded from now on; the sequences stay.
    pub fn set_graph(&mut self, records: bool) {
        self.records = records;
        self.decode = None;
    }

    /// Takes another state; what was recorded works in the one before.
    fn put(&mut self, state: State) {
        self.state = state;
        self.decode = None;
    }

    /// The engine with what it rounds on purpose; it forgets the sequences that it has.
    ///
    /// # Errors
    /// If keys or values are to be of a type that it does not keep, or of two types.
    pub fn with_numerics(mut self, numerics: Numerics) -> Result<Self, EngineError> {
        numerics.check(self.hparams())?;
        let (k, v) = (numerics.type_k, numerics.type_v);
        if k != v {
            let what = format!("keys of {k} and values of {v}: it keeps both in one type");
            return Err(EngineError::NotSupported { engine: self.model.device.driver().to_string(), what });
        }
        self.numerics = numerics;
        self.put(self.empty()?);
        Ok(self)
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        &self.model.device
    }

    pub(super) fn hparams(&self) -> &'m Hparams {
        self.model.model.hparams()
    }

    fn types(&self) -> (GgmlType, GgmlType) {
        (self.numerics.type_k, self.numerics.type_v)
    }

    pub(super) fn empty(&self) -> Result<State, GpuError> {
        State::new(&self.model.device, self.hparams(), self.types(), self.memory, self.n_ctx)
    }

    /// Runs all layers.
    fn run(
        &mut self,
        ubatch: &Ubatch,
        tokens: &Tokens,
        tap: &mut dyn Tap,
    ) -> Result<Option<Tensor>, EngineError> {
        let wanted: Vec<usize> = (0..ubatch.tokens.len()).filter(|&t| ubatch.outputs[t]).collect();
        let mut pass = Pass {
            device: &self.model.device,
            model: self.model.model,
            weights: &self.model.weights,
            rope: &self.rope,
            numerics: self.numerics,
            qk_l2_norm: self.qk_l2_norm,
            memory: self.memory,
            pool: &self.pool,
            emitter: Emitter::new(tap, self.steps),
        };
        pass.run(&wanted, tokens, &mut self.state)
    }

    /// What a step depends on besides the numbers that it reads from device memory, if it is one that launches the same at every
    /// position: one token of each sequence, with its logits, nobody looks on, and every layer runs in few launches.
    fn recordable(&self, ubatch: &Ubatch, tokens: &Tokens, is_tapped: bool) -> Option<DecodeKey> {
        let is_single = tokens.of_sequence() == 1 && ubatch.outputs.iter().all(|&wanted| wanted);
        let is_plain = self.memory.n_rs_seq == 0
            && self.numerics.activations == ActivationMode::Whole
            && self.numerics.delta_net == DeltaNetRoute::Fused
            && self.numerics.dialect.output_rows == OutputRows::BehindLastNorm;
        let takes = |layer| forward::takes(layer, self.hparams(), &self.numerics);
        let is_plain = is_plain && self.model.weights.layers.iter().all(takes);
        let has_lists = tokens.streams.iter().any(|stream| tokens.list(stream).is_some());
        let records = self.records && is_single && is_plain && !has_lists && !is_tapped;
        let streams = || tokens.placement.streams.iter().map(|placed| placed.stream);
        records.then(|| DecodeKey { streams: streams().collect(), n_slots: self.state.n_slots() })
    }

    /// A step that is recorded when it comes for the second time, and replayed from then on.
    fn decode(&mut self, key: DecodeKey, ubatch: &Ubatch, tokens: &Tokens) -> Result<Vec<f32>, EngineError> {
        let device = self.model.device.clone();
        let known = self.decode.take().filter(|decode| decode.key == key);
        let recorded = match known {
            // The first time kernels are compiled and buffers made, which cannot be recorded.
            None => {
                self.decode = Some(Decode::first(key));
                let logits = self.run(ubatch, tokens, &mut NullTap)?;
                return Ok(device.read(logits.expect("all tokens have outputs").all())?);
            }
            Some(Decode { recorded: Some(recorded), .. }) => recorded,
            Some(_) => {
                let mut logits = None;
                let launches = device.record(|| {
                    logits = self.run(ubatch, tokens, &mut NullTap)?;
                    Ok::<_, EngineError>(())
                })?;
                (launches, logits.expect("all tokens have outputs"))
            }
        };
        recorded.0.replay()?;
        let logits = device.read(recorded.1.all())?;
        self.decode = Some(Decode { key, recorded: Some(recorded), ints: None });
        Ok(logits)
    }

    fn check_finished(&self) -> Result<(), EngineError> {
        if self.unfinished { Err(EngineError::Unfinished { step: self.steps }) } else { Ok(()) }
    }
}

impl Engine for GpuEngine<'_> {
    fn notes(&self) -> Vec<String> {
        let device = self.model.device.name().unwrap_or_else(|error| error.to_string());
        vec![format!("device: {device}; memory: {}", self.model.plan(self.types(), self.n_ctx))]
    }

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
        let device = self.model.device.clone();
        let ints = self.decode.as_mut().and_then(Decode::take_ints);
        let tokens = Tokens::place(&device, &mut self.state, ubatch, found, ints)?;
        let key = self.recordable(ubatch, &tokens, tap.is_active());
        let logits = match key {
            None => {
                let logits = self.run(ubatch, &tokens, tap)?;
                logits.map_or(Ok(Vec::new()), |logits| device.read(logits.all()))?
            }
            Some(key) => self.decode(key, ubatch, &tokens)?,
        };
        if let Some(decode) = &mut self.decode {
            decode.give_ints(tokens);
        }
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
        self.put(self.restored(snapshot)?);
        self.unfinished = false;
        Ok(())
    }

    fn reset(&mut self) {
        self.state.reset();
        self.steps = 0;
        self.unfinished = false;
    }
}
