//! `lockstep inspect`: what a file holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;

use crate::dump::{Dump, Ubatch};
use crate::gguf::{Array, Gguf, Value};
use crate::model::{Fold, Hparams, LayerKind, Model, ModelError};

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep inspect model.gguf
  lockstep inspect reference-dumps/mini-bonsai/token-1.npz --all")]
pub(super) struct Args {
    /// A GGUF file or a dump
    file: PathBuf,
    /// List every tensor and the whole metadata
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let mut magic = [0; 4];
    let mut file = File::open(&args.file).with_context(|| format!("open {}", args.file.display()))?;
    file.read_exact(&mut magic)
        .with_context(|| format!("read {}: no GGUF file and no dump is so short", args.file.display()))?;
    if magic == *b"PK\x03\x04" {
        dump(&args.file, args.all)?
    } else {
        gguf(&args.file, args.all)?
    }
    Ok(ExitCode::SUCCESS)
}

fn gguf(path: &Path, all: bool) -> Result<()> {
    let file = Gguf::open(path)?;
    let parts = file.paths().count();
    println!("{}: GGUF v{}, {} part(s), {}", path.display(), file.version(), parts, size(file.file_bytes()));
    if all {
        for (key, value) in file.metadata().iter() {
            println!("  {key} = {}", short(value));
        }
    }
    let mut types: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new(); // name: tensors, elements, bytes
    for info in file.tensors() {
        let (tensors, elements, bytes) = types.entry(info.ty.name()).or_default();
        *tensors += 1;
        *elements += info.ne.iter().product::<u64>();
        *bytes += info.bytes;
        if all {
            println!("  {:40} {:8} ne = {:?}", info.name, info.ty.name(), info.dims());
        }
    }
    for (name, (tensors, elements, bytes)) in &types {
        println!("  {name:8} {tensors:>6} tensors {elements:>15} weights {:>10}", size(*bytes));
    }
    let n_tensors = file.tensors().len();
    match Model::from_gguf(file) {
        Ok(model) => describe(&model),
        Err(ModelError::Architecture { got }) => {
            println!("architecture {got}: no engine for it, no shape checks")
        }
        Err(error) => return Err(error.into()),
    }
    println!("{n_tensors} tensors, table and metadata valid");
    Ok(())
}

fn describe(model: &Model) {
    let h = model.hparams();
    let letters = h.layers.iter().map(|k| if *k == LayerKind::Attention { 'A' } else { 'd' });
    println!(
        "qwen35: {} layers ({} delta net, {} attention)  {}",
        h.n_layer,
        h.count(LayerKind::DeltaNet),
        h.count(LayerKind::Attention),
        letters.collect::<String>()
    );
    println!("  n_embd {}, n_ff {}, n_vocab {}, context {}", h.n_embd, h.n_ff, h.n_vocab, h.n_ctx_train);
    println!(
        "  attention: {} q heads, {} kv heads of {}; rope {} of {} by sections {:?}, base {}",
        h.n_head, h.n_head_kv, h.n_embd_head, h.n_rot, h.n_embd_head, h.rope_sections, h.rope_freq_base
    );
    println!(
        "  delta net: {} k heads, {} v heads of {}; convolution of {} over {} channels",
        h.ssm_n_group,
        h.ssm_dt_rank,
        h.ssm_d_state,
        h.ssm_d_conv,
        h.conv_channels()
    );
    println!(
        "  output head: {}",
        if model.has_tied_embeddings() { "tied to token_embd.weight" } else { "output.weight" }
    );
    match model.fold() {
        Some(fold) => describe_fold(fold),
        None => println!("  fold: none"),
    }
    describe_memory(model, h);
    model.notes().iter().for_each(|note| println!("  note: {note}"));
}

fn describe_fold(fold: &Fold) {
    let widths: Vec<String> = fold.widths().map(|w| w.to_string()).collect();
    println!(
        "  fold: version {}, blocks of {}, {} weights, signs for widths {}; inverse: {}; v heads {}",
        fold.version(),
        fold.block(),
        fold.forward_names().len(),
        if widths.is_empty() { "none (identity)".to_owned() } else { widths.join(", ") },
        if fold.inverse_names().is_empty() { "none".to_owned() } else { fold.inverse_names().join(", ") },
        if fold.gdn_v_grouped() { "grouped" } else { "tiled" },
    );
}

/// Bytes of an f32.
const F32: u64 = 4;

fn describe_memory(model: &Model, h: &Hparams) {
    let delta = h.count(LayerKind::DeltaNet) as u64 * F32;
    let recurrent = delta * (h.ssm_d_inner * h.ssm_d_state) as u64;
    let conv = delta * ((h.ssm_d_conv - 1) * h.conv_channels()) as u64;
    let kv = h.count(LayerKind::Attention) as u64 * F32 * 2 * h.n_embd_kv() as u64 * 1000;
    let weights: u64 = model.gguf().tensors().iter().map(|t| t.bytes).sum();
    println!(
        "  memory: weights {} (mapped), recurrent state {}, convolution state {}, f32 KV {} per 1000 tokens",
        size(weights),
        size(recurrent),
        size(conv),
        size(kv)
    );
}

