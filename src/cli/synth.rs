//! `lockstep synth`: a synthetic model.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;

use super::progress;
use crate::gguf::sha256;
use crate::synth::{PRESETS, TYPES, preset, write_model};
use crate::tensor::GgmlType;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep synth mini-bonsai --out mini.gguf
  lockstep synth micro-bonsai --seed 7 --type ptq1_0 --out micro.gguf

The same preset, seed and type give the same bytes on every machine. pq2_0 and ptq1_0 are folded
(prism.hadamard.*) and hold the same ternary weights; f32 is their unfolded twin, which llama.cpp can run, and the
other types are that twin quantised.")]
pub(super) struct Args {
    /// The shape of the model: micro-bonsai (4 layers) or mini-bonsai (64 layers)
    #[arg(value_parser = PossibleValuesParser::new(PRESETS.iter().map(|p| p.name)))]
    preset: String,
    /// Where to write it
    #[arg(long, value_name = "F")]
    out: PathBuf,
    /// Which weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The type of its matrices
    #[arg(long = "type", value_name = "T", default_value = "pq2_0",
          value_parser = PossibleValuesParser::new(TYPES.iter().map(|t| t.name())))]
    ty: String,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let preset = preset(&args.preset).context("no such preset")?;
    let ty = GgmlType::from_name(&args.ty).context("no such type")?;
    let bar = progress::bar(preset.name);
    let written = write_model(preset, args.seed, ty, &args.out, &mut progress::callback(&bar));
    bar.finish_and_clear();
    written?;
    println!(
        "{} seed {} {ty}: {}, sha256 {}",
        preset.name,
        args.seed,
        args.out.display(),
        sha256(&args.out)?
    );
    Ok(ExitCode::SUCCESS)
}
