//! The command line: one file per subcommand, each with its `Args` and `run`.
//!
//! stdout is the result, stderr is progress and errors. Exit codes: 0 all pass; 1 a difference; 2 could not run.
//!
//! Adding a subcommand: a file here, its `mod` line, and one line in the table `commands!`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // the one place that prints

mod ask;
mod bench;
mod cache;
mod check;
mod conventions;
mod diagnose;
mod engine;
mod header;
mod inspect;
mod invariants;
mod kernels;
mod output;
mod probe;
mod progress;
mod replay;
mod run;
mod slice;
mod subject;
mod synth;
mod unfold;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// A difference was found.
const DIFFERENCE: u8 = 1;
/// It could not run: a bad file, a bad flag.
const COULD_NOT_RUN: u8 = 2;

/// Run an LLM engine in lockstep with llama.cpp and compare every named tensor of the forward pass.
#[derive(Parser, Debug)]
#[command(
    version,
    about,
    after_help = "\
Examples:
  lockstep check reference-dumps/mini-bonsai
  lockstep check --model my-model.gguf --dump my-dump.npz
  lockstep inspect my-model.gguf

Exit codes: 0 all pass; 1 a difference; 2 could not run."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Declares the subcommands: variant and module.
macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident $module:ident)*) => {
        #[derive(Subcommand, Debug)]
        enum Command { $($(#[$doc])* $variant($module::Args),)* }

        fn dispatch(command: Command) -> Result<ExitCode> {
            match command { $(Command::$variant(args) => $module::run(args),)* }
        }
    };
}

commands! {
    /// Run an engine against a dump and compare every named tensor
    Check check
    /// Compare what llama.cpp computed with exact arithmetic, node by node, for any architecture
    Replay replay
    /// Ask which convention a dump follows: every candidate of every question, scored over all layers and tokens
    Ask ask
    /// Name the shape of an error: a factor, a permutation of heads, a stale tensor ..
    Diagnose diagnose
    /// Run the engine alone: logits, greedy continuation, a dump of every named tensor
    Run run
    /// Hold an engine to what must be so whatever the model: any split of tokens, reset, several sequences, rollback
    Invariants invariants
    /// Measure how fast kernels and the engine are on a GPU
    Bench bench
    /// List the kernels; compile them for architectures and hold registers and spills against their budget
    Kernels kernels
    /// Show what a GGUF file or a dump holds
    Inspect inspect
    /// Make a synthetic model from a preset and a seed
    Synth synth
    /// Write the unfolded f32 twin of a folded model, which an unmodified llama.cpp can run
    Unfold unfold
    /// Keep the first layers of a model
    Slice slice
}

/// Parses the command line and runs it.
pub fn main() -> ExitCode {
    end_quietly_without_a_reader();
    match dispatch(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
            eprintln!("error: {}", dedup(&causes).join(": "));
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// A reader that has seen enough (`lockstep check CASE | head`) closes the pipe, and printing panics: there is nothing to report then.
fn end_quietly_without_a_reader() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>().map_or("", String::as_str);
        if message.starts_with("failed printing to stdout") && message.contains("Broken pipe") {
            std::process::exit(COULD_NOT_RUN.into());
        }
        report(info);
    }));
}

/// Leaves out a cause that the message before it already contains.
fn dedup(causes: &[String]) -> Vec<&str> {
    let mut kept: Vec<&str> = Vec::new();
    for cause in causes {
        if !kept.last().is_some_and(|last| last.contains(cause.as_str())) {
            kept.push(cause);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("lockstep {}", command.get_name())), "{}", command.get_name());
        }
    }
}
