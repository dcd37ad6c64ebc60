//! Activations as matrices read them in few launches: what makes them ends in the fold of the matrices behind, and matrices of one
//! activation share a launch.

use super::{Pass, Tensor, launch};
use crate::engine::gpu::weights::{Fold, Weight};
use crate::engine::gpu::{Buffer, GpuError, Matrix, PartMut};
use crate::engine::{ActivationMode, EngineError};
use crate::tensor::GgmlType;

/// An activation as matrices read it: as it is, and folded.
pub(super) struct Input {
    plain: Option<Tensor>,
    folded: Option<(Fold, Tensor)>,
}

impl Input {
    fn of(&self, weight: &Weight) -> &Tensor {
        let folded = self.folded.as_ref().map(|(_, folded)| folded);
        let own = if weight.fold_in_front().is_some() { folded } else { self.plain.as_ref() };
        own.expect("made for these weights")
    }
}

/// What the inputs of some matrices need: whether one reads the activation as it is, and the one transform that the others share.
pub(super) struct Needs {
    plain: bool,
    pub(super) fold: Option<Fold>,
}

impl Needs {
    /// None if two transforms differ.
    pub(super) fn of(weights: &[&Weight]) -> Option<Needs> {
        let mut folds = weights.iter().filter_map(|weight| weight.fold_in_front());
        let fold = folds.next();
        let plain = weights.iter().any(|weight| weight.fold_in_front().is_none());
        folds.all(|other| Some(other) == fold).then_some(Needs { plain, fold })
    }
}

impl Pass<'_, '_, '_> {
    /// Norm and weight of each row, as matrices read it.
    pub(super) fn normed(
        &self,
        x: &Tensor,
        weight: &Buffer<f32>,
        needs: &Needs,
    ) -> Result<Input, EngineError> {
        let n = weight.len();
        let rows = x.len() / n;
        let (device, eps) = (self.device, self.eps());
        self.input(
            &x.shape,
            needs,
            |fold| launch::rms_norm_fold_fits(n, fold),
            |to, fold| launch::rms_norm_fold(device, to, x.all(), weight.all(), [rows, n], eps, fold),
            |to| launch::rms_norm_weighted(device, to, x.all(), weight.all(), [rows, n], eps),
        )
    }

    /// What is needed of an activation: by the kernel that ends in the fold if that fits it, else by the plain one, and a fold behind
    /// it if there is one.
    pub(super) fn input(
        &self,
        shape: &[usize],
        needs: &Needs,
        fits: impl FnOnce(&launch::FoldParams<'_>) -> bool,
        folded: impl FnOnce(launch::Folded<'_>, &launch::FoldParams<'_>) -> Result<(), GpuError>,
        plain: impl FnOnce(PartMut<'_, f32>) -> Result<(), GpuError>,
    ) -> Result<Input, EngineError> {
        let width = shape.last().copied().unwrap_or(0);
        if let Some(fold) = needs.fold
            && fits(&self.weights.fold_params(&fold, width))
        {
            return self.with_fold(shape, fold, needs, folded);
        }
        let mut of_plain = self.tensor(shape)?;
        plain(of_plain.all_mut())?;
        let folded = match needs.fold {
            Some(fold) => Some((fold, self.folded(&fold, &of_plain, width)?)),
            None => None,
        };
        Ok(Input { plain: Some(of_plain), folded })
    }

    /// What a kernel that ends in a fold makes.
    pub(super) fn with_fold(
        &self,
        shape: &[usize],
        fold: Fold,
        needs: &Needs,
        make: impl FnOnce(launch::Folded<'_>, &launch::FoldParams<'_>) -> Result<(), GpuError>,
    ) -> Result<Input, EngineError> {
        let mut plain = if needs.plain { Some(self.tensor(shape)?) } else { None };
        let mut folded = self.tensor(shape)?;
        let width = shape.last().copied().unwrap_or(0);
        let params = self.weights.fold_params(&fold, width);
        let to = launch::Folded { plain: plain.as_mut().map(Tensor::all_mut), folded: folded.all_mut() };
        make(to, &params)?;
        Ok(Input { plain, folded: Some((fold, folded)) })
    }

    /// Several products of one activation, in as few launches as their types allow where tokens are few.
    pub(super) fn products<const N: usize>(
        &self,
        weights: [&Weight; N],
        x: &Input,
    ) -> Result<[Tensor; N], EngineError> {
        let n_tokens = x.of(weights[0]).len() / weights[0].matrix.n_in();
        let mut products = Vec::with_capacity(N);
        for weight in weights {
            products.push(self.tensor(&[n_tokens, weight.matrix.n_out()])?);
        }
        let all = weights.into_iter().zip(products.iter_mut().map(Tensor::all_mut));
        let mode = self.numerics.activations;
        if n_tokens > launch::MAX_VEC_TOKENS || mode == ActivationMode::Mmvq {
            for (weight, y) in all {
                self.multiply(weight, y, x.of(weight), mode, None)?;
            }
        } else {
            let mut groups = alike(all, x);
            while let Some(mut group) = groups.pop() {
                let beside = groups.iter().position(|other| {
                    launch::fits_beside(group.ty(), other.ty()) || launch::fits_beside(other.ty(), group.ty())
                });
                let Some(at) = beside else {
                    launch::mul_mats_vec(self.device, &mut group.products, group.input.all(), n_tokens)?;
                    continue;
                };
                let mut others = groups.remove(at);
                if launch::fits_beside(group.ty(), others.ty()) {
                    std::mem::swap(&mut group, &mut others);
                }
                let group = (&mut group.products[..], group.input.all());
                let others = (&mut others.products[..], others.input.all());
                launch::mul_mats_vec_beside(self.device, group, others, n_tokens)?;
            }
        }
        Ok(products.try_into().unwrap_or_else(|_| unreachable!("one product per weight")))
    }

    /// A product that is added to the residual stream.
    pub(super) fn product_on(
        &self,
        weight: &Weight,
        x: &Input,
        residual: &Tensor,
    ) -> Result<Tensor, EngineError> {
        let mut sum = self.tensor(&residual.shape)?;
        let (mode, on) = (self.numerics.activations, Some(residual.all()));
        self.multiply(weight, sum.all_mut(), x.of(weight), mode, on)?;
        Ok(sum)
    }
}

/// Products of matrices of one type with one activation.
struct Group<'a, 'y> {
    products: Vec<(&'a Matrix, PartMut<'y, f32>)>,
    input: &'a Tensor,
    is_folded: bool,
}

impl Group<'_, '_> {
    fn ty(&self) -> GgmlType {
        self.products[0].0.ty()
    }
}

fn alike<'a, 'y>(
    products: impl Iterator<Item = (&'a Weight, PartMut<'y, f32>)>,
    x: &'a Input,
) -> Vec<Group<'a, 'y>> {
    let mut groups: Vec<Group<'a, 'y>> = Vec::new();
    for (weight, y) in products {
        let (matrix, is_folded) = (&weight.matrix, weight.fold_in_front().is_some());
        let known = |group: &&mut Group<'_, '_>| group.ty() == matrix.ty() && group.is_folded == is_folded;
        match groups.iter_mut().find(known) {
            Some(group) => group.products.push((matrix, y)),
            None => groups.push(Group { products: vec![(matrix, y)], input: x.of(weight), is_folded }),
        }
    }
    groups
}
