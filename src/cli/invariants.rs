//! `lockstep invariants`: what an engine must do whatever the model; needs no reference.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

use super::engine::EngineName;
use super::output::{require_folder, write};
use super::{DIFFERENCE, cache, progress};
use crate::engine::gpu::GpuModel;
use crate::engine::{DeltaNetRoute, StateFault};
use crate::harness::{self, Case, CpuSubject, GpuSubject, LENGTHS, Subject};
use crate::model::Model;
use crate::report::{invariants_json, invariants_table};

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep invariants model.gguf
  lockstep invariants reference-dumps/micro-bonsai --lengths 1,5,65
  lockstep invariants model.gguf --tokens 785,6722,315,9625 --json result.json
  lockstep invariants reference-dumps/micro-bonsai --lengths 5 --fault conv_column
      makes the engine handle its state wrong on purpose; exits 1 and says from which token on it is off

For each length the engine runs tokens in ways that must give the same: in one ubatch, in any split, token by token;
after others were forgotten, beside other sequences, after a rollback or from a snapshot. For each token l_out of every
layer and the logits are compared, and at the end the state of every sequence. Where the arithmetic is the same, bits
must be equal; where sums are taken in another order, the difference is judged against the noise floor (f32 against f64).

Exit codes: 0 all hold; 1 one is broken; 2 could not run.")]
pub(super) struct Args {
    /// The model: a GGUF file, the first part of a split one, or a case folder
    model: PathBuf,
    /// Token ids that prompts are cut from, repeated if they are too few [default: spread over the vocabulary]
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    tokens: Vec<u32>,
    /// Lengths to try
    #[arg(long, value_delimiter = ',', value_name = "NS", default_values_t = LENGTHS, value_parser = length)]
    lengths: Vec<usize>,
    /// The engine to try; cuda and simt are held to the invariants beside the cpu engine, and compared with it
    #[arg(long, value_enum, default_value_t = EngineName::Cpu)]
    engine: EngineName,
    /// Make the engine handle its state wrong on purpose (an unknown name lists them all)
    #[arg(long, value_name = "NAME")]
    fault: Option<StateFault>,
    /// Show every comparison that is broken
    #[arg(long)]
    all: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
}

fn length(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a length is at least 1".to_owned()),
        Ok(length) => Ok(length),
        Err(_) => Err("not a number".to_owned()),
    }
}

/// Tokens where none are given: this many, spread over the vocabulary.
const TOKENS: u32 = 251;

pub(super) fn run(args: Args) -> Result<ExitCode> {
    if let Some(path) = &args.json {
        require_folder(path)?;
    }
    let path = match args.model.is_dir() {
        true => {
            let bar = progress::bar("model");
            let built = Case::open(&args.model)?.build_model(&cache::root(), &mut progress::callback(&bar));
            bar.finish_and_clear();
            built?
        }
        false => args.model.clone(),
    };
    let model = Model::open(&path)?;
    let n_vocab = model.hparams().n_vocab as u32;
    let tokens = match args.tokens.is_empty() {
        // Multiples of a large odd number leave no pattern in a vocabulary of any size.
        true => (1..=TOKENS).map(|i| i.wrapping_mul(0x9E37_79B1) % n_vocab).collect(),
        false => args.tokens.clone(),
    };
    let [fused, unfused] = [DeltaNetRoute::Fused, DeltaNetRoute::Unfused].map(|delta_net| CpuSubject {
        model: &model,
        delta_net,
        fault: args.fault,
    });
    let gpu = match (args.engine.device()?, args.fault) {
        (Some(_), Some(_)) => bail!("--fault is a mistake of the cpu engine"),
        (Some(device), None) => {
            let bar = progress::bar("weights to the device");
            let uploaded = GpuModel::upload(&device, &model, &mut progress::callback(&bar));
            bar.finish_and_clear();
            let model = Arc::new(uploaded?);
            let routes = [DeltaNetRoute::Fused, DeltaNetRoute::Unfused];
            Some(routes.map(|delta_net| GpuSubject { model: Arc::clone(&model), delta_net }))
        }
        (None, _) => None,
    };
    let subjects: Vec<&dyn Subject> = match &gpu {
        None => vec![&fused, &unfused],
        Some([on_device, unfused_there]) => vec![&fused, on_device, unfused_there],
    };
    let bar = progress::bar("invariants");
    let found = harness::invariants(&subjects, &tokens, &args.lengths, &mut progress::callback(&bar));
    bar.finish_and_clear();
    let found = found?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(path) = &args.json {
        write(path, &invariants_json(&name, &found))?;
    }
    let h = model.hparams();
    let lengths: Vec<String> = args.lengths.iter().map(usize::to_string).collect();
    println!("{name}   {} layers, lengths {}", h.layers.len(), lengths.join(" "));
    if let Some(fault) = args.fault {
        println!("wrong on purpose: {fault}: {}", fault.line());
    }
    println!();
    print!("{}", invariants_table(&found, args.all));
    Ok(if found.is_pass() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCE) })
}
