//! `lockstep run`: the engine alone.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;

use super::check::Arithmetic;
use super::progress;
use crate::dump;
use crate::engine::{Conventions, Engine, Memory, NullTap, Ubatch, cpu::CpuEngine};
use crate::gguf::{Value, sha256};
use crate::harness::{Continuation, Recorder, Step, ubatches};
use crate::model::Model;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep run model.gguf --tokens 1,2,3 --generate 5
  lockstep run model.gguf --tokens 1,2,3,4 --schedule 3,1 --dump run.npz")]
pub(super) struct Args {
    /// The model: a GGUF file, or the first part of a split one
    model: PathBuf,
    /// Token ids
    #[arg(long, value_delimiter = ',', required = true, value_name = "IDS")]
    tokens: Vec<u32>,
    /// Tokens per step; all in one if not given
    #[arg(long, value_delimiter = ',', value_name = "NS")]
    schedule: Vec<usize>,
    /// Then continue greedily by this many tokens
    #[arg(long, default_value_t = 0, value_name = "N")]
    generate: usize,
    /// Write every named tensor as a dump
    #[arg(long, value_name = "F")]
    dump: Option<PathBuf>,
    /// The arithmetic of the engine
    #[arg(long, value_enum, default_value_t = Arithmetic::F32)]
    arithmetic: Arithmetic,
}

/// Best tokens printed for each step.
const BEST: usize = 5;

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let model = Model::open(&args.model)?;
    let n_ctx = args.tokens.len() + args.generate;
    let conventions = Conventions::default();
    let mut engine: Box<dyn Engine> = match args.arithmetic {
        Arithmetic::F32 => Box::new(CpuEngine::<f32>::new(&model, conventions, n_ctx)?),
        Arithmetic::F64 => Box::new(CpuEngine::<f64>::new(&model, conventions, n_ctx)?),
    };
    let schedule = if args.schedule.is_empty() { vec![args.tokens.len()] } else { args.schedule.clone() };
    let prompt = ubatches(&args.tokens, &schedule)?;
    let mut recorder = args.dump.as_deref().map(Recorder::create).transpose()?;
    let bar = progress::bar("steps");
    bar.set_length((prompt.len() + args.generate) as u64);
    let mut step = |ubatch: &Ubatch| -> Result<Vec<(usize, f32)>> {
        let logits = match &mut recorder {
            Some(recorder) => recorder.step(&mut *engine, &Step::from(ubatch.clone()))?,
            None => engine.step(ubatch, &mut NullTap)?,
        };
        bar.inc(1);
        let last = logits.rows().into_iter().next_back().context("a step without output")?;
        let mut best: Vec<(usize, f32)> = last.iter().copied().enumerate().collect();
        best.sort_by(|a, b| b.1.total_cmp(&a.1));
        best.truncate(BEST);
        Ok(best)
    };
    let mut lines = Vec::new();
    let mut best = Vec::new();
    for (i, ubatch) in prompt.iter().enumerate() {
        best = step(ubatch)?;
        lines.push(line(i, ubatch, &best));
    }
    let mut generated = Vec::new();
    for i in 0..args.generate {
        let token = best.first().context("no logits")?.0 as u32;
        generated.push(token.to_string());
        let ubatch = Ubatch::from(Continuation { position: args.tokens.len() + i, token });
        best = step(&ubatch)?;
        lines.push(line(prompt.len() + i, &ubatch, &best));
    }
    bar.finish_and_clear();
    let name = engine.name();
    if let Some(recorder) = recorder {
        let memory = (Memory::default(), n_ctx as u32);
        recorder.finish(&name, dump_model(&model)?, memory, args.generate as u32)?;
    }
    lines.iter().for_each(|line| println!("{line}"));
    let next = best.first().map_or(0, |b| b.0);
    if !generated.is_empty() {
        println!("generated {}", generated.join(","));
    }
    println!(
        "{} tokens, {} generated, {} steps, engine {name}; next token {next}",
        n_ctx,
        generated.len(),
        lines.len()
    );
    Ok(ExitCode::SUCCESS)
}

fn line(step: usize, ubatch: &Ubatch, best: &[(usize, f32)]) -> String {
    let best: Vec<String> = best.iter().map(|(id, logit)| format!("{id} ({logit:.4})")).collect();
    format!("step {step}: {} token(s), best {}", ubatch.tokens.len(), best.join(", "))
}

/// What a dump says about the model it was made from.
fn dump_model(model: &Model) -> Result<dump::Model> {
    let gguf = model.gguf();
    let strings = gguf.metadata().iter().filter_map(|(key, value)| match value {
        Value::String(text) => Some((key.to_owned(), text.clone())),
        _ => None,
    });
    Ok(dump::Model {
        file: gguf.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        sha256: sha256(gguf.path())?,
        architecture: gguf.metadata().str("general.architecture")?.to_owned(),
        metadata: strings.collect(),
    })
}
