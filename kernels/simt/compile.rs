// Builds the kernels and the runtime that executes them on the CPU into one shared library that poses as libcuda.so.
// Shared by build.rs, which builds the kernels as they are, and by tests, which build them with mistakes planted.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io, thread};

/// How much a kernel is watched while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flavour {
    /// Guard pages around buffers, poison in fresh memory, barriers that threads do not share.
    Fast,
    /// Also each access: its bounds and alignment, whether what it reads was written, and races.
    Checked,
}

impl Flavour {
    /// Both.
    pub(crate) const ALL: [Flavour; 2] = [Flavour::Fast, Flavour::Checked];

    /// The name of the library.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Flavour::Fast => "libsimt_fast.so",
            Flavour::Checked => "libsimt_checked.so",
        }
    }
}

/// The processor that the kernels are compiled for: what every x86-64 machine of the last ten years has.
pub(crate) const CPU: &str = "x86-64-v3";

/// Flags of every compilation. The library's thread-local segment is the shared memory of a block, so nothing may be shared
/// between two copies of it, and no access may go through a wrapper; contraction is off as it is for NVRTC.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "-fPIC",
    "-g1",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-fno-strict-aliasing",
    "-fno-extern-tls-init",
    "-fstack-clash-protection",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-ffp-contract=off",
    "-w",
];

/// Flags of kernels whose accesses are watched: the compiler calls hooks of ours in place of those of its own sanitizers.
const WATCHED: &[&str] =
    &["-O1", "-fsanitize=thread,bounds,alignment", "--param=tsan-instrument-func-entry-exit=0"];

/// Names of the `__global__` functions of a kernel file, in order.
pub(crate) fn kernel_names(source: &str) -> Vec<String> {
    let code: String =
        source.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let name = |mut head: &str| loop {
        let (before, behind) = head.split_once('(')?;
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let name = before.trim_end().rsplit(|c| !is_part(c)).next()?;
        if name != "__launch_bounds__" {
            return Some(name.to_owned());
        }
        head = behind.split_once(')')?.1;
    };
    code.split("__global__").skip(1).filter_map(name).collect()
}

/// Files with one extension, sorted by name.
pub(crate) fn files(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == extension));
    files.sort();
    Ok(files)
}

/// What is compiled to one object.
struct Unit {
    source: PathBuf,
    object: PathBuf,
    is_kernel: bool,
}

/// Compiles kernels (`.cu`) and the runtime in `simt`, and links them in `out`; returns the library's path.
///
/// `compiler` makes a command with the C++ compiler and what it always takes. Headers of kernels are looked for beside them. An
/// object that is there already, of the same text, is taken as it is.
pub(crate) fn library(
    compiler: &(dyn Fn() -> Command + Sync),
    kernels: &[PathBuf],
    simt: &Path,
    flavour: Flavour,
    out: &Path,
) -> Result<PathBuf, String> {
    let fail = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| fail(path, error));
    fs::create_dir_all(out).map_err(|error| fail(out, error))?;
    let mut all = DefaultHasher::new();
    (FLAGS, WATCHED, CPU, flavour as u8).hash(&mut all);
    // Kernels of tests include the headers of those that are built in.
    let headers_in = |folder: &Path, extension: &str, hash: &mut DefaultHasher| -> Result<(), String> {
        let headers = files(folder, extension).map_err(|error| fail(folder, error))?;
        headers.iter().try_for_each(|header| read(header).map(|text| text.hash(hash)))
    };
    headers_in(simt, "h", &mut all)?;
    headers_in(simt.parent().unwrap_or(simt), "cuh", &mut all)?;
    let named = |source: &Path, text: &str, headers: &DefaultHasher| {
        let mut hash = headers.clone();
        (source, text).hash(&mut hash);
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        out.join(format!("{stem}-{:016x}.o", hash.finish()))
    };
    let mut units = Vec::new();
    for kernel in kernels {
        let text = read(kernel)?;
        let stem = kernel.file_stem().unwrap_or_default().to_string_lossy();
        let wrapper = out.join(format!("{stem}_simt.cpp"));
        let register: String =
            kernel_names(&text).iter().map(|name| format!("SIMT_KERNEL({name})\n")).collect();
        fs::write(&wrapper, format!("#include \"{}\"\n{register}", kernel.display()))
            .map_err(|error| fail(&wrapper, error))?;
        let mut headers = all.clone();
        headers_in(kernel.parent().unwrap_or(Path::new(".")), "cuh", &mut headers)?;
        units.push(Unit { object: named(kernel, &text, &headers), source: wrapper, is_kernel: true });
    }
    for source in files(simt, "cpp").map_err(|error| fail(simt, error))? {
        units.push(Unit { object: named(&source, &read(&source)?, &all), source, is_kernel: false });
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || -> Result<(), String> {
        while let Some(unit) = units.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            compile(compiler(), unit, simt, flavour)?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("it returns its errors"))
    })?;
    let library = out.join(flavour.file_name());
    let mut link = compiler();
    link.args([
        "-shared",
        "-Wl,-z,defs",
        "-Wl,-Bsymbolic",
        "-Wl,-soname,libcuda.so",
        "-Wl,-z,nodelete",
        "-o",
    ]);
    link.arg(&library).args(units.iter().map(|unit| &unit.object));
    run(link.args(["-lm", "-ldl", "-lpthread"]))?;
    Ok(library)
}

fn compile(mut command: Command, unit: &Unit, simt: &Path, flavour: Flavour) -> Result<(), String> {
    if unit.object.exists() {
        return Ok(());
    }
    command.args(FLAGS).arg(format!("-march={CPU}")).arg("-I").arg(simt);
    match (unit.is_kernel, flavour) {
        (true, Flavour::Checked) => command.args(WATCHED),
        _ => command.arg("-O2"),
    };
    if unit.is_kernel {
        command.args(["-include", "simt.h"]);
    } else if flavour == Flavour::Checked {
        command.arg("-DSIMT_CHECKED");
    }
    // An interrupted compilation leaves no object that looks finished.
    let unfinished = unit.object.with_extension("unfinished");
    run(command.arg("-c").arg(&unit.source).arg("-o").arg(&unfinished))?;
    fs::rename(&unfinished, &unit.object).map_err(|error| format!("{}: {error}", unit.object.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let Output { status, stderr, .. } =
        command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{status} of {command:?}\n{}", String::from_utf8_lossy(&stderr)))
}
