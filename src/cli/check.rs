//! `lockstep check`: an engine beside a dump.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueEnum};

use super::conventions::ByHand;
use super::engine::{Arithmetic, EngineArgs, Wish};
use super::header::{header, steps};
use super::output::{require_folder, write};
use super::subject::{Subject, SubjectArgs, Which};
use super::{DIFFERENCE, progress};
use crate::arithmetic::Ggml;
use crate::dump::Dump;
use crate::engine::{
    ActivationMode, Conventions, EngineError, Memory, Numerics, StateFault, cpu::CpuEngine, cpu_kernel,
};
use crate::gguf::{Gguf, sha256};
use crate::harness::{self, Check, CheckOptions, Floor, Mode, ReferenceModel, StateKind};
use crate::model::Model;
use crate::replay::arithmetic_of;
use crate::report::{self, Options, Report, Step};

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep check reference-dumps/mini-bonsai
      builds the case's model from its recipe and checks each of its dumps
  lockstep check --model my-model.gguf --dump my-dump.npz --json result.json
      checks a model of your own against a dump that llama-dump made from it,
      or from its unfolded twin (`lockstep unfold`)
  lockstep check --model folded.gguf --twin unfolded.gguf --dump my-dump.npz --mode reseeded
      judges every operator alone, from the reference's own inputs: who departed from exact arithmetic
  lockstep check reference-dumps/mini-bonsai --convention gdn_head_map=blocked
      runs the engine with a wrong convention on purpose; exits 1 and names the first tensor that is off
  lockstep check --model unfolded.gguf --dump my-dump.npz --arithmetic ggml
      the cpu engine in the order of operations of the build that made the dump, from token to logits: every tensor must be equal
  lockstep check reference-dumps/mini-bonsai --engine simt
      the GPU's kernels, executed on the CPU; --engine cuda runs them on an NVIDIA GPU")]
