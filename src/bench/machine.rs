//! The device, and how fast it copies: what every rate is compared with.

use super::{Bench, BenchError};
use crate::engine::gpu::{Device, Driver, GpuError, launch};

/// What was measured on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// `NVIDIA H200 (sm_90)`
    pub device: String,
    /// The newest CUDA that the driver knows.
    pub cuda: String,
    /// Bytes of device memory.
    pub memory: usize,
    /// Multiprocessors.
    pub n_sm: usize,
    /// Whether it is the emulator, whose times mean nothing.
    pub is_emulated: bool,
}

impl Machine {
    /// Asks a device.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn of(device: &Device) -> Result<Machine, GpuError> {
        Ok(Machine {
            device: device.name()?,
            cuda: device.cuda_version()?,
            memory: device.memory()?.1,
            n_sm: device.n_sm()?,
            is_emulated: *device.driver() != Driver::Cuda,
        })
    }
}

/// How fast device memory is copied to device memory, in bytes read and written per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CopyRate {
    /// Bytes of the buffer that is copied.
    pub bytes: usize,
    /// By the driver.
    pub driver: f64,
    /// By a kernel that moves 16 bytes for each thread.
    pub kernel: f64,
}

impl CopyRate {
    /// The better one, which is meant by "the copy rate".
    pub fn best(&self) -> f64 {
        self.driver.max(self.kernel)
    }
}

/// Bytes of the buffer.
const BYTES: usize = 1 << 30;
const SMALL_BYTES: usize = 1 << 16;

/// Measures it.
///
/// # Errors
/// If memory is short or a launch fails.
pub fn copy_rate(bench: &mut Bench<'_>) -> Result<CopyRate, BenchError> {
    (bench.progress)("the copy rate");
    let bytes = if bench.is_small { SMALL_BYTES } else { BYTES };
    let n = bytes / size_of::<f32>();
    let device = bench.device;
    let from = device.zeros::<f32>(n)?;
    let mut to = device.alloc::<f32>(n)?;
    let rate = |us: f64| 2.0 * bytes as f64 / (us * 1e-6);
    let by_driver = bench.time("a copy", 1, |_| device.copy(&mut to.all_mut(), from.all()))?;
    let by_kernel = bench.time("a copy", 1, |_| launch::copy_rows(device, to.all_mut(), from.all(), n, n))?;
    Ok(CopyRate { bytes, driver: rate(by_driver.us), kernel: rate(by_kernel.us) })
}
