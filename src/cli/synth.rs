//! `lockstep synth`: a synthetic model.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;

use super::progress;
use crate::gguf::sha256;
use crate::synth::{PRESETS, TYPES, preset, write_mixed};
use crate::tensor::GgmlType;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep synth mini-bonsai --out mini.gguf
  lockstep synth micro-bonsai --seed 7 --type ptq1_0 --out micro.gguf
  lockstep synth nano-bonsai --type q8_0,q4_K,q6_K --out mixed.gguf

The same preset, seed and type give the same bytes on every machine. pq2_0 and ptq1_0 are folded
(prism.hadamard.*) and hold the same ternary weights; f32 is their unfolded twin, which llama.cpp can run, and the
other types are that twin quantised. Several of those are dealt out to the matrices in turn.")]
pub(super) struct Args {
    /// The shape of the model: micro-bonsai (4 layers), mini-bonsai (64 layers), nano-bonsai (2 layers, for quantised types)
    #[arg(value_parser = PossibleValuesParser::new(PRESETS.iter().map(|p| p.name)))]
    preset: String,
    /// Where to write it
    #[arg(long, value_name = "F")]
    out: PathBuf,
    /// Which weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The type of its matrices, or several
    #[arg(long = "type", value_name = "T", default_value = "pq2_0", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(TYPES.iter().map(|t| t.name())))]
    types: Vec<String>,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let preset = preset(&args.preset).context("no such preset")?;
    let types: Option<Vec<GgmlType>> = args.types.iter().map(|ty| GgmlType::from_name(ty)).collect();
    let types = types.context("no such type")?;
    let bar = progress::bar(preset.name);
    let written = write_mixed(preset, args.seed, &types, &args.out, &mut progress::callback(&bar));
    bar.finish_and_clear();
    written?;
    println!(
        "{} seed {} {}: {}, sha256 {}",
        preset.name,
        args.seed,
        args.types.join(","),
        args.out.display(),
        sha256(&args.out)?
    );
    Ok(ExitCode::SUCCESS)
}
