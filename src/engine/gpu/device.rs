//! A device, and the launch of kernels by name.
#![allow(unsafe_code)] // launches, with arguments by their addresses

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaStream, DriverError, result, sys};
use cudarc::nvrtc::Ptx;

use super::compile::{Compiler, Image};
use super::simt::{self, Flavour, Order};
use super::sources::{self, Signature};
use super::{Arg, GpuError};

/// Which driver runs the kernels. A process has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Driver {
    /// NVIDIA's.
    Cuda,
    /// The emulator.
    Simt(Flavour),
}

/// How a device is opened.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// The driver.
    pub driver: Driver,
    /// Which of the driver's devices, from 0.
    pub ordinal: usize,
    /// Where compiled kernels are kept; none: they are compiled in each process.
    pub cache: Option<PathBuf>,
}

impl DeviceOptions {
    /// The first device of a driver, nothing kept.
    pub fn new(driver: Driver) -> DeviceOptions {
        DeviceOptions { driver, ordinal: 0, cache: None }
    }
}

/// What a launch consists of: blocks, threads of each, bytes of dynamic shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Blocks: x, y, z.
    pub blocks: [u32; 3],
    /// Threads of a block: x, y, z.
    pub threads: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

impl Grid {
    /// A row of blocks of `threads` threads.
    pub fn new(blocks: usize, threads: usize) -> Grid {
        Grid { blocks: [dim(blocks), 1, 1], threads: [dim(threads), 1, 1], shared: 0 }
    }

    /// Blocks in two dimensions.
    pub fn new_2d([x, y]: [usize; 2], threads: usize) -> Grid {
        Grid { blocks: [dim(x), dim(y), 1], ..Grid::new(1, threads) }
    }

    /// Blocks in three dimensions.
    pub fn new_3d([x, y, z]: [usize; 3], threads: usize) -> Grid {
        Grid { blocks: [dim(x), dim(y), dim(z)], ..Grid::new(1, threads) }
    }

    /// With this many bytes of dynamic shared memory.
    #[must_use]
    pub fn shared(self, bytes: usize) -> Grid {
        Grid { shared: dim(bytes), ..self }
    }

    fn is_empty(&self) -> bool {
        self.blocks.contains(&0)
    }
}

fn dim(n: usize) -> u32 {
    u32::try_from(n).expect("launchers keep sizes below 2^31")
}

/// A device and its queue: everything runs in the order in which it is asked for.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    driver: Driver,
    compiler: Compiler,
    signatures: HashMap<String, Signature>,
    functions: Mutex<HashMap<&'static str, CudaFunction>>,
    launches: AtomicUsize,
}

/// Dynamic shared memory that a kernel has without asking for more.
const DEFAULT_SHARED: u32 = 48 * 1024;

thread_local! {
    /// How the emulator is to run what this thread launches.
    static SCHEDULE: Cell<(Order, usize)> = const { Cell::new((Order::Forward, 1)) };
}

pub(super) fn driver(what: &str, cause: DriverError) -> GpuError {
    let name = cause.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = cause.error_string().map(|text| text.to_string_lossy().into_owned());
    let cause = match (name, text) {
        (Ok(name), Ok(text)) if name != text => format!("{name}: {text}"),
        (Ok(name), _) => name,
        _ => format!("{cause:?}"),
    };
    GpuError::Driver { what: what.to_owned(), cause }
}

/// Makes `wanted` the driver of this process, once.
fn load(wanted: &Driver) -> Result<(), GpuError> {
    static LOADED: OnceLock<Driver> = OnceLock::new();
    static LOADING: Mutex<()> = Mutex::new(());
    let _guard = LOADING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match LOADED.get() {
        Some(loaded) if loaded == wanted => return Ok(()),
        Some(loaded) => {
            return Err(GpuError::OtherDriver { loaded: loaded.to_string(), wanted: wanted.to_string() });
        }
        None => {}
    }
    if let Driver::Simt(flavour) = wanted {
        simt::load(flavour)?;
    }
    // SAFETY: it only looks for a library. cudarc panics at the first call if there is none.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::NoDriver);
    }
    LOADED.set(wanted.clone()).ok();
    Ok(())
}

