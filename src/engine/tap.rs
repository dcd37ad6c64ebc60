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

    /// Whether this tensor is of interest. An engine may compute what is not in one piece with what comes behind it.
    fn wants(&self, _id: &TensorId) -> bool {
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
        let Some(replacement) = self.pass(name, layer, values.view())? else { return Ok(values) };
        if let Some(replacement) = replacement {
            // Iteration order is the logical order, outermost dimension first, as `Values` is packed.
            values.iter_mut().zip(replacement).for_each(|(value, new)| *value = T::from_f32(new));
        }
        Ok(values)
    }

    /// Emits a tensor that lies elsewhere: its shape, outermost dimension first, and packed values. Returns what the tap puts in its
    /// place.
    ///
    /// # Errors
    /// If the tap fails or its replacement has another size.
    pub fn offer(
        &mut self,
        name: &str,
        layer: Option<usize>,
        shape: &[usize],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, EngineError> {
        if !self.tap.is_active() {
            return Ok(None);
        }
        let id = self.next_id(name, layer);
        *self.seen.entry(id.name.clone()).or_insert(0) += 1;
        let mut ne = [1; 4];
        for (extent, &size) in ne.iter_mut().zip(shape.iter().rev()) {
            *extent = size as u64;
        }
        let replacement = self
            .tap
            .tensor(&id, ne, values)
            .map_err(|cause| EngineError::Tap { tensor: id.to_string(), cause })?;
        if let Some(replacement) = &replacement {
            check_size(&id, replacement.len(), values.len())?;
        }
        self.last = Some((id, values.len()));
        Ok(replacement)
    }

    /// Whether the tap wants any of these tensors, which come next, in this order.
    pub fn wants_any(&self, names: &[&str], layer: Option<usize>) -> bool {
        let before = |i: usize| names[..i].iter().filter(|&&name| name == names[i]).count() as u32;
        let wanted = |i: usize| {
            let id = self.next_id(names[i], layer);
            self.tap.wants(&TensorId { occurrence: id.occurrence + before(i), ..id })
        };
        self.tap.is_active() && (0..names.len()).any(wanted)
    }

    /// Passes over tensors that are not computed apart.
    pub fn skip(&mut self, names: &[&str], layer: Option<usize>) {
        if !self.tap.is_active() {
            return;
        }
        for name in names {
            *self.seen.entry(self.next_id(name, layer).name).or_insert(0) += 1;
        }
        self.last = None;
    }

    fn next_id(&self, name: &str, layer: Option<usize>) -> TensorId {
        let name = match layer {
            Some(il) => format!("{name}-{il}"),
            None => name.to_owned(),
        };
        let occurrence = self.seen.get(&name).copied().unwrap_or(0);
        TensorId { step: self.step, name, occurrence }
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
        let last = self.last.take();
        let observed = self.pass(name, layer, values).map(drop);
        self.last = last;
        observed
    }

    /// None if nothing is gathered, else what the tap put in the tensor's place.
    fn pass<T: Real, D: Dimension>(
        &mut self,
        name: &str,
        layer: Option<usize>,
        values: ArrayView<'_, T, D>,
    ) -> Result<Option<Option<Vec<f32>>>, EngineError> {
        if !self.tap.is_active() {
            return Ok(None);
        }
        let packed = values.as_standard_layout();
        let slice = packed.as_slice().expect("standard layout is packed");
        self.offer(name, layer, values.shape(), T::values(slice)).map(Some)
    }
}

fn check_size(id: &TensorId, got: usize, expected: usize) -> Result<(), EngineError> {
    if got == expected {
        return Ok(());
    }
    Err(EngineError::Replacement { tensor: id.to_string(), got, expected })
}
