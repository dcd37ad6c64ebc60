//! `lockstep run`: the engine alone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;

use super::engine::{EngineArgs, Wish};
use super::progress;
use crate::dump;
use crate::engine::{Memory, NullTap, StateChange};
use crate::gguf::{Value, sha256};
use crate::harness::{Cut, Places, Recorder, Schedule, Step};
use crate::model::Model;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep run model.gguf --tokens 1,2,3 --generate 5
  lockstep run model.gguf --tokens 1,2,3,4 --schedule 3,1 --dump run.npz
  lockstep run model.gguf --tokens 1,2,3,4 --tokens 7,8 --schedule 0:3+1:2,clear:1,1
      two sequences in one batch; then the second is forgotten and the first goes on
  lockstep run model.gguf --tokens 1,2,3,9,4 --rollback 1 --schedule 4,back:0:1,1
      takes the fourth token back and puts another one in its place

A schedule is what llama-dump takes: N (the next N tokens of sequence 0), S:N, A:N+B:M (one batch), clear, clear:S,
back:S:N, copy:S:D. Batches are cut into ubatches as llama.cpp cuts them.")]
pub(super) struct Args {
    /// The model: a GGUF file, or the first part of a split one
    model: PathBuf,
    /// Token ids; given again, those of sequence 1, and so on
    #[arg(long, required = true, value_name = "IDS")]
    tokens: Vec<Ids>,
    /// What is done with them, in order; each sequence in one batch if not given
    #[arg(long, value_name = "ENTRIES")]
    schedule: Option<Schedule>,
    /// Most tokens in one ubatch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ubatch: Option<u32>,
    /// All sequences share one stream of KV cells, in place of one each
    #[arg(long)]
    kv_unified: bool,
    /// Keep N earlier recurrent states, so that N tokens can be taken back
    #[arg(long, default_value_t = 0, value_name = "N")]
    rollback: usize,
    /// Then continue each sequence greedily by this many tokens
    #[arg(long, default_value_t = 0, value_name = "N")]
    generate: usize,
    /// Write every named tensor as a dump
    #[arg(long, value_name = "F")]
    dump: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Token ids, separated by commas.
#[derive(Clone, Debug)]
struct Ids(Vec<u32>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Ids, String> {
        let id = |word: &str| word.trim().parse().map_err(|_| format!("`{word}` is no token id"));
        text.split(',').map(id).collect::<Result<_, _>>().map(Ids)
    }
}

/// Best tokens printed for each output.
const BEST: usize = 5;

type Best = Vec<(u32, f32)>;

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let place = args.engine.open()?;
    let model = Model::open(&args.model)?;
    let loaded = place.load(&model)?;
    let sequences: Vec<Vec<u32>> = args.tokens.iter().map(|ids| ids.0.clone()).collect();
    let schedule = args.schedule.clone().unwrap_or_else(|| Schedule::whole(&sequences));
    let cut = Cut { n_ubatch: args.ubatch.map(|n| n as usize), kv_unified: args.kv_unified };
    let mut places = Places::new(&sequences, cut);
    let prompt = places.steps(&schedule)?;
    let memory = Memory { kv_unified: args.kv_unified, n_rs_seq: args.rollback };
    let room = args.generate * if args.kv_unified { places.occupied().count() } else { 1 };
    let n_ctx = places.cells() + room;
    let wish = Wish { memory, n_ctx, ..Wish::default() };
    let mut engine = loaded.engine(wish)?;
    let mut recorder = args.dump.as_deref().map(Recorder::create).transpose()?;
    let bar = progress::bar("steps");
    bar.set_length((prompt.len() + args.generate) as u64);
    let mut n_tokens = 0;
    let mut lines = Vec::new();
    // The best tokens behind the last output of each sequence.
    let mut best: BTreeMap<i32, Best> = BTreeMap::new();
    let mut step = |step: &Step, best: &mut BTreeMap<i32, Best>| -> Result<()> {
        let logits = match &mut recorder {
            Some(recorder) => recorder.step(&mut *engine, step)?,
            None => step.run(&mut *engine, &mut NullTap)?,
        };
        bar.inc(1);
        step.before.iter().for_each(|change| forget(best, change));
        let ubatch = &step.ubatch;
        n_tokens += ubatch.tokens.len();
        let wanted = ubatch.sequences.iter().zip(&ubatch.outputs).filter(|(_, wanted)| **wanted);
        let mut words = Vec::new();
        for ((&sequence, _), row) in wanted.zip(logits.rows()) {
            let top = best_of(row);
            words.push(describe(sequence, &top));
            best.insert(sequence, top);
        }
        let words = if words.is_empty() { "no output".to_owned() } else { words.join("; ") };
        lines.push(format!("step {}: {} token(s), {words}", lines.len(), ubatch.tokens.len()));
        Ok(())
    };
    for one in &prompt {
        step(one, &mut best)?;
    }
    let mut generated: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for _ in 0..args.generate {
        let mut next = BTreeMap::new();
        for sequence in places.occupied() {
            let token = best.get(&sequence).and_then(|best| best.first()).with_context(|| {
                format!("no logits of sequence {sequence} to go on from: run another token of it first")
            })?;
            next.insert(sequence, token.0);
            generated.entry(sequence).or_default().push(token.0.to_string());
        }
        for one in places.next(&next) {
            step(&one, &mut best)?;
        }
    }
    bar.finish_and_clear();
    let name = engine.name();
    if let Some(recorder) = recorder {
        recorder.finish(&name, dump_model(&model)?, (memory, n_ctx as u32), args.generate as u32)?;
    }
    lines.iter().for_each(|line| println!("{line}"));
    for (sequence, tokens) in &generated {
        let of = if sequences.len() > 1 { format!(" in sequence {sequence}") } else { String::new() };
        println!("generated{of} {}", tokens.join(","));
    }
    let next: Vec<String> =
        best.values().filter_map(|best| best.first()).map(|(token, _)| token.to_string()).collect();
    let n_generated: usize = generated.values().map(Vec::len).sum();
    println!(
        "{n_tokens} tokens, {n_generated} generated, {} steps, engine {name}; next token {}",
        lines.len(),
        next.join(", ")
    );
    Ok(ExitCode::SUCCESS)
}

/// What is known of the next tokens once the state has changed.
fn forget(best: &mut BTreeMap<i32, Best>, change: &StateChange) {
    match change {
        StateChange::Clear => best.clear(),
        StateChange::Remove { sequence, .. } => drop(best.remove(sequence)),
        StateChange::Copy { from, to } => {
            if let Some(known) = best.get(from).cloned() {
                best.insert(*to, known);
            }
        }
    }
}

fn best_of(logits: ndarray::ArrayView1<'_, f32>) -> Best {
    let mut best: Best = logits.iter().enumerate().map(|(id, &logit)| (id as u32, logit)).collect();
    best.sort_by(|a, b| b.1.total_cmp(&a.1));
    best.truncate(BEST);
    best
}

fn describe(sequence: i32, best: &Best) -> String {
    let best: Vec<String> = best.iter().map(|(id, logit)| format!("{id} ({logit:.4})")).collect();
    let of = if sequence == 0 { String::new() } else { format!("sequence {sequence} ") };
    format!("{of}best {}", best.join(", "))
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
