//! An activation on the device.

use crate::engine::gpu::{Buffer, Device, GpuError, Part, PartMut};

/// Packed f32 values with a shape, outermost dimension first.
pub(in crate::engine::gpu) struct Tensor {
    pub(in crate::engine::gpu) data: Buffer<f32>,
    pub(in crate::engine::gpu) shape: Vec<usize>,
}

impl Tensor {
    pub(super) fn new(device: &Device, shape: &[usize]) -> Result<Tensor, GpuError> {
        Ok(Tensor { data: device.alloc(shape.iter().product())?, shape: shape.to_vec() })
    }

    /// The same values in another shape.
    pub(super) fn shaped(self, shape: &[usize]) -> Tensor {
        assert_eq!(self.data.len(), shape.iter().product::<usize>(), "{:?} as {shape:?}", self.shape);
        Tensor { shape: shape.to_vec(), ..self }
    }

    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    pub(super) fn all(&self) -> Part<'_, f32> {
        self.data.all()
    }

    pub(super) fn all_mut(&mut self) -> PartMut<'_, f32> {
        self.data.all_mut()
    }
}