impl std::fmt::Display for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Driver::Cuda => f.write_str("cuda"),
            Driver::Simt(Flavour::Fast) => f.write_str("simt"),
            Driver::Simt(Flavour::Checked) => f.write_str("simt (checked)"),
            Driver::Simt(Flavour::At(path)) => write!(f, "simt ({})", path.display()),
        }
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// If there is no driver or no device, or this process runs another driver already.
    pub fn open(options: &DeviceOptions) -> Result<Device, GpuError> {
        load(&options.driver)?;
        let no_device = |cause| GpuError::NoDevice {
            what: match driver("start", cause) {
                GpuError::Driver { cause, .. } => cause,
                other => other.to_string(),
            },
        };
        result::init().map_err(no_device)?;
        let count = CudaContext::device_count().map_err(no_device)?;
        if options.ordinal >= count as usize {
            return Err(GpuError::NoDevice { what: format!("device {} of {count}", options.ordinal) });
        }
        let context = CudaContext::new(options.ordinal).map_err(no_device)?;
        // SAFETY: there is one stream, so no buffer needs an event; events would break the capture of graphs.
        unsafe { context.disable_event_tracking() };
        let (major, minor) =
            context.compute_capability().map_err(|cause| driver("tell its architecture", cause))?;
        // The legacy default stream cannot be captured.
        let stream = context.new_stream().map_err(|cause| driver("make a stream", cause))?;
        let compiler = match options.driver {
            Driver::Cuda => Compiler::nvrtc(format!("sm_{major}{minor}"), options.cache.clone())?,
            Driver::Simt(_) => Compiler::Built,
        };
        let signatures = sources::kernels()
            .into_iter()
            .map(|(name, file, parameters)| (name, Signature { file, parameters }))
            .collect();
        Ok(Device(Arc::new(Inner {
            context,
            stream,
            driver: options.driver.clone(),
            compiler,
            signatures,
            functions: Mutex::default(),
            launches: AtomicUsize::new(0),
        })))
    }

    /// What it is: `NVIDIA H200 (sm_90)`.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn name(&self) -> Result<String, GpuError> {
        let inner = &self.0;
        let name = inner.context.name().map_err(|cause| driver("tell the device's name", cause))?;
        Ok(match &inner.compiler {
            Compiler::Nvrtc { arch, .. } => format!("{name} ({arch})"),
            Compiler::Built => name,
        })
    }

    /// The newest CUDA that the driver knows: `13.0`.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn cuda_version(&self) -> Result<String, GpuError> {
        let mut version = 0;
        // SAFETY: it is a place for a number.
        unsafe { sys::cuDriverGetVersion(&mut version) }
            .result()
            .map_err(|cause| driver("tell its version", cause))?;
        Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// The driver that runs it.
    pub fn driver(&self) -> &Driver {
        &self.0.driver
    }

    /// Bytes of memory: free, and in all.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn memory(&self) -> Result<(usize, usize), GpuError> {
        self.bind()?;
        result::mem_get_info().map_err(|cause| driver("tell how much memory is free", cause))
    }

    /// Number of multiprocessors.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn n_sm(&self) -> Result<usize, GpuError> {
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let n = self.0.context.attribute(attribute).map_err(|cause| driver("tell its size", cause))?;
        Ok(n.max(1) as usize)
    }

    /// In which order the emulator runs the threads of what the calling thread launches from now on, and on how many processors; a GPU
    /// has its own.
    pub fn set_schedule(order: Order, n_threads: usize) {
        SCHEDULE.set((order, n_threads));
    }

    /// Tells the emulator how to run what this thread launches next.
    pub(super) fn schedule(&self) {
        if let Driver::Simt(_) = self.0.driver {
            let (order, n_threads) = SCHEDULE.get();
            simt::set_schedule(order, n_threads);
        }
    }

    pub(super) fn count(&self, launches: usize) {
        self.0.launches.fetch_add(launches, Ordering::Relaxed);
    }

    /// The queue.
    pub(super) fn queue(&self) -> &Arc<CudaStream> {
        &self.0.stream
    }

    /// Launches so far.
    pub fn launches(&self) -> usize {
        self.0.launches.load(Ordering::Relaxed)
    }

    pub(super) fn bind(&self) -> Result<(), GpuError> {
        self.0.context.bind_to_thread().map_err(|cause| driver("take this thread", cause))
    }

    pub(super) fn stream(&self) -> sys::CUstream {
        self.0.stream.cu_stream()
    }

    /// A mark behind all that was asked for so far.
    pub(super) fn event(&self) -> Result<CudaEvent, GpuError> {
        self.0.stream.record_event(None).map_err(|cause| driver("record an event", cause))
    }

    /// Waits until everything has run.
    ///
    /// # Errors
    /// If something that ran failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.0.stream.synchronize().map_err(|cause| driver("finish what was launched", cause))
    }

    /// Launches a kernel. Launchers call this; they know which sizes belong together.
    ///
    /// # Errors
    /// If the kernel does not compile, takes other parameters, or (on the emulator) does something that is wrong.
    pub fn launch(&self, kernel: &'static str, grid: Grid, args: &[Arg]) -> Result<(), GpuError> {
        if grid.is_empty() {
            return Ok(());
        }
        let inner = &self.0;
        let function = self.function(kernel)?;
        let expected = &inner.signatures[kernel].parameters;
        let got: String = args.iter().map(Arg::letter).collect();
        let fits = |(expected, got): (char, char)| expected == got || (expected == 'r' && got == 'w');
        if expected.len() != got.len() || !expected.chars().zip(got.chars()).all(fits) {
            return Err(GpuError::Arguments { kernel, expected: expected.clone(), got });
        }
        let fail = |cause: DriverError| match driver("launch", cause) {
            GpuError::Driver { cause, .. } => GpuError::Launch { kernel: kernel.to_owned(), cause },
            other => other,
        };
        if grid.shared > DEFAULT_SHARED {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(attribute, grid.shared as i32).map_err(fail)?;
        }
        self.schedule();
        self.bind()?;
        let mut pointers: Vec<*mut c_void> = args
            .iter()
            .map(|arg| match arg {
                Arg::Read(value) | Arg::Write(value) => (&raw const *value).cast_mut().cast(),
                Arg::I32(value) => (&raw const *value).cast_mut().cast(),
                Arg::U32(value) => (&raw const *value).cast_mut().cast(),
                Arg::F32(value) => (&raw const *value).cast_mut().cast(),
            })
            .collect();
        let [bx, by, bz] = grid.blocks;
        let [tx, ty, tz] = grid.threads;
        self.count(1);
        // SAFETY: the arguments are of the types that the kernel's text declares, and the driver copies them before it returns. That
        // they point to as much memory as the kernel touches is what launchers see to.
        unsafe {
            result::launch_kernel(
                function.cu_function(),
                (bx, by, bz),
                (tx, ty, tz),
                grid.shared,
                self.stream(),
                &mut pointers,
            )
        }
        .map_err(fail)
    }

    /// The kernel, compiled with all others of its file when it is first asked for.
    fn function(&self, kernel: &'static str) -> Result<CudaFunction, GpuError> {
        let inner = &self.0;
        let mut functions = inner.functions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(function) = functions.get(kernel) {
            return Ok(function.clone());
        }
        let unknown = || GpuError::UnknownKernel { kernel: kernel.to_owned() };
        let signature = inner.signatures.get(kernel).ok_or_else(unknown)?;
        if let Driver::Simt(_) = inner.driver {
            // The text and what the compiler made of it must say the same.
            let built = simt::signature(kernel).ok_or_else(unknown)?;
            if built != signature.parameters {
                let expected = signature.parameters.clone();
                return Err(GpuError::Arguments { kernel, expected, got: built });
            }
        }
        let image = match inner.compiler.image(signature.file)? {
            Image::Cubin(bytes) => Ptx::from_binary(bytes),
            Image::Built => Ptx::from_src(signature.file),
        };
        let fail = |cause| driver(&format!("load {} for kernel {kernel}", signature.file), cause);
        let module = inner.context.load_module(image).map_err(fail)?;
        let function = module.load_function(kernel).map_err(fail)?;
        functions.insert(kernel, function.clone());
        Ok(function)
    }

    /// Milliseconds that what `body` launches takes on the device.
    ///
    /// # Errors
    /// Those of `body` and of the driver.
    pub fn time<E: From<GpuError>>(&self, body: impl FnOnce() -> Result<(), E>) -> Result<f32, E> {
        let fail = |cause| driver("measure a time", cause);
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let start = self.0.stream.record_event(timed).map_err(fail)?;
        body()?;
        let end = self.0.stream.record_event(timed).map_err(fail)?;
        Ok(start.elapsed_ms(&end).map_err(fail)?)
    }
}
