//! The forward pass on the CPU, composed from plain operators, in f32 or f64 arithmetic.
//!
//! Weights stay as they lie in the file and are decoded row by row; activations are of the arithmetic's type, and rounded on
//! the way only where [`Numerics`] says so. Every tensor that llama.cpp names is emitted under its name, with its shape, and with the
//! occurrence it has in llama.cpp's graph (models/qwen35.cpp, delta-net-base.cpp).

mod attention;
mod delta_net;
mod faults;
mod feed_forward;
mod follow;
mod head;
mod project;
mod snapshots;
mod state;

use ndarray::{Array, Array2, Axis, Dimension};

use self::project::Projector;
use self::state::{LayerState, State};
use super::{
    ActivationMode, Conventions, Emitter, Engine, EngineError, Memory, NormWeight, Numerics, OutputRows,
    Snapshot, StateChange, StateFault, Tap, Ubatch,
};
use crate::arithmetic::{Product, Shape};
use crate::model::{Hparams, LayerKind, Model};
use crate::ops::{Real, rms_norm_with};
use crate::tensor::GgmlType;

/// An engine that runs everywhere.
pub struct CpuEngine<'m, T> {
    model: &'m Model,
    conventions: Conventions,
    numerics: Numerics,
    projector: Projector<'m>,
    state: State<T>,
    n_ctx: usize,
    memory: Memory,
    fault: Option<StateFault>,
    steps: u32,
    /// A step has begun and not ended: some layers hold its tokens, others do not.
    unfinished: bool,
}

/// What every part of a layer works with.
struct Context<'a, 'm, 't> {
    model: &'m Model,
    conventions: &'a Conventions,
    numerics: Numerics,
    memory: Memory,
    fault: Option<StateFault>,
    projector: &'a mut Projector<'m>,
    emitter: Emitter<'t>,
}

impl<'m, T: Real> CpuEngine<'m, T> {
    /// An engine with an empty state, for at most `n_ctx` tokens in each sequence.
    ///
    /// # Errors
    /// If a convention cannot be applied to this model.
    pub fn new(model: &'m Model, conventions: Conventions, n_ctx: usize) -> Result<Self, EngineError> {
        let projector = Projector::new(model, &conventions)?;
        attention::check(model.hparams(), &conventions)?;
        let (numerics, memory) = (Numerics::default(), Memory::default());
        let state = State::new(model.hparams(), memory, n_ctx);
        let (fault, steps, unfinished) = (None, 0, false);
        Ok(CpuEngine {
            model,
            conventions,
            numerics,
            projector,
            state,
            n_ctx,
            memory,
            fault,
            steps,
            unfinished,
        })
    }

    /// The engine with another way to keep the state of its sequences; it forgets those that it has. Where all share one
    /// stream, `n_ctx` is for their tokens together.
    #[must_use]
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self.reset();
        self
    }

    /// The engine with what it rounds on purpose.
    ///
    /// # Errors
    /// If keys or values are to be of a type that it does not keep, or activations rounded in blocks that do not divide them.
    pub fn with_numerics(mut self, numerics: Numerics) -> Result<Self, EngineError> {
        numerics.check(self.model.hparams())?;
        follow::check(self.model, &self.conventions, numerics, T::ISA)?;
        self.numerics = numerics;
        self.projector.activations = numerics.activations;
        self.projector.ggml = numerics.ggml;
        Ok(self)
    }

    /// The engine with a mistake that it makes on purpose.
    #[must_use]
    pub fn with_fault(mut self, fault: Option<StateFault>) -> Self {
        self.fault = fault;
        self
    }
}

