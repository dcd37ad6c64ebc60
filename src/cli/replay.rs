//! `lockstep replay`: the reference against exact arithmetic, node by node.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args as ClapArgs, ValueEnum};

use super::output::{require_folder, write};
use super::subject::{Subject, SubjectArgs, Which};
use super::{COULD_NOT_RUN, DIFFERENCE, progress};
use crate::dump::Dump;
use crate::gguf::{Gguf, sha256};
use crate::replay::{self, Arithmetic, Assumed, Replay, ReplaySummary};
use crate::report::{bits_line, bits_table, replay_json, replay_line, replay_table};

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep replay reference-dumps/micro-bonsai
  lockstep replay --model my-model.gguf --dump my-dump.npz --json result.json
  lockstep replay reference-dumps/micro-bonsai --arithmetic ggml
      to the bit: exits 1 if one bit of one node is not what llama.cpp's own order of operations gives
  lockstep replay reference-dumps/micro-bonsai --min-coverage 97
      fails if fewer of the nodes that the dumps hold could be compared

Every node of the dump's graph is evaluated in f64 from the reference's own inputs, whatever the architecture. The model
must be the very file that llama.cpp ran. A dump made without --named holds the inputs of every node.
With --arithmetic ggml it is evaluated as that build of llama.cpp computes it (docs/arithmetic.md).

Exit codes: 0 every compared node is within its budget; 1 one is not, or the coverage is too small; 2 nothing was
compared, or it could not run.")]
pub(super) struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    /// In which arithmetic to evaluate nodes
    #[arg(long, value_enum, default_value_t = ArithmeticName::Exact)]
    arithmetic: ArithmeticName,
    /// Which rounding of activations to assume in front of matrix products
    #[arg(long, value_enum, default_value_t = RoundingName::Auto, conflicts_with = "arithmetic")]
    rounding: RoundingName,
    /// Exit 1 if less than this part of the nodes that the dumps hold was compared, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    min_coverage: f64,
    /// Write the results as JSON
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Show every node that is over its budget
    #[arg(long)]
    all: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ArithmeticName {
    /// In f64; every node is judged by its budget
    Exact,
    /// In that of the build of llama.cpp that made the dump, as it says of itself; every node is judged by its bits
    Ggml,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum RoundingName {
    /// The one that explains what the dump holds
    Auto,
    /// None: shows what the reference's rounding amounts to
    None,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("not between 0 and 100".to_owned()) }
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    if let Some(path) = &args.json {
        require_folder(path)?;
    }
    let arithmetic = match (args.arithmetic, args.rounding) {
        (ArithmeticName::Ggml, _) => Arithmetic::Ggml,
        (ArithmeticName::Exact, RoundingName::Auto) => Arithmetic::Exact(Assumed::Fitting),
        (ArithmeticName::Exact, RoundingName::None) => Arithmetic::Exact(Assumed::None),
    };
    let mut replays: Vec<(String, Replay)> = Vec::new();
    let subjects = args.subject.resolve(Which::Twin)?;
    let skipped = subjects.skipped.clone();
    for Subject { model, dumps, .. } in subjects {
        let gguf = Gguf::open(&model)?;
        let model_sha256 = sha256(&model)?;
        for (name, path) in dumps {
            let dump = Dump::open(&path)?;
            let bar = progress::bar(&name);
            let progress = &mut progress::callback(&bar);
            let replay = replay::replay_in(arithmetic, &gguf, &model_sha256, &dump, progress);
            bar.finish_and_clear();
            let replay = replay?;
            if !replays.is_empty() {
                println!();
            }
            println!("{name}   {}\n", dump.manifest().model.architecture);
            print!("{}", table(&replay, args.all));
            replays.push((name, replay));
        }
    }
    if let Some(path) = &args.json {
        let named: Vec<(&str, &Replay)> = replays.iter().map(|(name, replay)| (&name[..], replay)).collect();
        write(path, &replay_json(&named))?;
    }
    let replays: Vec<&Replay> = replays.iter().map(|(_, replay)| replay).collect();
    if !skipped.is_empty() {
        let names = skipped.join(", ");
        println!("\n{}; {} of the cases SKIPPED: {names}", line(&replays), skipped.len());
    } else if replays.len() > 1 {
        println!("\n{}", line(&replays));
    }
    Ok(ExitCode::from(exit_code(&replays, args.min_coverage)))
}

fn table(replay: &Replay, all: bool) -> String {
    if replay.arithmetic.is_some() { bits_table(replay, all) } else { replay_table(replay, all) }
}

fn line(replays: &[&Replay]) -> String {
    let is_to_the_bit = replays.iter().any(|replay| replay.arithmetic.is_some());
    if is_to_the_bit { bits_line(replays) } else { replay_line(replays) }
}

/// Says on stderr why it is not 0 where the table does not.
fn exit_code(replays: &[&Replay], min_coverage: f64) -> u8 {
    let mut summary = ReplaySummary::default();
    replays.iter().for_each(|replay| summary += replay.summary());
    let coverage = 100.0 * summary.coverage();
    if summary.compared == 0 {
        eprintln!("error: nothing was compared");
        COULD_NOT_RUN
    } else if !replays.iter().all(|replay| replay.is_pass()) {
        DIFFERENCE
    } else if coverage < min_coverage {
        eprintln!("error: coverage {coverage:.1}%, --min-coverage {min_coverage}");
        DIFFERENCE
    } else {
        0
    }
}
