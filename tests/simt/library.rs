//! The library of the emulator, built of the kernels in this folder, and what it exports.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::{env, slice};

use bytemuck::{Pod, Zeroable};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

#[path = "../../kernels/simt/compile.rs"]
#[allow(dead_code, unreachable_pub)]
mod compile;

pub(crate) use compile::{Flavour, kernel_names};

/// Processor time without another thread after which a thread counts as spinning, in these tests.
pub(crate) const WATCHDOG_SECONDS: f64 = 0.02;

/// The order in which threads run, and the seed of a random one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order(c_uint, u64);

/// Forward, reverse, three random ones.
pub(crate) const ORDERS: [Order; 5] = [Order(0, 0), Order(1, 0), Order(2, 1), Order(2, 2), Order(2, 3)];

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) dynamic: c_uint,
}

impl Shape {
    pub(crate) fn new(blocks: c_uint, threads: c_uint) -> Shape {
        Shape { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic: 0 }
    }

    pub(crate) fn dynamic(self, bytes: c_uint) -> Shape {
        Shape { dynamic: bytes, ..self }
    }
}

/// `simt::Launch` of kernels/simt/api.h.
#[repr(C)]
struct Launch {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    dynamic: c_uint,
    order: c_uint,
    seed: u64,
    threads: c_uint,
}

/// One flavour of the library.
pub(crate) struct Emulator(Library);

/// The library of a flavour, built when it is first asked for.
pub(crate) fn emulator(flavour: Flavour) -> &'static Emulator {
    static FAST: OnceLock<Emulator> = OnceLock::new();
    static CHECKED: OnceLock<Emulator> = OnceLock::new();
    match flavour {
        Flavour::Fast => FAST.get_or_init(|| open(flavour)),
        Flavour::Checked => CHECKED.get_or_init(|| open(flavour)),
    }
}

fn open(flavour: Flavour) -> Emulator {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kernels = compile::files(&root.join("tests/simt"), "cu").unwrap();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simt").join(format!("{flavour:?}"));
    let compiler = || Command::new(env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    let path = compile::library(&compiler, &kernels, &root.join("kernels/simt"), flavour, &out)
        .unwrap_or_else(|error| panic!("the kernels of the tests do not compile: {error}"));
    // SAFETY: it is ours; what runs when it is loaded registers kernels and nothing else.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.unwrap();
    let emulator = Emulator(library);
    // SAFETY: kernels/simt/api.h declares it so.
    unsafe { emulator.symbol::<unsafe extern "C" fn(f64)>("simt_set_watchdog")(WATCHDOG_SECONDS) };
    emulator
}

/// Device memory, freed on drop.
pub(crate) struct Memory<'a, T> {
    emulator: &'a Emulator,
    address: *mut T,
    len: usize,
}

impl<T> Memory<'_, T> {
    /// As an argument.
    pub(crate) fn arg(&self) -> u64 {
        self.address as u64
    }
}

impl<T: Pod> Memory<'_, T> {
    pub(crate) fn write(&mut self, values: &[T]) {
        assert_eq!(values.len(), self.len);
        assert!(self.emulator.may_access(self.arg(), size_of_val(values), true));
        // SAFETY: the emulator says that as many bytes are there.
        unsafe { slice::from_raw_parts_mut(self.address, self.len) }.copy_from_slice(values);
    }

    pub(crate) fn read(&self) -> Vec<T> {
        assert!(self.emulator.may_access(self.arg(), self.len * size_of::<T>(), false));
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.address, self.len) }.to_vec()
    }
}

impl<T> Drop for Memory<'_, T> {
    fn drop(&mut self) {
        // SAFETY: kernels/simt/api.h declares it so; nobody has the address any more.
        unsafe {
            self.emulator.symbol::<unsafe extern "C" fn(*mut c_void) -> c_int>("simt_free")(
                self.address.cast(),
            )
        };
    }
}

