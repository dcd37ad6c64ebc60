//! A tensor of the dump as a question sees it.

use ndarray::{Array, Array2, Array3, Array4, Dim, Dimension, IntoDimension};

use super::AskError;
use crate::compare::Predicted;
use crate::ops::Tracked;
use crate::tensor::TensorId;

/// The reference's values of a tensor.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::question) struct Held {
    /// Which one.
    pub(in crate::question) id: TensorId,
    /// Its four extents, outermost first.
    pub(in crate::question) shape: [usize; 4],
    /// Packed, the last extent fastest.
    pub(in crate::question) values: Vec<f32>,
}

impl Held {
    /// The values as they are given, in another shape of as many elements.
    ///
    /// # Errors
    /// If it has another number of elements.
    pub(in crate::question) fn shaped<D: IntoDimension>(
        &self,
        shape: D,
    ) -> Result<Array<Tracked, D::Dim>, AskError> {
        let shape = shape.into_dimension();
        let expected = shape.slice().to_vec();
        let values = self.values.iter().map(|&x| Tracked::exact(x.into())).collect();
        Array::from_shape_vec(shape, values).map_err(|_| AskError::Extents {
            tensor: self.id.to_string(),
            got: self.shape.to_vec(),
            expected,
        })
    }

    /// `[n_tokens of all sequences, width]`
    ///
    /// # Errors
    /// If rows of this width do not fill it.
    pub(in crate::question) fn rows(&self, width: usize) -> Result<Array2<Tracked>, AskError> {
        self.shaped((self.values.len() / width.max(1), width))
    }

    /// `[n_tokens of all sequences, n_head, head_dim]`
    ///
    /// # Errors
    /// If heads of this kind do not fill it.
    pub(in crate::question) fn heads(
        &self,
        n_head: usize,
        head_dim: usize,
    ) -> Result<Array3<Tracked>, AskError> {
        self.shaped((self.values.len() / (n_head * head_dim).max(1), n_head, head_dim))
    }

    /// All four extents.
    pub(in crate::question) fn array(&self) -> Array4<Tracked> {
        let values = self.values.iter().map(|&x| Tracked::exact(x.into())).collect();
        Array4::from_shape_vec(Dim(self.shape), values).expect("a node's extents were checked on opening")
    }
}

/// What a score is taken of.
pub(super) fn predicted(numbers: &[Tracked]) -> Vec<Predicted> {
    let predicted = |x: &Tracked| Predicted { value: x.value(), terms: x.terms(), spread: x.spread() };
    numbers.iter().map(predicted).collect()
}

/// The elements in order, the last extent fastest.
pub(in crate::question) fn packed<D: Dimension>(array: Array<Tracked, D>) -> Vec<Tracked> {
    array.as_standard_layout().iter().copied().collect()
}
