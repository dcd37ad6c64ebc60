//! Kernel text to machine code for one architecture: NVRTC, with results kept on disk.
#![allow(unsafe_code)] // NVRTC's functions

use std::ffi::{CString, c_char};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use cudarc::nvrtc::{result, sys};
use sha2::{Digest as _, Sha256};

use super::{GpuError, sources};

/// Where machine code comes from.
pub(super) enum Compiler {
    /// The driver has it already: the emulator.
    Built,
    Nvrtc {
        arch: String,
        cache: Option<PathBuf>,
    },
}

/// What the driver loads.
pub(super) enum Image {
    Cubin(Vec<u8>),
    Built,
}

/// Options of every compilation. Contraction is off so that kernels add up as they are written, on every device alike.
const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false", "--ptxas-options=-v"];

/// What one file was compiled to.
pub struct Compiled {
    /// Machine code, an ELF file.
    pub cubin: Vec<u8>,
    /// What the compiler said: registers and spills of each kernel.
    pub log: String,
}

impl Compiler {
    /// # Errors
    /// If there is no NVRTC.
    pub(super) fn nvrtc(arch: String, cache: Option<PathBuf>) -> Result<Compiler, GpuError> {
        check_nvrtc()?;
        Ok(Compiler::Nvrtc { arch, cache })
    }

    pub(super) fn image(&self, file: &str) -> Result<Image, GpuError> {
        let Compiler::Nvrtc { arch, cache } = self else { return Ok(Image::Built) };
        let Some(folder) = cache else { return Ok(Image::Cubin(compile(file, arch)?.cubin)) };
        let path = folder.join(format!("{}.cubin", key(file, arch)?));
        if let Ok(cubin) = fs::read(&path) {
            return Ok(Image::Cubin(cubin));
        }
        let cubin = compile(file, arch)?.cubin;
        keep(folder, &path, &cubin).map_err(|cause| GpuError::Cache { path, cause })?;
        Ok(Image::Cubin(cubin))
    }
}

fn check_nvrtc() -> Result<(), GpuError> {
    // SAFETY: it only looks for a library. cudarc panics at the first call if there is none.
    if unsafe { sys::is_culib_present() } { Ok(()) } else { Err(GpuError::NoNvrtc) }
}

/// What the machine code depends on.
fn key(file: &str, arch: &str) -> Result<String, GpuError> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are places for a number.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }
        .result()
        .map_err(|cause| failed(file, arch, cause))?;
    let mut hash = Sha256::new();
    hash.update(format!("{arch} {major}.{minor} {OPTIONS:?}\n"));
    hash.update(sources::text(file).unwrap_or_default());
    for (name, text) in sources::headers() {
        hash.update(name);
        hash.update(text);
    }
    let digest: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{arch}-{digest}", file.trim_end_matches(".cu")))
}

/// Writes a file so that it is there whole or not at all.
fn keep(folder: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = fs::File::create(&unfinished).and_then(|mut file| file.write_all(bytes));
    let moved = written.and_then(|()| fs::rename(&unfinished, path));
    if moved.is_err() {
        fs::remove_file(&unfinished).ok();
    }
    moved
}

fn failed(file: &str, arch: &str, cause: result::NvrtcError) -> GpuError {
    GpuError::Compile { file: file.to_owned(), arch: arch.to_owned(), log: cause.to_string() }
}

/// Compiles one kernel file for an architecture (`sm_90`). Needs NVRTC and no GPU.
///
/// # Errors
/// If there is no NVRTC, no such file, or it does not compile.
pub fn compile(file: &str, arch: &str) -> Result<Compiled, GpuError> {
    check_nvrtc()?;
    let fail = |cause| failed(file, arch, cause);
    let text = sources::text(file).ok_or_else(|| GpuError::UnknownKernel { kernel: file.to_owned() })?;
    let c_string = |text: &str| CString::new(text).expect("the text of a kernel has no NUL");
    let (source, name) = (c_string(text), c_string(file));
    let headers: Vec<(CString, CString)> =
        sources::headers().iter().map(|(name, text)| (c_string(name), c_string(text))).collect();
    let names: Vec<*const c_char> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
    let texts: Vec<*const c_char> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
    let mut options: Vec<String> = OPTIONS.iter().map(|&option| option.to_owned()).collect();
    options.push(format!("--gpu-architecture={arch}"));
    let mut program = std::ptr::null_mut();
    // SAFETY: all texts live until the program is destroyed below; the arrays have as many entries as is said.
    unsafe {
        sys::nvrtcCreateProgram(
            &mut program,
            source.as_ptr(),
            name.as_ptr(),
            headers.len() as i32,
            texts.as_ptr(),
            names.as_ptr(),
        )
        .result()
        .map_err(fail)?;
        let built = result::compile_program(program, &options);
        let log = result::get_program_log(program).unwrap_or_default();
        let log: Vec<u8> = log.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
        let log = String::from_utf8_lossy(&log).into_owned();
        let cubin = match built {
            Err(cause) => Err(GpuError::Compile {
                file: file.to_owned(),
                arch: arch.to_owned(),
                log: format!("{cause}\n{log}"),
            }),
            Ok(()) => cubin_of(program).map_err(fail),
        };
        result::destroy_program(program).ok();
        Ok(Compiled { cubin: cubin?, log })
    }
}

/// # Safety
/// The program has been compiled.
unsafe fn cubin_of(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the second call writes as many bytes as the first announced.
    unsafe {
        sys::nvrtcGetCUBINSize(program, &mut size).result()?;
        let mut cubin = vec![0u8; size];
        sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()).result()?;
        Ok(cubin)
    }
}
