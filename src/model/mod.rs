//! A `qwen35` model in a GGUF file: hyperparameters, the kind of each layer, the tensor table with its shapes, and the
//! Hadamard fold contract.

mod error;
mod fold;
mod hparams;
mod tensors;
mod transform;

pub use error::ModelError;
pub use fold::{Fold, FoldError, PREFIX as FOLD_PREFIX, Role, UNFOLDED_FROM};
pub use hparams::{Hparams, LayerKind};
pub(crate) use hparams::{MAX_LAYERS, MAX_SIZE};
pub use tensors::{TensorShape, expected_tensors};
pub use transform::{FoldOrder, HeadPermutation, PermutationTime, Transform};

use std::path::Path;

use crate::gguf::Gguf;
use crate::ops::Rows;
use crate::quant;

/// A model whose metadata and tensor table have been checked; the weights stay in the mapped file.
pub struct Model {
    gguf: Gguf,
    hparams: Hparams,
    fold: Option<Fold>,
    notes: Vec<String>,
}

impl Model {
    /// Opens a GGUF file (or the first part of a split one) and checks everything but the weights' values.
    ///
    /// # Errors
    /// If the file is not a readable GGUF, not of architecture `qwen35`, a key is missing or out of range, a tensor
    /// is missing or has another shape, or the fold contract is broken.
    pub fn open(path: &Path) -> Result<Model, ModelError> {
        Model::from_gguf(Gguf::open(path)?)
    }

    /// The same for a file that is open already.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn from_gguf(gguf: Gguf) -> Result<Model, ModelError> {
        let hparams = Hparams::read(&gguf)?;
        let mut notes = gguf.notes().to_vec();
        notes.extend(tensors::check(&gguf, &hparams)?);
        let fold = Fold::read(&gguf, &hparams)?;
        Ok(Model { gguf, hparams, fold, notes })
    }

    /// The file.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }

    /// The hyperparameters.
    pub fn hparams(&self) -> &Hparams {
        &self.hparams
    }

    /// The Hadamard fold, if the file declares one.
    pub fn fold(&self) -> Option<&Fold> {
        self.fold.as_ref()
    }

    /// What a reader of a report should know: layers that are skipped, tensors that are ignored, old type ids.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the output head is the embedding table.
    pub fn has_tied_embeddings(&self) -> bool {
        self.gguf.tensor(tensors::OUTPUT).is_none()
    }

    /// The name of the weight that the output head multiplies with.
    pub fn output_name(&self) -> &'static str {
        if self.has_tied_embeddings() { tensors::TOKEN_EMBD } else { tensors::OUTPUT }
    }

    /// The matrices that activations are multiplied with.
    pub fn multiplied_names(&self) -> impl Iterator<Item = &str> {
        let tensors = self.gguf.tensors().iter().filter(|tensor| tensor.ne[1] > 1);
        let names = tensors.map(|tensor| &tensor.name[..]);
        names.filter(|&name| name != tensors::TOKEN_EMBD || self.has_tied_embeddings())
    }

    /// A weight matrix, `[ne1, ne0]`.
    ///
    /// # Errors
    /// If there is no such tensor or its type has no decoder.
    pub fn matrix(&self, name: &str) -> Result<Rows<'_>, ModelError> {
        let tensor =
            self.gguf.tensor(name).ok_or_else(|| ModelError::MissingTensor { name: name.to_owned() })?;
        let [n_in, n_out, ..] = tensor.info.ne;
        Rows::new(tensor.info.ty, tensor.data, n_in as usize, n_out as usize)
            .map_err(|cause| ModelError::Quant { name: name.to_owned(), cause })
    }

    /// All elements of a small tensor (norm weights, biases, convolution kernels), dimension 0 fastest.
    ///
    /// # Errors
    /// If there is no such tensor or its type has no decoder.
    pub fn vector(&self, name: &str) -> Result<Vec<f32>, ModelError> {
        let tensor =
            self.gguf.tensor(name).ok_or_else(|| ModelError::MissingTensor { name: name.to_owned() })?;
        let mut values = vec![0.0; tensor.info.ne.iter().product::<u64>() as usize];
        quant::decode(tensor.info.ty, tensor.data, &mut values)
            .map_err(|cause| ModelError::Quant { name: name.to_owned(), cause })?;
        Ok(values)
    }

    /// The factor of a matrix's optional `.scale` tensor (`blk.0.ffn_up.scale`), 1 without one.
    ///
    /// # Errors
    /// If the scale has a type without a decoder.
    pub fn scale(&self, weight: &str) -> Result<f32, ModelError> {
        let name = tensors::scale_name(weight);
        if self.gguf.tensor(&name).is_none() {
            return Ok(1.0);
        }
        Ok(self.vector(&name)?.first().copied().unwrap_or(1.0))
    }
}
