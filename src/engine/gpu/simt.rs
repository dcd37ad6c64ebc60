//! The stand-in driver: the kernels on the CPU, one fiber for each CUDA thread (kernels/simt).
//!
//! The library poses as `libcuda.so`. Loaded before cudarc looks for one, it is found in its place, and the whole host side runs as it
//! does on a GPU.
#![allow(unsafe_code)] // functions of the emulator, by name

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::GpuError;

/// Which build of the emulator runs the kernels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Flavour {
    /// Guard pages around buffers, poison in fresh memory, and barriers that threads do not share.
    #[default]
    Fast,
    /// Also every access: its bounds and alignment, whether what is read was written, and races.
    Checked,
    /// A library that was built elsewhere, of kernels that were changed.
    At(PathBuf),
}

/// Which thread runs first wherever several could.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The lowest lane of the lowest warp; blocks in order.
    #[default]
    Forward,
    /// The other way round.
    Reverse,
    /// Any, by this seed.
    Random(u64),
}

static LOADED: OnceLock<Library> = OnceLock::new();

/// Makes the emulator the driver of this process. Called once, before anything is asked of cudarc.
pub(super) fn load(flavour: &Flavour) -> Result<(), GpuError> {
    let path = match flavour {
        Flavour::At(path) => path.clone(),
        Flavour::Fast | Flavour::Checked => embedded(flavour)?,
    };
    // SAFETY: the library is ours; what runs when it is loaded registers kernels and nothing else.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }
        .map_err(|cause| GpuError::Library { path, cause: cause.to_string() })?;
    LOADED.set(library).ok();
    Ok(())
}

/// The library in this binary as a file that exists while the process runs.
#[cfg(simt)]
fn embedded(flavour: &Flavour) -> Result<PathBuf, GpuError> {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    if !(is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("bmi2"))
    {
        return Err(GpuError::OldProcessor { needed: "AVX2, FMA, F16C and BMI2" });
    }
    let bytes: &[u8] = match flavour {
        Flavour::Checked => include_bytes!(env!("SIMT_CHECKED")),
        _ => include_bytes!(env!("SIMT_FAST")),
    };
    let path = PathBuf::from("memory");
    let fail = |cause: std::io::Error| GpuError::Library { path: path.clone(), cause: cause.to_string() };
    let fd = rustix::fs::memfd_create("libsimt.so", rustix::fs::MemfdFlags::empty())
        .map_err(|e| fail(e.into()))?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes).map_err(fail)?;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    std::mem::forget(file); // addr2line finds lines in it as long as the process runs
    Ok(path)
}

#[cfg(not(simt))]
fn embedded(_: &Flavour) -> Result<PathBuf, GpuError> {
    Err(GpuError::NoSimt)
}

/// Says in which order threads run and on how many processors, for all that this thread launches.
pub(super) fn set_schedule(order: Order, n_threads: usize) {
    let Some(library) = LOADED.get() else { return };
    type SetSchedule = unsafe extern "C" fn(c_uint, u64, c_uint);
    let (order, seed) = match order {
        Order::Forward => (0, 0),
        Order::Reverse => (1, 0),
        Order::Random(seed) => (2, seed),
    };
    // SAFETY: kernels/simt/api.h declares it so.
    if let Ok(set) = unsafe { library.get::<SetSchedule>(b"simt_set_schedule") } {
        unsafe { set(order, seed, n_threads as c_uint) };
    }
}

/// What C++ took a kernel's parameters for, in the letters of [`super::Arg`].
pub(super) fn signature(kernel: &str) -> Option<String> {
    let library = LOADED.get()?;
    let name = CString::new(kernel).ok()?;
    type Signature = unsafe extern "C" fn(*const c_char) -> *const c_char;
    // SAFETY: kernels/simt/api.h declares it so; what it returns lives as long as the library.
    let signature = unsafe { library.get::<Signature>(b"simt_signature").ok()?(name.as_ptr()) };
    if signature.is_null() {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { CStr::from_ptr(signature) }.to_string_lossy().into_owned())
}

/// The number of buffers that exist on the emulated device.
pub(super) fn live_buffers() -> Option<usize> {
    type Live = unsafe extern "C" fn() -> c_int;
    // SAFETY: kernels/simt/api.h declares it so.
    let count = unsafe { LOADED.get()?.get::<Live>(b"simt_live_buffers").ok()?() };
    Some(count as usize)
}

/// What one launch did to device memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// The kernel.
    pub kernel: String,
    /// Threads of a block.
    pub threads: usize,
    /// Bytes that were read, each once.
    pub touched_read: usize,
    /// Bytes that were written, each once.
    pub touched_written: usize,
    /// Bytes of all reads together.
    pub accessed_read: usize,
    /// Bytes of all writes together.
    pub accessed_written: usize,
}

/// As kernels/simt/api.h has it.
#[repr(C)]
struct RawCounts {
    kernel: *const c_char,
    threads: u64,
    bytes: [u64; 4],
}

/// Runs something and returns what each of its launches did; nothing of launches in the fast flavour or on a GPU. Launches of other
/// threads are counted as well.
pub fn counted(run: impl FnOnce()) -> Vec<Counts> {
    type Keep = unsafe extern "C" fn(c_int);
    type Next = unsafe extern "C" fn(*mut RawCounts) -> c_int;
    // SAFETY: kernels/simt/api.h declares both so.
    let found = LOADED.get().and_then(|library| unsafe {
        let keep = library.get::<Keep>(b"simt_keep_counts").ok()?;
        Some((keep, library.get::<Next>(b"simt_next_counts").ok()?))
    });
    let Some((keep, next)) = found else {
        run();
        return Vec::new();
    };
    // SAFETY: as above.
    unsafe { keep(1) };
    run();
    let mut all = Vec::new();
    let mut raw = RawCounts { kernel: std::ptr::null(), threads: 0, bytes: [0; 4] };
    // SAFETY: `raw` is a place for counts; the name lives as long as the library.
    while unsafe { next(&mut raw) } != 0 {
        let [touched_read, touched_written, accessed_read, accessed_written] = raw.bytes.map(|n| n as usize);
        let kernel = unsafe { CStr::from_ptr(raw.kernel) }.to_string_lossy().into_owned();
        let threads = raw.threads as usize;
        all.push(Counts { kernel, threads, touched_read, touched_written, accessed_read, accessed_written });
    }
    // SAFETY: as above.
    unsafe { keep(0) };
    all
}
