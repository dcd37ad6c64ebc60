//! Copies between host and device, and on the device.
#![allow(unsafe_code)] // copies, by addresses

use bytemuck::Pod;
use cudarc::driver::result;

use super::device::driver;
use super::{Buffer, Device, GpuError, Part, PartMut};

impl Device {
    /// Memory for `len` values, which hold nothing yet.
    ///
    /// # Errors
    /// If there is too little.
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        Buffer::new(self, len)
    }

    /// Memory that holds these values.
    ///
    /// # Errors
    /// If there is too little.
    pub fn upload<T: Pod>(&self, values: &[T]) -> Result<Buffer<T>, GpuError> {
        let mut buffer = self.alloc(values.len())?;
        self.write(&mut buffer.all_mut(), values)?;
        Ok(buffer)
    }

    /// Memory full of zero bytes.
    ///
    /// # Errors
    /// If there is too little.
    pub fn zeros<T: Pod>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        let mut buffer = self.alloc(len)?;
        self.clear(&mut buffer.all_mut())?;
        Ok(buffer)
    }

    /// Copies values to the device; they may be changed once this returns.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If there are not as many values as the part has.
    pub fn write<T: Pod>(&self, to: &mut PartMut<'_, T>, values: &[T]) -> Result<(), GpuError> {
        assert_eq!(to.len(), values.len(), "values for a part of device memory");
        if values.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the part has room for them, and pageable memory is copied before the call returns.
        unsafe { result::memcpy_htod_async(to.address(), values, self.stream()) }
            .map_err(|cause| driver("copy to the device", cause))
    }

    /// Copies from pinned memory, which must stay as it is until the copy has run.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If there are not as many bytes as the part has.
    pub(super) fn copy_from_pinned(&self, to: &mut PartMut<'_, u8>, bytes: &[u8]) -> Result<(), GpuError> {
        assert_eq!(to.len(), bytes.len(), "bytes for a part of device memory");
        // SAFETY: the part has room for them; the caller waits for the copy before it writes to them again.
        unsafe { result::memcpy_htod_async(to.address(), bytes, self.stream()) }
            .map_err(|cause| driver("copy to the device", cause))
    }

    /// What a part holds, once all that was launched before has run.
    ///
    /// # Errors
    /// If the driver fails, or what was launched did.
    pub fn read<T: Pod>(&self, from: Part<'_, T>) -> Result<Vec<T>, GpuError> {
        let mut values = vec![T::zeroed(); from.len()];
        if values.is_empty() {
            return Ok(values);
        }
        self.bind()?;
        // SAFETY: there is room for all of the part, and it is waited for.
        unsafe { result::memcpy_dtoh_async(&mut values, from.address(), self.stream()) }
            .map_err(|cause| driver("copy from the device", cause))?;
        self.synchronize()?;
        Ok(values)
    }

    /// Copies from one part to another of the same size.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn copy<T: Pod>(&self, to: &mut PartMut<'_, T>, from: Part<'_, T>) -> Result<(), GpuError> {
        assert_eq!(to.len(), from.len(), "a copy on the device");
        if to.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: both parts are as large.
        unsafe {
            result::memcpy_dtod_async(to.address(), from.address(), to.len() * size_of::<T>(), self.stream())
        }
        .map_err(|cause| driver("copy on the device", cause))
    }

    /// Fills a part with zero bytes.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn clear<T: Pod>(&self, part: &mut PartMut<'_, T>) -> Result<(), GpuError> {
        if part.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the part is as large.
        unsafe { result::memset_d8_async(part.address(), 0, part.len() * size_of::<T>(), self.stream()) }
            .map_err(|cause| driver("clear memory", cause))
    }
}