impl<T: Real> Engine for CpuEngine<'_, T> {
    fn name(&self) -> String {
        let mut name = format!("cpu {}", T::NAME);
        let rounded = self.numerics.describe();
        if !rounded.is_empty() {
            name += &format!(" ({rounded})");
        }
        if let Some(fault) = self.fault {
            name += &format!(", wrong on purpose: {fault}");
        }
        name
    }

    fn step(&mut self, ubatch: &Ubatch, tap: &mut dyn Tap) -> Result<Array2<f32>, EngineError> {
        if self.unfinished {
            return Err(EngineError::Unfinished { step: self.steps });
        }
        let mut found = self.state.sequences.check(ubatch, self.model.hparams().n_vocab)?;
        self.unfinished = true;
        if self.fault == Some(StateFault::KvSlotReused) {
            self.state.reuse_last_cells(ubatch, &mut found);
        }
        let placement = self.state.sequences.place(ubatch, found);
        self.state.reserve(&placement, self.model.hparams());
        let mut context = Context {
            model: self.model,
            conventions: &self.conventions,
            numerics: self.numerics,
            memory: self.memory,
            fault: self.fault,
            projector: &mut self.projector,
            emitter: Emitter::new(tap, self.steps),
        };
        let hparams = self.model.hparams();
        let wanted: Vec<usize> = (0..ubatch.tokens.len()).filter(|&t| ubatch.outputs[t]).collect();
        let picks_early = context.numerics.dialect.output_rows == OutputRows::InLastLayer;
        let mut residual = context.projector.embed::<T>(&ubatch.tokens)?;
        residual = context.emitter.emit("model.input_embed", None, residual)?;
        for (il, kind) in hparams.layers.iter().enumerate() {
            let input =
                context.norm(il, &format!("blk.{il}.attn_norm.weight"), "attn_norm", residual.clone())?;
            let mut mixed = match (kind, &mut self.state.layers[il]) {
                (LayerKind::Attention, LayerState::Attention(caches)) => {
                    attention::run(&mut context, il, input, caches, &placement, &ubatch.positions)?
                }
                (LayerKind::DeltaNet, LayerState::DeltaNet(states)) => {
                    delta_net::run(&mut context, il, input, states, &placement.sequences)?
                }
                _ => unreachable!("the state is built from the same list of layers"),
            };
            if picks_early && il + 1 == hparams.layers.len() {
                (mixed, residual) = (mixed.select(Axis(0), &wanted), residual.select(Axis(0), &wanted));
                // llama.cpp evaluates nothing that has no elements.
                if wanted.is_empty() {
                    break;
                }
            }
            residual = context.emitter.emit("attn_residual", Some(il), mixed + residual)?;
            let name = format!("blk.{il}.post_attention_norm.weight");
            let input = context.norm(il, &name, "attn_post_norm", residual.clone())?;
            let ffn_out = feed_forward::run(&mut context, il, input)?;
            residual = context.emitter.emit("l_out", Some(il), ffn_out + residual)?;
        }
        let logits = head::run(&mut context, residual, &wanted)?;
        if self.fault == Some(StateFault::StateBf16) {
            self.state.round_to_bf16(&placement.sequences);
        }
        self.state.sequences.advance(&ubatch.sequences);
        self.steps += 1;
        self.unfinished = false;
        Ok(logits.mapv(|x| x.to_f64() as f32))
    }

    fn change(&mut self, change: StateChange) -> Result<(), EngineError> {
        if self.unfinished {
            return Err(EngineError::Unfinished { step: self.steps });
        }
        let keeps_states = self.fault == Some(StateFault::NotReset) && change == StateChange::Clear;
        let states = keeps_states.then(|| self.state.take_delta_nets());
        self.state.change(change)?;
        self.state.put_delta_nets(states.unwrap_or_default());
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        if self.unfinished {
            return Err(EngineError::Unfinished { step: self.steps });
        }
        Ok(self.state.snapshot())
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), EngineError> {
        self.state = State::of_snapshot(snapshot, self.model.hparams(), self.memory, self.n_ctx)?;
        self.unfinished = false;
        Ok(())
    }

    fn reset(&mut self) {
        self.state = State::new(self.model.hparams(), self.memory, self.n_ctx);
        self.steps = 0;
        self.unfinished = false;
    }
}

impl Context<'_, '_, '_> {
    fn hparams(&self) -> &Hparams {
        self.model.hparams()
    }

    fn eps(&self) -> f64 {
        f64::from(self.hparams().f_norm_rms_eps)
    }

    /// How elements of a product of floats are formed, in the order of operations that is followed.
    fn product(&self, ty: GgmlType, rows: usize, columns: usize, contiguous: bool) -> Product {
        let shape = Shape { ty, rows, columns, contiguous };
        Product::of(self.numerics.ggml, shape)
    }

    /// The norm of every layer and of the head; the delta net's own is apart.
    fn rms_norm<T: Real, D: Dimension>(&self, x: &mut Array<T, D>) {
        rms_norm_with(x, self.eps(), self.conventions.rms_norm_eps_place);
    }

    /// What the reference had for the activation that was emitted last, if activations are rounded and that is known.
    fn rounds_like(&mut self) -> Result<Option<Vec<f32>>, EngineError> {
        match self.numerics.activations {
            ActivationMode::Whole => Ok(None),
            _ => self.emitter.rounds_like(),
        }
    }

    /// The same for what is rounded to a type: keys, values, queries, probabilities.
    fn rounds_like_in(&mut self, ty: GgmlType) -> Result<Option<Vec<f32>>, EngineError> {
        if ty == GgmlType::F32 { Ok(None) } else { self.emitter.rounds_like() }
    }

    /// RMS norm and weight, emitted as `norm-il` and `name-il`.
    fn norm<T: Real, D: Dimension>(
        &mut self,
        il: usize,
        weight: &str,
        name: &str,
        mut x: Array<T, D>,
    ) -> Result<Array<T, D>, EngineError> {
        self.rms_norm(&mut x);
        let x = self.emitter.emit("norm", Some(il), x)?;
        let x = self.weighted(weight, x)?;
        self.emitter.emit(name, Some(il), x)
    }

    /// Multiplies each row with a norm's weight.
    fn weighted<T: Real, D: Dimension>(
        &self,
        weight: &str,
        mut x: Array<T, D>,
    ) -> Result<Array<T, D>, EngineError> {
        let offset = match self.conventions.rms_norm_weight {
            NormWeight::Plain => T::ZERO,
            NormWeight::OnePlus => T::ONE,
        };
        let weight: Vec<T> =
            self.model.vector(weight)?.into_iter().map(|w| T::from_f32(w) + offset).collect();
        scale_rows(&mut x, &weight);
        Ok(x)
    }

    /// A small tensor in the arithmetic's type.
    fn vector<T: Real>(&self, name: &str) -> Result<Vec<T>, EngineError> {
        Ok(self.model.vector(name)?.into_iter().map(T::from_f32).collect())
    }
}

/// Multiplies each row of `x` element by element with `factors`.
fn scale_rows<T: Real, D: Dimension>(x: &mut Array<T, D>, factors: &[T]) {
    for mut row in x.rows_mut() {
        row.iter_mut().zip(factors).for_each(|(value, &factor)| *value = *value * factor);
    }
}
