//! Matrix products with the weights of a file, folded or plain, and the embedding lookup.

use std::borrow::Cow;
use std::collections::HashSet;

use ndarray::Array2;
use rayon::prelude::*;

use crate::arithmetic::Ggml;
use crate::engine::{ActivationMode, Conventions, EngineError, FoldScale, HeadOrder, ProjectionInput};
use crate::model::{FoldOrder, HeadPermutation, Model, Role, Transform};
use crate::ops::{Activations, Real, get_rows, mul_mat};

/// Multiplies with weights by name, each through its transform, and keeps count of which were reached.
pub(super) struct Projector<'m> {
    model: &'m Model,
    conventions: Conventions,
    /// What becomes of an activation in front of a product.
    pub(super) activations: ActivationMode,
    /// The build of ggml-cpu whose order of operations is followed.
    pub(super) ggml: Option<Ggml>,
    reached: HashSet<String>,
    all_reached: bool,
}

impl<'m> Projector<'m> {
    pub(super) fn new(model: &'m Model, conventions: &Conventions) -> Result<Self, EngineError> {
        if let (Some(block), Some(fold)) = (conventions.fold_block, model.fold())
            && let Some(width) = fold.widths().find(|width| !width.is_multiple_of(block as u64))
        {
            let why = format!("an input width is {width}");
            return Err(EngineError::Convention { name: "fold_block", candidate: block.to_string(), why });
        }
        let (conventions, activations, ggml) = (*conventions, ActivationMode::Whole, None);
        Ok(Projector { model, conventions, activations, ggml, reached: HashSet::new(), all_reached: false })
    }

    /// The rows of the embedding table for each token, in the basis of the residual stream.
    pub(super) fn embed<T: Real>(&mut self, tokens: &[u32]) -> Result<Array2<T>, EngineError> {
        let name = "token_embd.weight";
        let mut x = get_rows(&self.model.matrix(name)?, tokens);
        // As an output head the table is multiplied with, not looked up: only the inverse role applies here.
        if self.model.fold().and_then(|fold| fold.role(name)) == Some(Role::Inverse)
            && let Some(transform) = self.transform(name, x.ncols())
        {
            apply(&transform, &mut x);
        }
        Ok(x)
    }

    /// `x` times one weight.
    pub(super) fn mul_mat<T: Real>(
        &mut self,
        weight: &str,
        x: &Array2<T>,
        like: Option<&[f32]>,
    ) -> Result<Array2<T>, EngineError> {
        self.mul_mat_by_sequence(weight, x, like, 1)
    }

    /// The same of tokens that lie apart by sequence: a matrix each in llama.cpp, whose order of operations depends on its columns.
    pub(super) fn mul_mat_by_sequence<T: Real>(
        &mut self,
        weight: &str,
        x: &Array2<T>,
        like: Option<&[f32]>,
        n_seqs: usize,
    ) -> Result<Array2<T>, EngineError> {
        let [y] = self.multiply([weight], x, like, x.nrows() / n_seqs)?;
        Ok(y)
    }

    /// `x` times several weights; a transform that they share is applied once. `like` is what the reference had for `x`, if that
    /// is known and x is rounded; of what a transform makes of x the reference has nothing.
    pub(super) fn mul_mats<T: Real, const N: usize>(
        &mut self,
        weights: [&str; N],
        x: &Array2<T>,
        like: Option<&[f32]>,
    ) -> Result<[Array2<T>; N], EngineError> {
        self.multiply(weights, x, like, x.nrows())
    }

    /// `x` times several weights, in matrices of so many tokens.
    fn multiply<T: Real, const N: usize>(
        &mut self,
        weights: [&str; N],
        x: &Array2<T>,
        like: Option<&[f32]>,
        columns: usize,
    ) -> Result<[Array2<T>; N], EngineError> {
        let mut last: Option<(Transform<'_>, Array2<T>)> = None;
        let mut products = Vec::with_capacity(N);
        for name in weights {
            let (input, like) = match self.transform(name, x.ncols()) {
                None => (x, like),
                Some(transform) => {
                    if last.as_ref().is_none_or(|(applied, _)| *applied != transform) {
                        let mut rotated = x.clone();
                        apply(&transform, &mut rotated);
                        last = Some((transform, rotated));
                    }
                    if !self.all_reached {
                        self.reached.insert(name.to_owned());
                    }
                    (last.as_ref().map_or(x, |(_, rotated)| rotated), None)
                }
            };
            let followed = self.ggml.map(|ggml| Activations::Ggml(ggml, columns));
            let activations = followed.unwrap_or_else(|| self.activations.of(like));
            let mut y = mul_mat(&self.model.matrix(name)?, input.view(), activations);
            let scale = self.model.scale(name)?;
            if scale != 1.0 {
                y.mapv_inplace(|value| value * T::from_f32(scale));
            }
            products.push(y);
        }
        Ok(products.try_into().expect("one product per weight"))
    }

    /// The transform in front of (or behind) a weight, under the conventions; `None` if there is none.
    fn transform(&self, name: &str, width: usize) -> Option<Transform<'m>> {
        let conventions = &self.conventions;
        let fold = self.model.fold()?;
        let is_gate = name.ends_with(".ssm_alpha.weight") || name.ends_with(".ssm_beta.weight");
        let lender = match conventions.alpha_beta_input {
            // The transform of the folded weight that reads the same activation.
            ProjectionInput::Rotated if is_gate => {
                Cow::from(name.replace("ssm_alpha", "attn_qkv").replace("ssm_beta", "attn_qkv"))
            }
            _ => Cow::from(name),
        };
        let mut transform = fold.transform(&lender, width)?;
        transform.order = match transform.order {
            FoldOrder::WhtThenSigns => conventions.embedding_inverse_order,
            _ => conventions.fold_order,
        };
        transform.block = conventions.fold_block.unwrap_or(transform.block);
        transform.normalize = conventions.fold_scale == FoldScale::Normalized;
        if let Some(permutation) = transform.permutation.take() {
            transform.permutation = reorder(conventions.ssm_out_permutation, permutation)
                .map(|permutation| permutation.at(conventions.ssm_out_permutation_time));
        }
        if name.ends_with(".attn_output.weight") {
            let h = self.model.hparams();
            let heads = HeadPermutation::tiled_to_grouped(h.n_head_kv, h.n_head / h.n_head_kv, h.n_embd_head);
            transform.permutation = reorder(conventions.attn_output_permutation, heads);
        }
        Some(transform)
    }

    /// Checks, once a whole forward pass has run, that every folded weight went through its transform.
    pub(super) fn check_reached(&mut self) -> Result<(), EngineError> {
        if let (false, Some(fold)) = (self.all_reached, self.model.fold()) {
            if let Some(name) = fold.forward_names().iter().find(|name| !self.reached.contains(*name)) {
                return Err(EngineError::FoldNotReached { name: name.clone() });
            }
            self.all_reached = true;
            self.reached.clear();
        }
        Ok(())
    }
}

fn reorder(order: HeadOrder, tiled_to_grouped: HeadPermutation) -> Option<HeadPermutation> {
    match order {
        HeadOrder::Unchanged => None,
        HeadOrder::TiledToGrouped => Some(tiled_to_grouped),
        HeadOrder::GroupedToTiled => Some(tiled_to_grouped.inverse()),
    }
}

fn apply<T: Real>(transform: &Transform<'_>, x: &mut Array2<T>) {
    let width = x.ncols();
    let rows = x.as_slice_mut().expect("products and lookups are packed");
    rows.par_chunks_mut(width).for_each(|row| transform.apply(row));
}
