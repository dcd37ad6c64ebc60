//! `lockstep kernels`: what kernels there are, and what the compiler makes of them.

mod markdown;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

use super::DIFFERENCE;
use super::output::{require_folder, write};
use crate::engine::gpu::{check_kernels, kernels};
use markdown::kernels_markdown;
use table::{kernels_json, kernels_list, kernels_table};

/// The architecture whose registers the tables of `kernels/README.md` show.
const SHOWN: &str = "sm_90";

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep kernels
  lockstep kernels --arch sm_80,sm_90,sm_120,sm_121
  lockstep kernels --arch sm_90 --all --json kernels.json
  lockstep kernels --arch sm_90 --markdown tables.md

With --arch every file is compiled by NVRTC, which needs no GPU, and for each kernel the registers of a thread, its stack,
what it spills and the shared memory of a block are read from what ptxas reports. A kernel must neither spill nor have a
stack, and its registers must leave room for the warps that hide its waiting.

Exit codes: 0 all within budget; 1 a kernel is not; 2 could not run.")]
pub(super) struct Args {
    /// Compile for these architectures
    #[arg(long, value_delimiter = ',', value_name = "ARCHS")]
    arch: Vec<String>,
    /// Show every kernel
    #[arg(long, requires = "arch")]
    all: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "F", requires = "arch")]
    json: Option<PathBuf>,
    /// Write the tables of kernels/README.md; sm_90 must be among the architectures
    #[arg(long, value_name = "F", requires = "arch")]
    markdown: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    if args.arch.is_empty() {
        print!("{}", kernels_list(&kernels()));
        return Ok(ExitCode::SUCCESS);
    }
    args.json.iter().chain(&args.markdown).try_for_each(|path| require_folder(path))?;
    let shown = args.arch.iter().position(|arch| arch == SHOWN);
    if args.markdown.is_some() && shown.is_none() {
        bail!("--markdown shows the registers of {SHOWN}, which --arch does not name");
    }
    let checked = check_kernels(&args.arch)?;
    print!("{}", kernels_table(&checked, &args.arch, args.all));
    if let Some(path) = &args.json {
        write(path, &kernels_json(&checked, &args.arch))?;
    }
    if let (Some(path), Some(shown)) = (&args.markdown, shown) {
        write(path, &kernels_markdown(&checked, &args.arch, shown))?;
    }
    let is_pass = !checked.is_empty() && checked.iter().all(|of| of.problems(&args.arch).is_empty());
    Ok(if is_pass { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCE) })
}
