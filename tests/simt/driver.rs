//! The driver behaves as NVIDIA's does where the engine relies on it.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::library::{Emulator, Flavour, emulator};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NOT_FOUND: c_int = 500;
const LAUNCH_FAILED: c_int = 719;
const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_INVALIDATED: c_int = 901;

const THREAD_LOCAL: c_int = 1;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

/// Calls a function of the driver.
macro_rules! call {
    ($emulator:expr, $name:literal, $($value:expr => $type:ty),* $(,)?) => {
        // SAFETY: the types are those of cuda.h.
        unsafe { $emulator.symbol::<unsafe extern "C" fn($($type),*) -> c_int>($name)($($value),*) }
    };
}

fn alloc(emulator: &Emulator, bytes: usize) -> Result<u64, c_int> {
    let mut address = 0u64;
    match call!(emulator, "cuMemAlloc_v2", &mut address => *mut u64, bytes => usize) {
        SUCCESS => Ok(address),
        error => Err(error),
    }
}

fn free(emulator: &Emulator, address: u64) -> c_int {
    call!(emulator, "cuMemFree_v2", address => u64)
}

fn free_memory(emulator: &Emulator) -> (usize, usize) {
    let (mut free, mut total) = (0, 0);
    assert_eq!(
        call!(emulator, "cuMemGetInfo_v2", &mut free => *mut usize, &mut total => *mut usize),
        SUCCESS
    );
    (free, total)
}

fn stream(emulator: &Emulator) -> *mut c_void {
    let mut stream = null_mut();
    assert_eq!(call!(emulator, "cuStreamCreate", &mut stream => *mut *mut c_void, 1 => c_uint), SUCCESS);
    stream
}

fn write(emulator: &Emulator, to: u64, values: &[f32], stream: *mut c_void) -> c_int {
    let from: *const c_void = values.as_ptr().cast();
    call!(emulator, "cuMemcpyHtoDAsync_v2", to => u64, from => *const c_void, size_of_val(values) => usize, stream => *mut c_void)
}

fn read(emulator: &Emulator, from: u64, n: usize, stream: *mut c_void) -> Result<Vec<f32>, c_int> {
    let mut values = vec![0f32; n];
    let to: *mut c_void = values.as_mut_ptr().cast();
    match call!(emulator, "cuMemcpyDtoHAsync_v2", to => *mut c_void, from => u64, n * 4 => usize, stream => *mut c_void)
    {
        SUCCESS => Ok(values),
        error => Err(error),
    }
}

fn function(emulator: &Emulator, kernel: &str) -> Result<*mut c_void, c_int> {
    let (mut module, mut function) = (null_mut(), null_mut());
    let image = c"any".as_ptr().cast();
    assert_eq!(
        call!(emulator, "cuModuleLoadData", &mut module => *mut *mut c_void, image => *const c_void),
        SUCCESS
    );
    let name = CString::new(kernel).unwrap();
    let name = name.as_ptr();
    match call!(emulator, "cuModuleGetFunction", &mut function => *mut *mut c_void, module => *mut c_void, name => *const std::ffi::c_char)
    {
        SUCCESS => Ok(function),
        error => Err(error),
    }
}

/// Launches a block.
fn launch(
    emulator: &Emulator,
    function: *mut c_void,
    threads: c_uint,
    dynamic: c_uint,
    stream: *mut c_void,
    args: &[u64],
) -> c_int {
    let pointers: Vec<*const u64> = args.iter().map(|arg| &raw const *arg).collect();
    call!(emulator, "cuLaunchKernel", function => *mut c_void, 1 => c_uint, 1 => c_uint, 1 => c_uint, threads => c_uint,
          1 => c_uint, 1 => c_uint, dynamic => c_uint, stream => *mut c_void, pointers.as_ptr() => *const *const u64,
          null_mut() => *mut c_void)
}

