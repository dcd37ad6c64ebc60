//! Activations on the device, in memory that is used again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use crate::engine::gpu::{Buffer, Device, GpuError, Part, PartMut};

/// Buffers that were given back, by size. Everything runs in one queue, so that the next user of a buffer runs behind the last one.
/// They are not freed: launches that were recorded work in them.
#[derive(Clone)]
pub(in crate::engine::gpu) struct Pool {
    device: Device,
    free: Rc<RefCell<HashMap<usize, Vec<Buffer<f32>>>>>,
}

impl Pool {
    pub(in crate::engine::gpu) fn new(device: &Device) -> Pool {
        Pool { device: device.clone(), free: Rc::default() }
    }

    /// An activation with nothing in it that may be relied on.
    pub(in crate::engine::gpu) fn tensor(&self, shape: &[usize]) -> Result<Tensor, GpuError> {
        let n = shape.iter().product();
        let known = self.free.borrow_mut().get_mut(&n).and_then(Vec::pop);
        let data = match known {
            Some(buffer) => buffer,
            None => self.device.alloc(n)?,
        };
        Ok(Tensor { data: Some(data), pool: self.clone(), shape: shape.to_vec() })
    }
}

/// Packed f32 values with a shape, outermost dimension first.
pub(in crate::engine::gpu) struct Tensor {
    /// Gone when it is dropped.
    data: Option<Buffer<f32>>,
    pool: Pool,
    pub(in crate::engine::gpu) shape: Vec<usize>,
}

impl Tensor {
    fn buffer(&self) -> &Buffer<f32> {
        self.data.as_ref().expect("it is there until the tensor is dropped")
    }

    /// The same values in another shape.
    pub(super) fn shaped(mut self, shape: &[usize]) -> Tensor {
        assert_eq!(self.len(), shape.iter().product::<usize>(), "{:?} as {shape:?}", self.shape);
        self.shape = shape.to_vec();
        self
    }

    pub(super) fn len(&self) -> usize {
        self.buffer().len()
    }

    pub(in crate::engine::gpu) fn all(&self) -> Part<'_, f32> {
        self.buffer().all()
    }

    pub(super) fn part(&self, range: Range<usize>) -> Part<'_, f32> {
        self.buffer().part(range)
    }

    pub(super) fn all_mut(&mut self) -> PartMut<'_, f32> {
        let len = self.len();
        self.part_mut(0..len)
    }

    pub(super) fn part_mut(&mut self, range: Range<usize>) -> PartMut<'_, f32> {
        self.data.as_mut().expect("it is there until the tensor is dropped").part_mut(range)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if let Some(buffer) = self.data.take() {
            self.pool.free.borrow_mut().entry(buffer.len()).or_default().push(buffer);
        }
    }
}
