//! Device memory: buffers and parts of them.
#![allow(unsafe_code)] // device memory by its address

use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::Pod;
use cudarc::driver::result;

use super::device::driver;
use super::{Device, GpuError};

/// `len` values in device memory, freed on drop. On the emulator fresh memory is poison, on a GPU whatever was there.
pub struct Buffer<T: Pod> {
    device: Device,
    address: u64,
    len: usize,
    of: PhantomData<T>,
}

/// A part of a buffer that is read.
#[derive(Clone, Copy)]
pub struct Part<'a, T: Pod> {
    address: u64,
    len: usize,
    of: PhantomData<&'a T>,
}

/// A part of a buffer that is written.
pub struct PartMut<'a, T: Pod> {
    address: u64,
    len: usize,
    of: PhantomData<&'a mut T>,
}

impl<'a, T: Pod> Part<'a, T> {
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of this part.
    ///
    /// # Panics
    /// If the range goes beyond it.
    pub fn part(&self, range: Range<usize>) -> Part<'a, T> {
        let (address, len) = within::<T>(self.address, self.len, range);
        Part { address, len, of: PhantomData }
    }

    /// Where it lies, for the alignment that a kernel asks for.
    pub fn is_aligned(&self, bytes: u64) -> bool {
        self.address.is_multiple_of(bytes)
    }
}

impl<T: Pod> PartMut<'_, T> {
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of this part, while it lasts.
    ///
    /// # Panics
    /// If the range goes beyond it.
    pub fn part_mut(&mut self, range: Range<usize>) -> PartMut<'_, T> {
        let (address, len) = within::<T>(self.address, self.len, range);
        PartMut { address, len, of: PhantomData }
    }

    /// The same values to be read.
    pub fn as_part(&self) -> Part<'_, T> {
        Part { address: self.address, len: self.len, of: PhantomData }
    }

    /// Where it lies, for the alignment that a kernel asks for.
    pub fn is_aligned(&self, bytes: u64) -> bool {
        self.address.is_multiple_of(bytes)
    }
}

fn within<T>(address: u64, len: usize, range: Range<usize>) -> (u64, usize) {
    assert!(range.start <= range.end && range.end <= len, "{range:?} of {len} values in device memory");
    (address + (range.start * size_of::<T>()) as u64, range.len())
}

impl<T: Pod> Buffer<T> {
    pub(super) fn new(device: &Device, len: usize) -> Result<Buffer<T>, GpuError> {
        let bytes = (len * size_of::<T>()).max(1);
        device.bind()?;
        // SAFETY: the address is kept in the buffer alone and freed once.
        let address =
            unsafe { result::malloc_sync(bytes) }.map_err(|cause| match result::mem_get_info() {
                Ok((free, _)) if free < bytes => GpuError::OutOfMemory { bytes, free },
                _ => driver(&format!("give {bytes} bytes of memory"), cause),
            })?;
        Ok(Buffer { device: device.clone(), address, len, of: PhantomData })
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of it, to be read.
    pub fn all(&self) -> Part<'_, T> {
        Part { address: self.address, len: self.len, of: PhantomData }
    }

    /// All of it, to be written.
    pub fn all_mut(&mut self) -> PartMut<'_, T> {
        PartMut { address: self.address, len: self.len, of: PhantomData }
    }

    /// A part of it, to be read.
    ///
    /// # Panics
    /// If the range goes beyond it.
    pub fn part(&self, range: Range<usize>) -> Part<'_, T> {
        self.all().part(range)
    }

    /// A part of it, to be written.
    ///
    /// # Panics
    /// If the range goes beyond it.
    pub fn part_mut(&mut self, range: Range<usize>) -> PartMut<'_, T> {
        let (address, len) = within::<T>(self.address, self.len, range);
        PartMut { address, len, of: PhantomData }
    }
}

impl<T: Pod> Buffer<T> {
    /// A part to be written and another one, which does not overlap it, to be read.
    ///
    /// # Panics
    /// If they overlap or go beyond the buffer.
    pub fn two_parts(&mut self, write: Range<usize>, read: Range<usize>) -> (PartMut<'_, T>, Part<'_, T>) {
        let is_apart = write.end <= read.start || read.end <= write.start;
        assert!(is_apart, "{write:?} and {read:?} of device memory overlap");
        let (to, to_len) = within::<T>(self.address, self.len, write);
        let (from, from_len) = within::<T>(self.address, self.len, read);
        (
            PartMut { address: to, len: to_len, of: PhantomData },
            Part { address: from, len: from_len, of: PhantomData },
        )
    }
}

impl<T: Pod> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: the address came from malloc_sync; nobody has it any more. The free waits for the device by itself.
            unsafe { result::free_sync(self.address) }.ok();
        }
    }
}
