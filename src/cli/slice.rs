//! `lockstep slice`: the first layers of a model.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args as ClapArgs;

use super::progress;
use crate::gguf::sha256;
use crate::synth::slice;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep slice bonsai.gguf --layers 4 bonsai-4.gguf

Real weights in a small file: everything outside the layers is kept, tensors are copied as they are.")]
pub(super) struct Args {
    /// The model
    input: PathBuf,
    /// How many layers to keep, from the first
    #[arg(long, value_name = "N")]
    layers: usize,
    /// Where to write the result
    out: PathBuf,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let bar = progress::bar("slicing");
    let written = slice(&args.input, args.layers, &args.out, &mut progress::callback(&bar));
    bar.finish_and_clear();
    written?;
    println!(
        "first {} layers of {} to {}, sha256 {}",
        args.layers,
        args.input.display(),
        args.out.display(),
        sha256(&args.out)?
    );
    Ok(ExitCode::SUCCESS)
}
