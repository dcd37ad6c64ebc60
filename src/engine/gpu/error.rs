//! Why a device could not be opened or used.

use std::path::PathBuf;

use thiserror::Error;

use super::plan::Size;

use crate::quant::QuantError;
use crate::tensor::GgmlType;

/// Why a device could not be opened or used.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no CUDA driver.
    #[error(
        "no CUDA driver on this machine (libcuda.so.1 not found): install NVIDIA's driver, version 580 or newer, or run the kernels on \
         the CPU with the simt engine"
    )]
    NoDriver,
    /// The driver has no device to offer.
    #[error(
        "the CUDA driver finds no device ({what}): is the GPU visible here (`nvidia-smi`, CUDA_VISIBLE_DEVICES)?"
    )]
    NoDevice {
        /// What the driver said.
        what: String,
    },
    /// There is no compiler for kernels.
    #[error(
        "NVRTC not found (libnvrtc.so.13): install CUDA 13.0's NVRTC (`pip install nvidia-cuda-nvrtc==13.0.88` is enough) and name its \
         folder in LD_LIBRARY_PATH"
    )]
    NoNvrtc,
    /// The driver refused.
    #[error("the CUDA driver refused to {what}: {cause}")]
    Driver {
        /// What was asked of it.
        what: String,
        /// Its answer.
        cause: String,
    },
    /// A kernel file does not compile.
    #[error("{file} does not compile for {arch}:\n{log}")]
    Compile {
        /// The file.
        file: String,
        /// The architecture: `sm_90`.
        arch: String,
        /// What the compiler said.
        log: String,
    },
    /// A kernel failed.
    #[error("kernel {kernel}: {cause}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// What the driver, or the emulator, said.
        cause: String,
    },
    /// A launch does not fit the kernel's parameters.
    #[error("kernel {kernel} takes parameters `{expected}`, was given `{got}`")]
    Arguments {
        /// The kernel.
        kernel: &'static str,
        /// A letter for each parameter ([`crate::engine::gpu::Arg`]).
        expected: String,
        /// The same of what was given.
        got: String,
    },
    /// There is no such kernel.
    #[error("there is no kernel `{kernel}`")]
    UnknownKernel {
        /// What was asked for.
        kernel: String,
    },
    /// No kernel decodes weights of this type.
    #[error("no kernel decodes weights of type {ty}; types with one: {known}", known = matrix_types())]
    MatrixType {
        /// The type.
        ty: GgmlType,
    },
    /// The bytes of a matrix are not as many as its size says.
    #[error(transparent)]
    MatrixSize(#[from] QuantError),
    /// Device memory is full.
    #[error("{bytes} bytes of device memory asked for, {free} are free")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
        /// What there is.
        free: usize,
    },
    /// A model and one sequence take more memory than is free.
    #[error(
        "{} of device memory are needed, {} of {} are free: {plan}; take a smaller context, or a device with more memory",
        Size(*needed), Size(*free as u64), Size(*total as u64)
    )]
    DoesNotFit {
        /// What is needed for what.
        plan: super::MemoryPlan,
        /// Bytes needed now.
        needed: u64,
        /// Bytes that are free.
        free: usize,
        /// Bytes that the device has.
        total: usize,
    },
    /// A process has one driver, and it is another one.
    #[error("this process already runs {loaded}, it cannot run {wanted} as well: start another one")]
    OtherDriver {
        /// What was loaded first.
        loaded: String,
        /// What is asked for.
        wanted: String,
    },
    /// This build has no emulator.
    #[error(
        "this build is without the simt engine: build it on x86-64 Linux with the feature `simt` and a C++ compiler"
    )]
    NoSimt,
    /// The emulator cannot run on this processor.
    #[error("the simt engine needs a processor with {needed}")]
    OldProcessor {
        /// What it was compiled for.
        needed: &'static str,
    },
    /// A library cannot be loaded.
    #[error("failed to load {path}: {cause}")]
    Library {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// Compiled kernels cannot be kept.
    #[error("failed to keep compiled kernels in {path}: {cause}")]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
}

fn matrix_types() -> String {
    super::MATRIX_TYPES.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(", ")
}
