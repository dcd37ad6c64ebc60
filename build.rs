//! Embeds the kernels: their text, for NVRTC, and a library of them that runs on the CPU (feature `simt`).

#[path = "kernels/simt/compile.rs"]
#[allow(dead_code)] // what only tests build with
mod compile;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use compile::{Flavour, files, library};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(simt)");
    let folder = root.join("kernels");
    let mut text = String::new();
    for (table, extension) in [("FILES", "cu"), ("HEADERS", "cuh")] {
        write!(text, "pub(super) const {table}: &[(&str, &str)] = &[").expect("a string takes it");
        for path in listed(&folder, extension) {
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            write!(text, "({name:?}, include_str!({:?})),", path.display().to_string())
                .expect("a string takes it");
        }
        text += "];\n";
    }
    fs::write(out.join("sources.rs"), text).expect("the build folder can be written to");
    if env::var_os("CARGO_FEATURE_SIMT").is_some() {
        simt(&folder, &out);
    }
}

fn listed(folder: &Path, extension: &str) -> Vec<PathBuf> {
    files(folder, extension).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

/// Builds the library in both flavours, where there is a processor that it can run on.
fn simt(folder: &Path, out: &Path) {
    let (arch, os) = (env::var("CARGO_CFG_TARGET_ARCH"), env::var("CARGO_CFG_TARGET_OS"));
    if (arch.as_deref(), os.as_deref()) != (Ok("x86_64"), Ok("linux")) {
        println!("cargo:warning=the simt engine runs on x86-64 Linux only: this build is without it");
        return;
    }
    let compiler = cc::Build::new().cpp(true).try_get_compiler().unwrap_or_else(|error| {
        panic!(
            "the simt engine, which runs the GPU kernels on the CPU, needs a C++ compiler: {error}\n\
             install one (Debian: apt install g++), or build without it: cargo build --release --no-default-features"
        )
    });
    let command = || compiler.to_command();
    for flavour in Flavour::ALL {
        let folder_of = out.join(flavour.file_name().trim_end_matches(".so"));
        let built = library(&command, &listed(folder, "cu"), &folder.join("simt"), flavour, &folder_of);
        let path = built.unwrap_or_else(|error| {
            panic!(
                "the kernels do not compile for the simt engine (leave it out with --no-default-features):\n{error}"
            )
        });
        println!("cargo:rustc-env={}={}", env_name(flavour), path.display());
    }
    println!("cargo:rustc-cfg=simt");
}

fn env_name(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Fast => "SIMT_FAST",
        Flavour::Checked => "SIMT_CHECKED",
    }
}
