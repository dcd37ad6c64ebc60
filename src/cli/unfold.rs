//! `lockstep unfold`: the twin that an unmodified llama.cpp can run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args as ClapArgs;

use super::progress;
use crate::gguf::sha256;
use crate::synth::unfold;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep unfold bonsai.gguf bonsai-unfolded.gguf
  lockstep slice bonsai.gguf --layers 8 small.gguf && lockstep unfold small.gguf small-unfolded.gguf

All weights become f32: the file takes 32 bits per weight (108 GB for 27B; slice it first).
`lockstep check --model bonsai.gguf` accepts dumps that llama.cpp made from the twin.")]
pub(super) struct Args {
    /// A folded model (with prism.hadamard.* metadata)
    input: PathBuf,
    /// Where to write its twin
    out: PathBuf,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let bar = progress::bar("unfolding");
    let written = unfold(&args.input, &args.out, &mut progress::callback(&bar));
    bar.finish_and_clear();
    written?;
    println!("unfolded {} to {}, sha256 {}", args.input.display(), args.out.display(), sha256(&args.out)?);
    Ok(ExitCode::SUCCESS)
}
