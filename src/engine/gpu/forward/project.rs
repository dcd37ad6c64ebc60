//! Matrix products with the weights of a file, folded or plain, and the embedding lookup.

use ndarray::{Array2, ArrayView2};

use super::{Pass, Tensor, Tokens, launch};
use crate::engine::gpu::weights::{Fold, Weight};
use crate::engine::gpu::{GpuError, Part, PartMut};
use crate::engine::{ActivationMode, EngineError};
use crate::ops::Taken;

impl Pass<'_, '_, '_> {
    /// The rows of the embedding table for each token, in the basis of the residual stream: `[n_tokens, n_embd]`.
    pub(super) fn embed(&mut self, tokens: &Tokens) -> Result<Tensor, EngineError> {
        let table = &self.weights.token_embd;
        let (n, width) = (tokens.n_tokens, self.hparams().n_embd);
        let mut rows = self.tensor(&[n, width])?;
        let fold = table.fold_behind();
        let fold = fold.as_ref().map(|fold| self.weights.fold_params(fold, width));
        let (device, to, matrix, ids) = (self.device, rows.all_mut(), &table.matrix, tokens.ids());
        match fold {
            Some(fold) if launch::get_rows_unfold_fits(matrix.ty(), &fold) => {
                launch::get_rows_unfold(device, to, matrix, ids, n, &fold)?;
            }
            fold => {
                launch::get_rows(device, to, matrix, ids, n)?;
                if let Some(fold) = fold {
                    launch::unfold_in_place(device, rows.all_mut(), n, width, &fold)?;
                }
            }
        }
        self.emit("model.input_embed", None, rows)
    }

    /// What the reference had for the activation that was emitted last, if activations are rounded and that is known.
    pub(super) fn rounds_like(&mut self) -> Result<Option<Vec<f32>>, EngineError> {
        match self.numerics.activations {
            ActivationMode::Whole => Ok(None),
            _ => self.emitter.rounds_like(),
        }
    }

    /// `x` `[n_tokens, n_in]` times each weight, `[n_tokens, n_out]`; a transform that they share is applied once. `like` is what
    /// the reference had for `x`, if that is known and x is rounded; of what a transform makes of x the reference has nothing.
    pub(super) fn mul_mats<const N: usize>(
        &self,
        weights: [&Weight; N],
        x: &Tensor,
        like: Option<&[f32]>,
    ) -> Result<[Tensor; N], EngineError> {
        let mut last: Option<(Fold, Tensor)> = None;
        let mut products = Vec::with_capacity(N);
        for weight in weights {
            let n_in = weight.matrix.n_in();
            let (input, like) = match weight.fold_in_front() {
                None => (x, like),
                Some(fold) => {
                    if last.as_ref().is_none_or(|(applied, _)| *applied != fold) {
                        last = Some((fold, self.folded(&fold, x, n_in)?));
                    }
                    (last.as_ref().map_or(x, |(_, folded)| folded), None)
                }
            };
            products.push(match self.numerics.activations {
                mode @ ActivationMode::Whole => self.product(weight, input, mode)?,
                mode @ ActivationMode::Mmvq if like.is_none() => self.product(weight, input, mode)?,
                mode => self.rounded_product(weight, input, mode, like)?,
            });
        }
        Ok(products.try_into().unwrap_or_else(|_| unreachable!("one product per weight")))
    }

    /// `x` times one weight.
    pub(super) fn mul_mat(
        &self,
        weight: &Weight,
        x: &Tensor,
        like: Option<&[f32]>,
    ) -> Result<Tensor, EngineError> {
        let [y] = self.mul_mats([weight], x, like)?;
        Ok(y)
    }

    pub(super) fn folded(&self, fold: &Fold, x: &Tensor, width: usize) -> Result<Tensor, EngineError> {
        let mut folded = self.tensor(&x.shape)?;
        let params = self.weights.fold_params(fold, width);
        launch::fold(self.device, folded.all_mut(), x.all(), x.len() / width, width, &params)?;
        Ok(folded)
    }

    fn product(&self, weight: &Weight, x: &Tensor, mode: ActivationMode) -> Result<Tensor, EngineError> {
        let n_tokens = x.len() / weight.matrix.n_in();
        let mut y = self.tensor(&[n_tokens, weight.matrix.n_out()])?;
        self.multiply(weight, y.all_mut(), x, mode, None)?;
        Ok(y)
    }

    /// `y = W x`, or what that is added to; in integers if activations are rounded as ggml-cuda does it and there are such products with
    /// the weight's type.
    pub(super) fn multiply(
        &self,
        weight: &Weight,
        y: PartMut<'_, f32>,
        x: &Tensor,
        mode: ActivationMode,
        residual: Option<Part<'_, f32>>,
    ) -> Result<(), GpuError> {
        let matrix = &weight.matrix;
        let n_tokens = x.len() / matrix.n_in();
        if mode != ActivationMode::Mmvq || !launch::takes_q8_1(matrix) {
            return launch::mul_mat(self.device, y, matrix, x.all(), n_tokens, residual);
        }
        let mut rounded = launch::Q8_1::alloc(self.device, x.len())?;
        launch::quantize_q8_1(self.device, &mut rounded, x.all())?;
        launch::mul_mat_q8_1(self.device, y, matrix, &rounded, n_tokens, residual)
    }

    /// The same with the activation rounded on the host, as the cpu engine does it: what ggml-cpu rounds is a matter of comparison, not
    /// of speed.
    fn rounded_product(
        &self,
        weight: &Weight,
        x: &Tensor,
        mode: ActivationMode,
        like: Option<&[f32]>,
    ) -> Result<Tensor, EngineError> {
        let n_in = weight.matrix.n_in();
        let values = self.device.read(x.all())?;
        let view = ArrayView2::from_shape((values.len() / n_in, n_in), &values).expect("packed");
        let rows = self.model.matrix(&weight.name)?;
        let taken = Taken::new(view, rows.ty(), mode.of(like));
        let mut input = self.tensor(&x.shape)?;
        self.device.write(&mut input.all_mut(), taken.x.as_slice().expect("packed"))?;
        let mut y = self.product(weight, &input, ActivationMode::Whole)?;
        let before = self.device.read(y.all())?;
        let shape = (y.shape[0], y.shape[1]);
        let mut corrected = Array2::from_shape_vec(shape, before).expect("packed");
        taken.correct(&rows, &mut corrected);
        self.device.write(&mut y.all_mut(), corrected.as_slice().expect("packed"))?;
        Ok(y)
    }
}
