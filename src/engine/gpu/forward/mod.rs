//! One step, operator by operator: each tensor with a name is a buffer of its own, which a tap may look at and replace.

mod attention;
mod delta_net;
mod feed_forward;
mod fused;
mod head;
mod input;
mod project;
mod recurrence;
mod tensor;
mod unfused;

pub(super) use fused::takes;
pub(super) use tensor::{Pool, Tensor};

use super::state::{LayerState, State};
use super::tokens::Tokens;
use super::weights::{Mixer, Weights};
use super::{Buffer, Device, launch};
use crate::engine::{Emitter, EngineError, Memory, Numerics, OutputRows, QkL2Norm};
use crate::model::{Hparams, Model};
use crate::ops::Real;
use crate::tensor::Values;

/// What every part of a layer works with.
pub(super) struct Pass<'a, 'm, 't> {
    pub(super) device: &'a Device,
    pub(super) model: &'m Model,
    pub(super) weights: &'a Weights,
    /// Cosine and sine of each angle, `[n_ctx, n_rot / 2, 2]`.
    pub(super) rope: &'a Buffer<f32>,
    pub(super) numerics: Numerics,
    pub(super) qk_l2_norm: QkL2Norm,
    pub(super) memory: Memory,
    pub(super) pool: &'a Pool,
    pub(super) emitter: Emitter<'t>,
}

