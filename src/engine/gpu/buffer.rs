//! Device memory: buffers, parts of them, and arguments of kernels.
#![allow(unsafe_code)]

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

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// `const T*`, letter `r`.
    Read(u64),
    /// `T*`, letter `w`; may stand where a kernel only reads.
    Write(u64),
    /// `int`, letter `i`. Sizes are `int` in kernels.
    I32(i32),
    /// `u32`, letter `u`.
    U32(u32),
    /// `float`, letter `f`.
    F32(f32),
}

impl Arg {
    pub(super) fn letter(&self) -> char {
        match self {
            Arg::Read(_) => 'r',
            Arg::Write(_) => 'w',
            Arg::I32(_) => 'i',
            Arg::U32(_) => 'u',
            Arg::F32(_) => 'f',
        }
    }
}

impl From<f32> for Arg {
    fn from(value: f32) -> Arg {
        Arg::F32(value)
    }
}

impl From<u32> for Arg {
    fn from(value: u32) -> Arg {
        Arg::U32(value)
    }
}

impl From<i32> for Arg {
    fn from(value: i32) -> Arg {
        Arg::I32(value)
    }
}

impl From<usize> for Arg {
    fn from(value: usize) -> Arg {
        Arg::I32(i32::try_from(value).expect("launchers keep sizes below 2^31"))
    }
}

impl<T: Pod> From<Part<'_, T>> for Arg {
    fn from(part: Part<'_, T>) -> Arg {
        Arg::Read(part.address)
    }
}

impl<T: Pod> From<&Part<'_, T>> for Arg {
    fn from(part: &Part<'_, T>) -> Arg {
        Arg::Read(part.address)
    }
}

impl<T: Pod> From<&mut PartMut<'_, T>> for Arg {
    fn from(part: &mut PartMut<'_, T>) -> Arg {
        Arg::Write(part.address)
    }
}

impl<T: Pod> From<PartMut<'_, T>> for Arg {
    fn from(part: PartMut<'_, T>) -> Arg {
        Arg::Write(part.address)
    }
}

impl<'a, T: Pod> Part<'a, T> {
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
        assert_eq!(to.len, values.len(), "values for a part of device memory");
        if values.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the part has room for them, and pageable memory is copied before the call returns.
        unsafe { result::memcpy_htod_async(to.address, values, self.stream()) }
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
        assert_eq!(to.len, bytes.len(), "bytes for a part of device memory");
        // SAFETY: the part has room for them; the caller waits for the copy before it writes to them again.
        unsafe { result::memcpy_htod_async(to.address, bytes, self.stream()) }
            .map_err(|cause| driver("copy to the device", cause))
    }

    /// What a part holds, once all that was launched before has run.
    ///
    /// # Errors
    /// If the driver fails, or what was launched did.
    pub fn read<T: Pod>(&self, from: Part<'_, T>) -> Result<Vec<T>, GpuError> {
        let mut values = vec![T::zeroed(); from.len];
        if values.is_empty() {
            return Ok(values);
        }
        self.bind()?;
        // SAFETY: there is room for all of the part, and it is waited for.
        unsafe { result::memcpy_dtoh_async(&mut values, from.address, self.stream()) }
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
        assert_eq!(to.len, from.len, "a copy on the device");
        if to.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: both parts are as large.
        unsafe { result::memcpy_dtod_async(to.address, from.address, to.len * size_of::<T>(), self.stream()) }
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
        unsafe { result::memset_d8_async(part.address, 0, part.len * size_of::<T>(), self.stream()) }
            .map_err(|cause| driver("clear memory", cause))
    }
}
