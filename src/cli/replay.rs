//! `lockstep replay`: the reference against exact arithmetic, node by node.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args as ClapArgs;

use super::subject::{Subject, SubjectArgs, Which};
use super::{DIFFERENCE, progress};
use crate::dump::Dump;
use crate::gguf::{Gguf, sha256};
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
    #[command(flatten)]
    subject: SubjectArgs,
    /// Show every node that is over its budget
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let mut replays = Vec::new();
    let subjects = args.subject.resolve(Which::Twin)?;
    let skipped = subjects.skipped.clone();
    for Subject { model, dumps, .. } in subjects {
        let gguf = Gguf::open(&model)?;
        let model_sha256 = sha256(&model)?;
        for (name, path) in dumps {
            let dump = Dump::open(&path)?;
            let bar = progress::bar(&name);
            let replay = replay::replay(&gguf, &model_sha256, &dump, &mut progress::callback(&bar));
            bar.finish_and_clear();
            let replay = replay?;
            println!("{name}   {}\n", dump.manifest().model.architecture);
            println!("{}", replay_table(&replay, args.all));
            replays.push(replay);
        }
    }
    let line = || replay_line(&replays.iter().collect::<Vec<_>>());
    if !skipped.is_empty() {
        println!("{}; {} of the cases SKIPPED: {}", line(), skipped.len(), skipped.join(", "));
    } else if replays.len() > 1 {
        println!("{}", line());
    }
    let pass = replays.iter().all(Replay::is_pass);
    Ok(if pass { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCE) })
}
