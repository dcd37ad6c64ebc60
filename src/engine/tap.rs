//! Where an engine's tensors go.

use std::collections::HashMap;

use ndarray::{Array, ArrayView, Dimension};

use super::EngineError;
use crate::ops::Real;
use crate::tensor::{TensorId, Values};

/// What a tap can fail with.
pub type TapError = Box<dyn std::error::Error + Send + Sync>;

/// Receives every named tensor of a forward pass, in the order in which the engine computes them.
pub trait Tap {
    /// Takes a tensor: its identity, extents (dimension 0 fastest) and packed values.
    ///
    /// May hand back values (as many, in the same order) that the engine continues with in place of its own. What
    /// it hands back for a view of another tensor is ignored.
    ///
    /// # Errors
    /// Any error stops the engine.
    fn tensor(
        &mut self,
        id: &TensorId,
        ne: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError>;

    /// What the reference had for a tensor that the engine has just emitted and is about to round on purpose: as many values,
    /// in the same order. None if that is not known, and the engine rounds what it has.
    ///
    /// # Errors
    /// Any error stops the engine.
    fn rounds_like(&mut self, _id: &TensorId) -> Result<Option<Vec<f32>>, TapError> {
        Ok(None)
    }

    /// Whether the engine should gather tensors at all.
    fn is_active(&self) -> bool {
        true
    }
}

/// A tap that wants nothing.
pub struct NullTap;

impl Tap for NullTap {
    fn tensor(&mut self, _: &TensorId, _: [u64; 4], _: Values<'_>) -> Result<Option<Vec<f32>>, TapError> {
        Ok(None)
    }

    fn is_active(&self) -> bool {
        false
    }
}

/// What an active tap said to a tensor.
struct Answer {
    id: TensorId,
    replacement: Option<Vec<f32>>,
}

/// Gives the tensors of one step their identities and passes them to the tap.
pub struct Emitter<'t> {
    tap: &'t mut dyn Tap,
    step: u32,
    seen: HashMap<String, u32>,
    /// The tensor that was emitted last, and how many elements it has.
    last: Option<(TensorId, usize)>,
}

impl<'t> Emitter<'t> {
    /// An emitter for step `step` (graph evaluations, from 0).
    pub fn new(tap: &'t mut dyn Tap, step: u32) -> Emitter<'t> {
        Emitter { tap, step, seen: HashMap::new(), last: None }
    }

    /// Emits a tensor under `name-layer` (or `name`); returns it, or what the tap put in its place.
    ///
    /// # Errors
    /// If the tap fails or its replacement has another size.
    pub fn emit<T: Real, D: Dimension>(
        &mut self,
        name: &str,
        layer: Option<usize>,
        mut values: Array<T, D>,
    ) -> Result<Array<T, D>, EngineError> {
        let Some(Answer { id, replacement }) = self.pass(name, layer, values.view())? else {
            return Ok(values);
        };
        if let Some(replacement) = replacement {
            check_size(&id, replacement.len(), values.len())?;
            // Iteration order is the logical order, outermost dimension first, as `Values` is packed.
            values.iter_mut().zip(replacement).for_each(|(value, new)| *value = T::from_f32(new));
        }
        self.last = Some((id, values.len()));
        Ok(values)
    }

    /// What the reference had for the tensor that was emitted last, if that is known; see [`Tap::rounds_like`].
    ///
    /// # Errors
    /// If the tap fails or what it gives has another size.
    pub fn rounds_like(&mut self) -> Result<Option<Vec<f32>>, EngineError> {
        let Some((id, expected)) = &self.last else { return Ok(None) };
        let values =
            self.tap.rounds_like(id).map_err(|cause| EngineError::Tap { tensor: id.to_string(), cause })?;
        if let Some(values) = &values {
            check_size(id, values.len(), *expected)?;
        }
        Ok(values)
    }

    /// Emits a view of a tensor that has been emitted already; it cannot be replaced by itself.
    ///
    /// # Errors
    /// If the tap fails.
    pub fn observe<T: Real, D: Dimension>(
        &mut self,
        name: &str,
        layer: Option<usize>,
        values: ArrayView<'_, T, D>,
    ) -> Result<(), EngineError> {
        self.pass(name, layer, values).map(drop)
    }

    fn pass<T: Real, D: Dimension>(
        &mut self,
        name: &str,
        layer: Option<usize>,
        values: ArrayView<'_, T, D>,
    ) -> Result<Option<Answer>, EngineError> {
        if !self.tap.is_active() {
            return Ok(None);
        }
        let name = match layer {
            Some(il) => format!("{name}-{il}"),
            None => name.to_owned(),
        };
        let count = self.seen.entry(name.clone()).or_insert(0);
        let id = TensorId { step: self.step, name, occurrence: *count };
        *count += 1;
        let mut ne = [1; 4];
        for (extent, &size) in ne.iter_mut().zip(values.shape().iter().rev()) {
            *extent = size as u64;
        }
        let packed = values.as_standard_layout();
        let slice = packed.as_slice().expect("standard layout is packed");
        let replacement = self
            .tap
            .tensor(&id, ne, T::values(slice))
            .map_err(|cause| EngineError::Tap { tensor: id.to_string(), cause })?;
        Ok(Some(Answer { id, replacement }))
    }
}

fn check_size(id: &TensorId, got: usize, expected: usize) -> Result<(), EngineError> {
    if got == expected {
        return Ok(());
    }
    Err(EngineError::Replacement { tensor: id.to_string(), got, expected })
}