impl<'m> Pass<'_, 'm, '_> {
    pub(super) fn hparams(&self) -> &'m Hparams {
        self.model.hparams()
    }

    fn eps(&self) -> f32 {
        self.hparams().f_norm_rms_eps
    }

    /// A tensor with nothing in it yet.
    fn tensor(&self, shape: &[usize]) -> Result<Tensor, EngineError> {
        Ok(self.pool.tensor(shape)?)
    }

    /// Runs all layers; returns logits `[wanted, n_vocab]`, if any are wanted. Where the tap wants nothing of what lies inside a mixer,
    /// a feed-forward net or the head, that runs in few launches.
    pub(super) fn run(
        &mut self,
        wanted: &[usize],
        tokens: &Tokens,
        state: &mut State,
    ) -> Result<Option<Tensor>, EngineError> {
        let picks_early = self.numerics.dialect.output_rows == OutputRows::InLastLayer;
        let mut residual = self.embed(tokens)?;
        let sizes = state.sizes();
        let n_layer = self.weights.layers.len();
        for il in 0..n_layer {
            let weights = &self.weights.layers[il];
            let picks_here = picks_early && il + 1 == n_layer;
            let fused = match (&weights.mixer, &mut state.layers[il]) {
                _ if picks_here => None,
                (Mixer::Attention(own), LayerState::Attention(caches)) => {
                    fused::attention(self, il, (weights, own), &residual, caches, tokens)?
                }
                (Mixer::DeltaNet(own), LayerState::DeltaNet(states)) => {
                    fused::delta_net(self, il, (weights, own), &residual, states, sizes, tokens)?
                }
                _ => None,
            };
            residual = match fused {
                Some(sum) => self.emit("attn_residual", Some(il), sum)?,
                None => {
                    let input = self.norm(il, &weights.attn_norm, "attn_norm", &residual)?;
                    let mut mixed = match (&weights.mixer, &mut state.layers[il]) {
                        (Mixer::Attention(own), LayerState::Attention(caches)) => {
                            attention::run(self, il, own, input, caches, sizes, tokens)?
                        }
                        (Mixer::DeltaNet(own), LayerState::DeltaNet(states)) => {
                            delta_net::run(self, il, own, input, states, sizes, tokens)?
                        }
                        _ => unreachable!("the state is built from the same list of layers"),
                    };
                    if picks_here {
                        // llama.cpp evaluates nothing that has no elements.
                        if wanted.is_empty() {
                            return Ok(None);
                        }
                        (mixed, residual) = (self.pick(&mixed, tokens)?, self.pick(&residual, tokens)?);
                    }
                    self.add("attn_residual", il, &mixed, &residual)?
                }
            };
            residual = match fused::feed_forward(self, il, weights, &residual)? {
                Some(sum) => self.emit("l_out", Some(il), sum)?,
                None => {
                    let input = self.norm(il, &weights.post_attention_norm, "attn_post_norm", &residual)?;
                    let ffn_out = feed_forward::run(self, il, weights, input)?;
                    self.add("l_out", il, &ffn_out, &residual)?
                }
            };
        }
        match fused::head(self, &residual, wanted, tokens)? {
            Some(logits) => self.emit("result_output", None, logits).map(Some),
            None => head::run(self, residual, wanted, tokens),
        }
    }

    fn add(&mut self, name: &str, il: usize, a: &Tensor, b: &Tensor) -> Result<Tensor, EngineError> {
        let mut sum = self.tensor(&a.shape)?;
        launch::add(self.device, sum.all_mut(), a.all(), b.all())?;
        self.emit(name, Some(il), sum)
    }

    /// RMS norm and weight of each row, emitted as `norm-il` and `name-il`.
    fn norm(
        &mut self,
        il: usize,
        weight: &Buffer<f32>,
        name: &str,
        x: &Tensor,
    ) -> Result<Tensor, EngineError> {
        let normed = self.rms_norm(x, weight.len())?;
        let normed = self.emit("norm", Some(il), normed)?;
        let weighted = self.weighted(weight, normed)?;
        self.emit(name, Some(il), weighted)
    }

    fn rms_norm(&self, x: &Tensor, width: usize) -> Result<Tensor, EngineError> {
        let mut normed = self.tensor(&x.shape)?;
        let rows = x.len() / width;
        launch::rms_norm(self.device, normed.all_mut(), x.all(), rows, width, self.eps())?;
        Ok(normed)
    }

    /// Each row times a weight.
    fn weighted(&self, weight: &Buffer<f32>, x: Tensor) -> Result<Tensor, EngineError> {
        let mut y = self.tensor(&x.shape)?;
        launch::mul_row(self.device, y.all_mut(), x.all(), weight.all())?;
        Ok(y)
    }

    /// The rows of tokens with outputs, of `[n, width]`.
    fn pick(&self, x: &Tensor, tokens: &Tokens) -> Result<Tensor, EngineError> {
        let (rows, width) = (tokens.outputs(), x.shape[1]);
        let mut picked = self.tensor(&[rows.len(), width])?;
        launch::gather_rows(self.device, picked.all_mut(), x.all(), rows, width)?;
        Ok(picked)
    }

    /// Shows a tensor to the tap, if it wants it; returns it, or what the tap put in its place.
    fn emit(&mut self, name: &str, layer: Option<usize>, mut tensor: Tensor) -> Result<Tensor, EngineError> {
        if !self.emitter.wants_any(&[name], layer) {
            self.emitter.skip(&[name], layer);
            return Ok(tensor);
        }
        let values = self.device.read(tensor.all())?;
        if let Some(replacement) = self.emitter.offer(name, layer, &tensor.shape, Values::F32(&values))? {
            self.device.write(&mut tensor.all_mut(), &replacement)?;
        }
        Ok(tensor)
    }

    /// Shows a view of a tensor that has been emitted already: `values` makes what the view shows, if anybody wants it.
    fn observe(
        &mut self,
        name: &str,
        layer: Option<usize>,
        shape: &[usize],
        values: impl FnOnce(&Device) -> Result<Vec<f32>, EngineError>,
    ) -> Result<(), EngineError> {
        if !self.emitter.wants_any(&[name], layer) {
            self.emitter.skip(&[name], layer);
            return Ok(());
        }
        let values = values(self.device)?;
        self.emitter.offer(name, layer, shape, f32::values(&values)).map(drop)
    }
}