#[test]
fn a_copy_beyond_a_buffer_fails() {
    for emulator in Flavour::ALL.map(emulator) {
        let (s, address) = (stream(emulator), alloc(emulator, 40).unwrap());
        assert_eq!(write(emulator, address, &[1.0; 10], s), SUCCESS);
        assert_eq!(write(emulator, address, &[1.0; 11], s), INVALID_VALUE);
        assert_eq!(write(emulator, address + 4, &[1.0; 10], s), INVALID_VALUE);
        assert_eq!(write(emulator, address - 4, &[1.0; 2], s), INVALID_VALUE);
        assert_eq!(read(emulator, address, 11, s), Err(INVALID_VALUE));
        let other = alloc(emulator, 40).unwrap();
        let copy = |to: u64, from: u64, bytes: usize| call!(emulator, "cuMemcpyDtoDAsync_v2", to => u64, from => u64, bytes => usize, s => *mut c_void);
        assert_eq!(copy(other, address, 40), SUCCESS);
        assert_eq!(read(emulator, other, 10, s), Ok(vec![1.0; 10]));
        assert_eq!(copy(other, address, 44), INVALID_VALUE);
        let clear = |bytes: usize| call!(emulator, "cuMemsetD8Async", other => u64, 0 => u8, bytes => usize, s => *mut c_void);
        assert_eq!(clear(41), INVALID_VALUE);
        assert_eq!(clear(8), SUCCESS);
        assert_eq!(read(emulator, other, 3, s), Ok(vec![0.0, 0.0, 1.0]));
        assert_eq!((free(emulator, address), free(emulator, other)), (SUCCESS, SUCCESS));
        assert_eq!(free(emulator, address), INVALID_VALUE);
        assert_eq!(read(emulator, address, 1, s), Err(INVALID_VALUE));
    }
}

#[test]
fn memory_has_an_end() {
    // The checked flavour shares the code.
    let emulator = emulator(Flavour::Fast);
    let (before, total) = free_memory(emulator);
    assert_eq!(total, 16 << 30);
    assert_eq!(alloc(emulator, total + 1), Err(OUT_OF_MEMORY));
    assert_eq!(alloc(emulator, 0), Err(INVALID_VALUE));
    let buffer = alloc(emulator, 100 << 20).unwrap();
    // Other tests allocate as well, a little.
    let (during, _) = free_memory(emulator);
    assert!(before.abs_diff(during).abs_diff(100 << 20) < 10 << 20, "{before} {during}");
    assert_eq!(alloc(emulator, total - (50 << 20)), Err(OUT_OF_MEMORY));
    assert_eq!(free(emulator, buffer), SUCCESS);
}

#[test]
fn pinned_memory_is_memory() {
    for emulator in Flavour::ALL.map(emulator) {
        let mut memory: *mut c_void = null_mut();
        assert_eq!(
            call!(emulator, "cuMemHostAlloc", &mut memory => *mut *mut c_void, 4 => usize, 0 => c_uint),
            SUCCESS
        );
        // SAFETY: there are 4 bytes.
        unsafe { memory.cast::<f32>().write(1.0) };
        assert_eq!(call!(emulator, "cuMemFreeHost", memory => *mut c_void), SUCCESS);
    }
}

#[test]
fn dynamic_shared_memory_beyond_48_kib_is_asked_for() {
    for emulator in Flavour::ALL.map(emulator) {
        let (s, rotate) = (stream(emulator), function(emulator, "rotate").unwrap());
        let data = alloc(emulator, 4).unwrap();
        assert_eq!(write(emulator, data, &[1.0], s), SUCCESS);
        let run = |bytes| launch(emulator, rotate, 1, bytes, s, &[data, 1]);
        let ask = |bytes: c_int| call!(emulator, "cuFuncSetAttribute", rotate => *mut c_void, MAX_DYNAMIC_SHARED_SIZE_BYTES => c_int, bytes => c_int);
        assert_eq!(run(48 * 1024), SUCCESS);
        assert_eq!(run(48 * 1024 + 4), INVALID_VALUE);
        assert_eq!(ask(64 * 1024), SUCCESS);
        assert_eq!(run(64 * 1024), SUCCESS);
        assert_eq!(run(64 * 1024 + 4), INVALID_VALUE);
        assert_eq!(ask(99 * 1024 + 1), INVALID_VALUE);
        assert_eq!(ask(99 * 1024), SUCCESS);
        assert_eq!(run(99 * 1024), SUCCESS);
        free(emulator, data);
    }
}

