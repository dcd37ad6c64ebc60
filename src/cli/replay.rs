//! `lockstep replay`: the reference against exact arithmetic, node by node.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

use super::{DIFFERENCE, cache, progress};
use crate::dump::Dump;
use crate::gguf::{Gguf, sha256};
use crate::harness::Case;
use crate::replay::{self, Replay};
use crate::report::{replay_line, replay_table};

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep replay reference-dumps/micro-bonsai
  lockstep replay --model my-model.gguf --dump my-dump.npz

Every node of the dump's graph is evaluated in f64 from the reference's own inputs, whatever the architecture. The model
must be the very file that llama.cpp ran. A dump made without --named holds the inputs of every node.")]
pub(super) struct Args {
    /// Case folders (with a case.toml)
    #[arg(value_name = "CASE", required_unless_present = "model", conflicts_with_all = ["model", "dump"])]
    cases: Vec<PathBuf>,
    /// The model that llama.cpp ran
    #[arg(long, value_name = "M", requires = "dump")]
    model: Option<PathBuf>,
    /// What llama.cpp computed from it
    #[arg(long, value_name = "D", requires = "model")]
    dump: Option<PathBuf>,
    /// Show every node that is over its budget
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let mut subjects: Vec<(PathBuf, Vec<PathBuf>)> = Vec::new();
    for folder in &args.cases {
        let case = Case::open(folder)?;
        let bar = progress::bar(&format!("building the twin of {}", case.model.preset));
        let twin = case.build_twin(&cache::models(), &mut progress::callback(&bar));
        bar.finish_and_clear();
        subjects.push((twin?, case.dumps.iter().map(|dump| case.dump_path(dump)).collect()));
    }
    if let (Some(model), Some(dump)) = (args.model, args.dump) {
        subjects.push((model, vec![dump]));
    }
    if subjects.is_empty() {
        bail!("nothing to replay: name a case folder, or --model and --dump");
    }
    let mut replays = Vec::new();
    for (model, dumps) in subjects {
        let gguf = Gguf::open(&model)?;
        let model_sha256 = sha256(&model)?;
        for path in dumps {
            let dump = Dump::open(&path)?;
            let bar = progress::bar(&path.display().to_string());
            let replay = replay::replay(&gguf, &model_sha256, &dump, &mut progress::callback(&bar));
            bar.finish_and_clear();
            let replay = replay?;
            println!("{}   {}\n", path.display(), dump.manifest().model.architecture);
            println!("{}", replay_table(&replay, args.all));
            replays.push(replay);
        }
    }
    if replays.len() > 1 {
        println!("{}", replay_line(&replays.iter().collect::<Vec<_>>()));
    }
    let pass = replays.iter().all(Replay::is_pass);
    Ok(if pass { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCE) })
}