impl Emulator {
    /// # Safety
    /// The type is that of the function.
    pub(crate) unsafe fn symbol<F>(&self, name: &str) -> Symbol<F> {
        let name = CString::new(name).unwrap();
        // SAFETY: the caller's.
        unsafe { self.0.get(name.as_bytes_with_nul()) }.unwrap()
    }

    /// Memory that nothing was written to.
    pub(crate) fn fresh<T: Zeroable>(&self, len: usize) -> Memory<'_, T> {
        type Alloc = unsafe extern "C" fn(usize) -> *mut c_void;
        // SAFETY: kernels/simt/api.h declares it so.
        let address = unsafe { self.symbol::<Alloc>("simt_alloc")(len * size_of::<T>()) };
        assert!(!address.is_null());
        Memory { emulator: self, address: address.cast(), len }
    }

    pub(crate) fn upload<T: Pod>(&self, values: &[T]) -> Memory<'_, T> {
        let mut memory = self.fresh(values.len());
        memory.write(values);
        memory
    }

    fn may_access(&self, address: u64, bytes: usize, write: bool) -> bool {
        type HostAccess = unsafe extern "C" fn(u64, usize, c_int) -> c_int;
        // SAFETY: kernels/simt/api.h declares it so.
        unsafe { self.symbol::<HostAccess>("simt_host_access")(address, bytes, c_int::from(write)) == 0 }
    }

    /// Letters of a kernel's parameters.
    pub(crate) fn signature(&self, kernel: &str) -> Option<String> {
        let kernel = CString::new(kernel).unwrap();
        type Signature = unsafe extern "C" fn(*const c_char) -> *const c_char;
        // SAFETY: kernels/simt/api.h declares it so.
        let found = unsafe { self.symbol::<Signature>("simt_signature")(kernel.as_ptr()) };
        // SAFETY: it lives as long as the library.
        (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) }.to_str().unwrap().to_owned())
    }

    /// Runs a kernel; scalars are given as their bits. What is wrong, as the emulator says it.
    pub(crate) fn launch(
        &self,
        kernel: &str,
        shape: Shape,
        args: &[u64],
        order: Order,
    ) -> Result<(), String> {
        self.launch_on(1, kernel, shape, args, order)
    }

    /// The same on several OS threads.
    pub(crate) fn launch_on(
        &self,
        threads: c_uint,
        kernel: &str,
        shape: Shape,
        args: &[u64],
        order: Order,
    ) -> Result<(), String> {
        let signature = self.signature(kernel).unwrap_or_else(|| panic!("there is no kernel {kernel}"));
        assert_eq!(signature.len(), args.len(), "{kernel} takes {signature}");
        let Shape { grid, block, dynamic } = shape;
        let launch = Launch { grid, block, dynamic, order: order.0, seed: order.1, threads };
        let pointers: Vec<*const u64> = args.iter().map(|arg| &raw const *arg).collect();
        let name = CString::new(kernel).unwrap();
        let mut error = [0u8; 1200];
        type Run =
            unsafe extern "C" fn(*const c_char, *const Launch, *const *const u64, *mut u8, usize) -> c_int;
        // SAFETY: kernels/simt/api.h declares it so; there are as many arguments as the kernel takes.
        let failed = unsafe {
            self.symbol::<Run>("simt_launch")(
                name.as_ptr(),
                &launch,
                pointers.as_ptr(),
                error.as_mut_ptr(),
                error.len(),
            )
        };
        match failed {
            0 => Ok(()),
            _ => Err(CStr::from_bytes_until_nul(&error).unwrap().to_str().unwrap().to_owned()),
        }
    }
}

/// Runs a check in both flavours, in every order.
pub(crate) fn everywhere(check: impl Fn(&'static Emulator, Order)) {
    for flavour in Flavour::ALL {
        for order in ORDERS {
            check(emulator(flavour), order);
        }
    }
}