#[test]
fn a_recording_runs_with_what_memory_holds_then() {
    for emulator in Flavour::ALL.map(emulator) {
        let (s, rotate) = (stream(emulator), function(emulator, "rotate").unwrap());
        let data = alloc(emulator, 8).unwrap();
        write(emulator, data, &[1.0, 2.0], s);
        assert_eq!(
            call!(emulator, "cuStreamBeginCapture_v2", s => *mut c_void, THREAD_LOCAL => c_int),
            SUCCESS
        );
        assert_eq!(launch(emulator, rotate, 2, 8, s, &[data, 1]), SUCCESS);
        let (mut graph, mut executable) = (null_mut(), null_mut());
        assert_eq!(
            call!(emulator, "cuStreamEndCapture", s => *mut c_void, &mut graph => *mut *mut c_void),
            SUCCESS
        );
        assert_eq!(read(emulator, data, 2, s), Ok(vec![1.0, 2.0]), "it was recorded, not run");
        assert_eq!(
            call!(emulator, "cuGraphInstantiateWithFlags", &mut executable => *mut *mut c_void, graph => *mut c_void, 0 => u64),
            SUCCESS
        );
        let replay = || call!(emulator, "cuGraphLaunch", executable => *mut c_void, s => *mut c_void);
        assert_eq!(replay(), SUCCESS);
        assert_eq!(read(emulator, data, 2, s), Ok(vec![2.0, 1.0]));
        write(emulator, data, &[5.0, 6.0], s);
        assert_eq!(replay(), SUCCESS);
        assert_eq!(read(emulator, data, 2, s), Ok(vec![6.0, 5.0]));
        assert_eq!(call!(emulator, "cuGraphExecDestroy", executable => *mut c_void), SUCCESS);
        assert_eq!(call!(emulator, "cuGraphDestroy", graph => *mut c_void), SUCCESS);
        free(emulator, data);
    }
}

#[test]
fn a_recording_is_spoiled_by_what_waits_for_the_device() {
    for emulator in Flavour::ALL.map(emulator) {
        let (s, data) = (stream(emulator), alloc(emulator, 4).unwrap());
        let forbidden: [&dyn Fn() -> c_int; 4] = [
            &|| alloc(emulator, 4).unwrap_err(),
            &|| free(emulator, data),
            &|| call!(emulator, "cuStreamSynchronize", s => *mut c_void),
            &|| call!(emulator, "cuCtxSynchronize",),
        ];
        for wait in forbidden {
            let begun = call!(emulator, "cuStreamBeginCapture_v2", s => *mut c_void, THREAD_LOCAL => c_int);
            assert_eq!(begun, SUCCESS);
            assert_eq!(wait(), CAPTURE_UNSUPPORTED);
            let mut graph = null_mut();
            let end = call!(emulator, "cuStreamEndCapture", s => *mut c_void, &mut graph => *mut *mut c_void);
            assert_eq!((end, graph), (CAPTURE_INVALIDATED, null_mut()));
        }
        assert_eq!(free(emulator, data), SUCCESS, "afterwards it is allowed again");
    }
}

#[test]
fn what_a_kernel_did_wrong_is_the_text_of_the_error() {
    for emulator in Flavour::ALL.map(emulator) {
        assert_eq!(function(emulator, "nothing"), Err(NOT_FOUND));
        let (s, assert) = (stream(emulator), function(emulator, "bad_assert").unwrap());
        let out = alloc(emulator, 4 * 32).unwrap();
        assert_eq!(launch(emulator, assert, 32, 0, s, &[out, 31]), LAUNCH_FAILED);
        let mut text: *const std::ffi::c_char = std::ptr::null();
        call!(emulator, "cuGetErrorString", LAUNCH_FAILED => c_int, &mut text => *mut *const std::ffi::c_char);
        // SAFETY: it lives until this thread's next error.
        let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_str().unwrap();
        assert!(text.starts_with("bad_assert: block (0,0,0) thread (0,0,0): assertion failed"), "{text}");
        assert_eq!(launch(emulator, assert, 32, 0, s, &[out, 32]), SUCCESS, "the context can still be used");
        free(emulator, out);
    }
}
