//! Large copies to the device through pinned memory: the next part is brought from the file while the last one travels.
#![allow(unsafe_code)] // pinned memory by its address

use cudarc::driver::{CudaEvent, result};

use super::device::driver;
use super::{Device, GpuError, PartMut};

/// Bytes of each of the two buffers: large enough for the rate of the bus, small beside any model.
const CHUNK: usize = 16 << 20;

/// Two pinned buffers that take turns.
pub(super) struct Staging {
    device: Device,
    chunks: [Chunk; 2],
    next: usize,
}

struct Chunk {
    host: *mut u8,
    /// Behind the last copy from it.
    copied: Option<CudaEvent>,
}

impl Staging {
    /// # Errors
    /// If the driver has no pinned memory to give.
    pub(super) fn new(device: &Device) -> Result<Staging, GpuError> {
        device.bind()?;
        let none = || Chunk { host: std::ptr::null_mut(), copied: None };
        let mut staging = Staging { device: device.clone(), chunks: [none(), none()], next: 0 };
        for chunk in &mut staging.chunks {
            // SAFETY: the address is kept in the chunk alone and freed once.
            let host = unsafe { result::malloc_host(CHUNK, 0) };
            chunk.host = host.map_err(|cause| driver("give pinned memory", cause))?.cast();
        }
        Ok(staging)
    }

    /// Copies bytes to the device; they may be changed once this returns.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If there are not as many bytes as the part has.
    pub(super) fn write(&mut self, mut to: PartMut<'_, u8>, bytes: &[u8]) -> Result<(), GpuError> {
        assert_eq!(to.len(), bytes.len(), "bytes for a part of device memory");
        self.device.bind()?;
        let mut at = 0;
        for part in bytes.chunks(CHUNK) {
            self.next = (self.next + 1) % self.chunks.len();
            let chunk = &mut self.chunks[self.next];
            if let Some(copied) = chunk.copied.take() {
                copied.synchronize().map_err(|cause| driver("wait for a copy", cause))?;
            }
            // SAFETY: a chunk holds CHUNK bytes, and its last copy has ended.
            let staged = unsafe { std::slice::from_raw_parts_mut(chunk.host, part.len()) };
            staged.copy_from_slice(part);
            self.device.copy_from_pinned(&mut to.part_mut(at..at + part.len()), staged)?;
            chunk.copied = Some(self.device.event()?);
            at += part.len();
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let waited = self.device.synchronize();
        if waited.is_err() || self.device.bind().is_err() {
            return; // what may still be read from is not freed
        }
        for chunk in &self.chunks {
            if !chunk.host.is_null() {
                // SAFETY: it came from malloc_host, and no copy runs any more.
                unsafe { result::free_host(chunk.host.cast()) }.ok();
            }
        }
    }
}
