//! Launches that are recorded once and run as one: CUDA graphs.

use cudarc::driver::{CudaGraph, sys};

use super::device::driver;
use super::{Device, GpuError};

impl Device {
    /// Records what `body` launches instead of running it. Kernels that it launches must have been launched before.
    ///
    /// # Errors
    /// Those of `body`, or if it does something that cannot be recorded: copies to the host, allocations.
    pub fn record<E: From<GpuError>>(&self, body: impl FnOnce() -> Result<(), E>) -> Result<Recording, E> {
        let stream = self.queue();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.begin_capture(mode).map_err(|cause| driver("record launches", cause))?;
        let before = self.launches();
        let done = body();
        let launches = self.launches() - before;
        let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0));
        done?;
        let graph = graph.map_err(|cause| driver("end the recording of launches", cause))?;
        let nothing = || GpuError::Driver {
            what: "record launches".to_owned(),
            cause: "nothing was recorded".to_owned(),
        };
        Ok(Recording { graph: graph.ok_or_else(nothing)?, device: self.clone(), launches })
    }
}

/// Launches that were recorded once and run as one (a CUDA graph).
pub struct Recording {
    graph: CudaGraph,
    device: Device,
    launches: usize,
}

impl Recording {
    /// Runs them all, with the values that lie in device memory now.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn replay(&self) -> Result<(), GpuError> {
        self.device.schedule();
        self.device.count(self.launches);
        self.graph.launch().map_err(|cause| driver("run recorded launches", cause))
    }

    /// How many launches it holds.
    pub fn launches(&self) -> usize {
        self.launches
    }
}
