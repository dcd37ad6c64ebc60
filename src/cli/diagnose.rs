//! `lockstep diagnose`: the shape of an error.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;

use super::DIFFERENCE;
use super::output::{require_folder, write};
use crate::compare::{Axis, Pair, diagnose};
use crate::dump::{Dump, read_npy};
use crate::harness::{Which, diagnose_dumps};
use crate::report::{diagnosis_json, diagnosis_of_dumps, diagnosis_of_pair, diagnosis_of_pair_json};
use crate::tensor::Values;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep diagnose reference.npz mine.npz
      the first named tensor, in the order of the reference's graph, that differs beyond the limit of a right engine
  lockstep diagnose reference.npz mine.npz --tensor kq-3 --step 0
  lockstep diagnose reference.npz mine.npz --all --json result.json
  lockstep diagnose reference.npy mine.npy --axes token,head,channel

A shape is named only if it was verified: applied to the reference, it gives the actual values. What was found stands in order,
the simplest first; the last line says it in one sentence.

Exit codes: 0 no difference (of dumps: none beyond the limit; of two .npy files or with --tensor: the values are equal);
1 a difference; 2 it could not run.")]
pub(super) struct Args {
    /// The reference: a dump, or a tensor in a .npy file
    reference: PathBuf,
    /// What is to be diagnosed: a dump of the same tokens, or a .npy file of the same shape
    actual: PathBuf,
    /// Diagnose the tensors of this name, whether they are beyond the limit or not
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    tensor: Option<String>,
    /// Of those, only that of this step
    #[arg(long, value_name = "S", requires = "tensor")]
    step: Option<u32>,
    /// What the axes of .npy files count, outermost first: sequence, token, head, channel, cell, place (default: token,head,channel
    /// or token,channel)
    #[arg(long, value_name = "AXES", value_delimiter = ',', value_parser = axis)]
    axes: Vec<Axis>,
    /// Diagnose every tensor that differs, one line each
    #[arg(long)]
    all: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
}

fn axis(noun: &str) -> Result<Axis, String> {
    Axis::from_noun(noun).ok_or_else(|| "expected sequence, token, head, channel, cell or place".to_owned())
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    if let Some(path) = &args.json {
        require_folder(path)?;
    }
    let (text, json, is_equal) = match (is_npy(&args.reference)?, is_npy(&args.actual)?) {
        (true, true) => npy_files(&args)?,
        (false, false) => dumps(&args)?,
        _ => bail!("a dump and a .npy file cannot be compared: give two of a kind"),
    };
    if let Some(path) = &args.json {
        write(path, &json)?;
    }
    print!("{text}");
    Ok(if is_equal { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCE) })
}

fn is_npy(path: &Path) -> Result<bool> {
    let mut magic = Vec::new();
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    file.take(6).read_to_end(&mut magic).with_context(|| format!("read {}", path.display()))?;
    Ok(magic == *b"\x93NUMPY")
}

/// The text, the JSON, and whether nothing differs.
type Told = (String, String, bool);

fn npy_files(args: &Args) -> Result<Told> {
    if args.tensor.is_some() || args.all {
        bail!("--tensor and --all choose among the tensors of a dump; a .npy file is one");
    }
    let ((shape, reference), (actual_shape, actual)) = (read_npy(&args.reference)?, read_npy(&args.actual)?);
    if shape != actual_shape {
        bail!(
            "{} is of shape {shape:?}, {} of shape {actual_shape:?}: only tensors of one shape can be diagnosed",
            args.reference.display(),
            args.actual.display()
        );
    }
    if !args.axes.is_empty() && args.axes.len() != shape.len() {
        bail!("--axes names {} axes, the tensors have {}", args.axes.len(), shape.len());
    }
    let pair = Pair::new(&reference, Values::F32(&actual), &shape)?.with_axes(&args.axes);
    let found = diagnose(&pair);
    if found.iter().any(|finding| finding.shape == "empty") {
        bail!("{}: no elements, nothing was compared", args.reference.display());
    }
    let is_equal = found.iter().any(|finding| finding.shape == "equal");
    let name = args.actual.display().to_string();
    Ok((diagnosis_of_pair(&name, &found), diagnosis_of_pair_json(&name, &found, is_equal), is_equal))
}

fn dumps(args: &Args) -> Result<Told> {
    if !args.axes.is_empty() {
        bail!("--axes is for .npy files; of a dump the graph tells what the axes are");
    }
    let (reference, actual) = (Dump::open(&args.reference)?, Dump::open(&args.actual)?);
    let which = match &args.tensor {
        Some(name) => Which::Named(name, args.step),
        None if args.all => Which::All,
        None => Which::First,
    };
    let comparison = match diagnose_dumps(&reference, &actual, which) {
        Err(error) => match &args.tensor {
            Some(name) => return Err(error).with_context(|| format!("tensor {name}")),
            None => return Err(error.into()),
        },
        Ok(comparison) => comparison,
    };
    if comparison.results.iter().all(|result| result.metrics.is_none() && !result.verdict.is_failure()) {
        bail!("nothing was compared");
    }
    let is_equal = comparison.results.iter().all(|result| {
        let differs = result.diagnosis.iter().any(|finding| finding.shape != "equal");
        !result.verdict.is_failure() && !differs
    });
    Ok((diagnosis_of_dumps(&comparison, args.all), diagnosis_json(&comparison, is_equal), is_equal))
}