fn dump(path: &Path, all: bool) -> Result<()> {
    let dump = Dump::open(path)?;
    dump.verify()?;
    let manifest = dump.manifest();
    let (producer, run) = (&manifest.producer, &manifest.run);
    println!(
        "{}: dump by {}, {} {} on {}",
        path.display(),
        producer.dumper,
        producer.name,
        producer.commit,
        producer.backend
    );
    println!("  {}; {}; {}", producer.system_info.trim(), producer.compiler, producer.libc);
    println!(
        "  model {} ({}), sha256 {}",
        manifest.model.file, manifest.model.architecture, manifest.model.sha256
    );
    println!(
        "  n_ctx {}, {} thread(s), K {}, V {}, flash attention {}, repack {}, reference kernels {}",
        run.n_ctx,
        run.n_threads,
        run.type_k,
        run.type_v,
        on_off(Some(run.flash_attn)),
        on_off(run.repack),
        on_off(Some(run.reference_kernels))
    );
    if let Some(until) = &run.until {
        println!("  the graph of each step only up to a name that matches {until}");
    }
    if !run.filters.is_empty() {
        println!("  filters: {}", run.filters.join("  "));
    }
    if let Some(script) = &run.script {
        println!("  schedule {script}");
    }
    run.ubatches.iter().for_each(|ubatch| println!("  {}", step_line(ubatch)));
    println!(
        "  capturing {} the result ({} logits compared)",
        if manifest.capture.unchanged { "did not change" } else { "CHANGED" },
        manifest.capture.compared_logits
    );
    let held = dump.nodes().iter().filter(|node| dump.has_values(node)).count();
    if all {
        for node in dump.nodes() {
            let mark = if dump.has_values(node) { ' ' } else { '-' };
            println!(
                "  {mark} {:40} {:16} {:5} ne = {:?}",
                node.id().to_string(),
                node.op,
                node.ty.name(),
                node.ne
            );
        }
    }
    let steps = dump.n_steps();
    println!(
        "{} nodes in {steps} step(s), {held} with values; container, manifest and payloads valid",
        dump.nodes().len()
    );
    Ok(())
}

fn on_off(setting: Option<bool>) -> &'static str {
    match setting {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    }
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "kB", "MB", "GB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A metadata value in one line.
fn short(value: &Value) -> String {
    const MOST: usize = 8;
    let list = |n: usize, first: String| format!("[{n}] {first}{}", if n > MOST { " .." } else { "" });
    match value {
        Value::String(text) if text.chars().count() > 80 => {
            format!("{:?}..", text.chars().take(80).collect::<String>())
        }
        Value::Array(Array::String(values)) => {
            list(values.len(), values.iter().take(MOST).cloned().collect::<Vec<_>>().join(", "))
        }
        Value::Array(Array::I32(values)) => {
            list(values.len(), format!("{:?}", &values[..values.len().min(MOST)]))
        }
        Value::Array(Array::U32(values)) => {
            list(values.len(), format!("{:?}", &values[..values.len().min(MOST)]))
        }
        Value::Array(Array::F32(values)) => {
            list(values.len(), format!("{:?}", &values[..values.len().min(MOST)]))
        }
        Value::Array(_) => value.type_name().to_owned(),
        other => format!("{other:?}"),
    }
}
/// `step 2: clear; tokens [7, 8] at [0, 0] of sequences 0 1`
fn step_line(ubatch: &Ubatch) -> String {
    let before: String = ubatch.before.iter().map(|change| format!("{change}; ")).collect();
    let mut line =
        format!("step {}: {before}tokens {:?} at {:?}", ubatch.step, ubatch.tokens, ubatch.positions);
    if ubatch.seq_ids.iter().any(|ids| *ids != [0]) {
        let joined = |ids: &Vec<i32>| ids.iter().map(i32::to_string).collect::<Vec<_>>().join("+");
        let ids: Vec<String> = ubatch.seq_ids.iter().map(joined).collect();
        line += &format!(" of sequences {}", ids.join(" "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::MemoryChange;

    #[test]
    fn a_step_says_what_came_before_and_whose_tokens_it_has() {
        let mut ubatch = Ubatch {
            step: 2,
            tokens: vec![7, 8],
            positions: vec![0, 1],
            seq_ids: vec![vec![0], vec![0]],
            outputs: vec![0, 1],
            before: Vec::new(),
        };
        assert_eq!(step_line(&ubatch), "step 2: tokens [7, 8] at [0, 1]");
        ubatch.seq_ids[1] = vec![1];
        ubatch.before.push(MemoryChange::Clear);
        assert_eq!(step_line(&ubatch), "step 2: clear; tokens [7, 8] at [0, 1] of sequences 0 1");
    }
}