pub(super) struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// What the engine does with activations in front of its weights: auto = as the reference did: rounded as ggml-cpu
    /// does if it ran the same file, whole if it ran the unfolded twin; q8_1 = as ggml-cuda does in front of quantised weights
    #[arg(long, value_enum, default_value_t = ActivationsChoice::Auto)]
    activations: ActivationsChoice,
    /// How errors are carried: cumulative = the engine runs on its own results throughout; reseeded = it goes on with the
    /// reference's values after each tensor, so that each operator is judged alone; both = one run of each (the default where
    /// the model that llama.cpp ran is at hand)
    #[arg(long, value_enum)]
    mode: Option<ModeName>,
    /// The unfolded twin that llama.cpp ran, to judge the operators of a folded model alone (a case has its own)
    #[arg(long, value_name = "M", requires = "model")]
    twin: Option<PathBuf>,
    /// In a reseeded run, states that the engine keeps as it has them itself
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STATES")]
    keep_state: Vec<StateName>,
    /// A further dump of the same run under other settings of llama.cpp (threads, flash attention, cache types, repacking): what
    /// it differs by from the first widens the noise floor (repeatable)
    #[arg(long, value_name = "D", requires = "dump")]
    floor_dump: Vec<PathBuf>,
    /// Run the engine with another convention, NAME=CANDIDATE (repeatable; an unknown name lists them all). What is not given is as
    /// the dump's graph says, or else as llama.cpp b11434 has it
    #[arg(long, value_name = "NAME=CANDIDATE")]
    convention: Vec<String>,
    /// Make the cpu engine handle its state wrong on purpose (an unknown name lists them all)
    #[arg(long, value_name = "NAME")]
    fault: Option<StateFault>,
    /// Show every tensor, in graph order
    #[arg(long)]
    all: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Write the results as a page for a browser
    #[arg(long, value_name = "F")]
    html: Option<PathBuf>,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "F")]
    junit: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ActivationsChoice {
    Auto,
    Whole,
    Rounded,
    #[value(name = "q8_1")]
    Q8_1,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ModeName {
    Cumulative,
    Reseeded,
    Both,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum StateName {
    Conv,
    Recurrent,
    Kv,
}

impl Args {
    /// The mode that was asked for, or the most that can be done.
    fn mode(&self, has_reference_model: bool, has_graph: bool) -> Result<Mode> {
        Ok(match self.mode {
            None if has_reference_model && has_graph => Mode::Both,
            None | Some(ModeName::Cumulative) => Mode::Cumulative,
            Some(_) if !has_graph => bail!(
                "--mode reseeded and both need a dump with the graph of the run, as llama-dump writes it; this one has only values"
            ),
            Some(_) if !has_reference_model => bail!(
                "--mode reseeded and both need the file that llama.cpp ran: give the unfolded twin with --twin (`lockstep unfold` \
                 makes it)"
            ),
            Some(ModeName::Reseeded) => Mode::Reseeded,
            Some(ModeName::Both) => Mode::Both,
        })
    }
}

/// The model that the reference ran in place of a folded one.
struct Twin {
    gguf: Gguf,
    sha256: String,
}

/// What rounding alone does on the tokens of a dump: the cpu engine in f32 against f64.
fn floor(
    model: &Model,
    conventions: Conventions,
    numerics: Numerics,
    (memory, n_ctx): (Memory, usize),
    dump: &Dump,
) -> Result<Floor> {
    let mut narrow =
        CpuEngine::<f32>::new(model, conventions, n_ctx)?.with_numerics(numerics)?.with_memory(memory);
    let mut wide =
        CpuEngine::<f64>::new(model, conventions, n_ctx)?.with_numerics(numerics)?.with_memory(memory);
    Ok(harness::measure_floor(&mut narrow, &mut wide, dump)?)
}

/// One dump checked, with what its report says about it.
struct Checked {
    name: String,
    header: Vec<String>,
    steps: Vec<Step>,
    check: Check,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let by_hand = ByHand::parse(&args.convention)?;
    let outputs = [(&args.json, "json"), (&args.junit, "junit"), (&args.html, "html")];
    for path in outputs.iter().filter_map(|(path, _)| path.as_ref()) {
        require_folder(path)?;
    }
    let keep: Vec<StateKind> = args
        .keep_state
        .iter()
        .map(|state| match state {
            StateName::Conv => StateKind::Conv,
            StateName::Recurrent => StateKind::Recurrent,
            StateName::Kv => StateKind::Kv,
        })
        .collect();
    let place = args.engine.open()?;
    let mut checked = Vec::new();
    // llama.cpp has no order of operations for a folded model: there its twin is run.
    let is_followed = args.engine.arithmetic == Arithmetic::Ggml;
    let subjects = args.subject.resolve(if is_followed { Which::Twin } else { Which::Folded })?;
    let skipped = subjects.skipped.clone();
    for Subject { model: model_path, twin, dumps } in subjects {
        let model = Model::open(&model_path)?;
        let model_sha256 = sha256(&model_path)?;
        let loaded = place.load(&model)?;
        let twin = match twin.or_else(|| args.twin.clone()) {
            Some(path) => Some(Twin { sha256: sha256(&path)?, gguf: Gguf::open(&path)? }),
            None => None,
        };
        for (name, path) in dumps {
            let dump = Dump::open(&path)?;
            let (memory, n_ctx) = harness::memory_of(&dump);
            let mut numerics = harness::numerics(&model_sha256, &dump)?;
            match args.activations {
                ActivationsChoice::Auto => {}
                ActivationsChoice::Whole => numerics.activations = ActivationMode::Whole,
                ActivationsChoice::Q8_1 => numerics.activations = ActivationMode::Mmvq,
                ActivationsChoice::Rounded => {
                    let kernel = cpu_kernel(&dump.manifest().producer.system_info);
                    numerics.activations = ActivationMode::Rounded(kernel);
                }
            }
            let to_the_bit = args.engine.arithmetic == Arithmetic::Ggml;
            if to_the_bit {
                numerics.ggml = Some(followed(&dump)?);
            }
            let conventions = by_hand.following(&harness::rules(&dump))?;
            let wish = Wish { conventions, numerics, memory, n_ctx, fault: args.fault };
            let mut engine = loaded.engine(wish)?;
            let reference = match &twin {
                Some(twin) => Some(ReferenceModel { gguf: &twin.gguf, sha256: &twin.sha256 }),
                None if dump.manifest().model.sha256 == model_sha256 => {
                    Some(ReferenceModel { gguf: model.gguf(), sha256: &model_sha256 })
                }
                None => None,
            };
            let mode = args.mode(reference.is_some(), dump.has_graph())?;
            let bar = progress::bar(&name);
            let floor = match mode {
                // Without a kept state nothing is carried.
                Mode::Reseeded if keep.is_empty() => None,
                // What is followed to the bit has no noise.
                _ if to_the_bit => None,
                _ => {
                    let mut floor = floor(&model, conventions, numerics, (memory, n_ctx), &dump)?;
                    for other in &args.floor_dump {
                        harness::widen(&mut floor, &dump, &Dump::open(other)?)?;
                    }
                    Some(floor)
                }
            };
            let options = CheckOptions {
                mode,
                reference,
                model: Some(&model),
                keep: &keep,
                floor: floor.as_ref(),
                to_the_bit,
            };
            let progress = &mut progress::callback(&bar);
            let check = harness::check_with(&mut *engine, &model_sha256, &dump, options, progress);
            bar.finish_and_clear();
            let check = check.with_context(|| format!("check {name}"))?;
            if args.mode == Some(ModeName::Both) && check.comparison.results.iter().all(|r| r.legs.is_none())
            {
                let reasons: Vec<&str> = check.not_judged.keys().map(String::as_str).collect();
                bail!(
                    "check {name}: --mode both, and no operator could be judged alone: {}",
                    reasons.join("; ")
                );
            }
            let header = header(&name, &model, &dump, &*engine, &by_hand, &check);
            checked.push(Checked { name, header, steps: steps(&dump), check });
        }
    }
    let reports: Vec<Report<'_>> = checked
        .iter()
        .map(|c| Report {
            name: &c.name,
            header: &c.header,
            steps: &c.steps,
            comparison: &c.check.comparison,
        })
        .collect();
    let options = Options { all: args.all, ..Options::default() };
    for (path, format) in outputs {
        if let Some(path) = path {
            write(path, &render(format, &reports, options)?)?;
        }
    }
    print!("{}", render("table", &reports, options)?);
    if !skipped.is_empty() {
        let comparisons: Vec<_> = reports.iter().map(|report| report.comparison).collect();
        let (line, names) = (report::summary_line(&comparisons), skipped.join(", "));
        println!("\n{line}; {} of the cases SKIPPED: {names}", skipped.len());
    }
    let pass = !checked.is_empty() && checked.iter().all(|c| c.check.comparison.is_pass());
    Ok(if pass { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCE) })
}

fn render(format: &str, reports: &[Report<'_>], options: Options) -> Result<String> {
    let format = report::format(format).with_context(|| format!("no report format `{format}`"))?;
    Ok(format.render(reports, options))
}

/// The arithmetic of the build that made a dump, if the engine has all of its operators.
fn followed(dump: &Dump) -> Result<Ggml> {
    if dump.manifest().run.flash_attn {
        let what = "the reference ran flash attention, an operator that this engine does not have (`llama-dump --flash-attn off`)";
        return Err(EngineError::NotFollowed { what: what.to_owned() }.into());
    }
    Ok(arithmetic_of(dump)?)
}
