//! The model that separates a question's candidates, written, and how to go on.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::progress;
use crate::question::{Probe, Question};
use crate::synth::{Preset, Variant, is_folded, preset, unfold, write_variant};
use crate::tensor::GgmlType;

/// The seed of every probe.
const SEED: u64 = 1;

/// The model that the question is asked with, and where that is folded its twin, which llama.cpp can run.
const MODEL: &str = "model.gguf";
const TWIN: &str = "unfolded.gguf";
/// How the script of a probe begins. LLAMA_DUMP and LOCKSTEP name other programs.
const HEAD: &str = "#!/usr/bin/env bash
# Lets llama.cpp run this probe, and asks what it does. scripts/build-llama.sh builds llama-dump.
set -euo pipefail
cd \"$(dirname \"${BASH_SOURCE[0]}\")\"
dumper=${LLAMA_DUMP:-${LOCKSTEP_CACHE:-$HOME/.cache/lockstep}/bin/llama-dump}
";

/// Writes the probe of a question into a folder, and says which commands come next.
pub(super) fn write(question: &Question, out: &Path) -> Result<()> {
    let Probe { ty, tokens, schedule, because, .. } = question.probe;
    let types: Option<Vec<GgmlType>> = ty.split(',').map(GgmlType::from_name).collect();
    let types = types.with_context(|| format!("types {ty}"))?;
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    let model = out.join(MODEL);
    let bar = progress::bar("writing the model");
    let written =
        write_variant(&variant(&question.probe)?, SEED, &types, &model, &mut progress::callback(&bar));
    bar.finish_and_clear();
    written?;
    // What llama.cpp can read: the model itself, or its unfolded twin.
    let has_twin = types.iter().any(|&ty| is_folded(ty));
    if has_twin {
        unfold(&model, &out.join(TWIN), &mut |_, _| {})?;
    }
    let list = |numbers: Vec<String>| numbers.join(",");
    let tokens = list(tokens.iter().map(u32::to_string).collect());
    let schedule = list(schedule.iter().map(usize::to_string).collect());
    let runs = if has_twin { TWIN } else { MODEL };
    let dump = format!("-m {runs} -t {tokens} --schedule {schedule} --named --out dump.npz");
    let ask = format!("ask --model {MODEL} --dump dump.npz {}", question.name);
    let script = out.join("run.sh");
    super::output::write(
        &script,
        &format!("{HEAD}\"$dumper\" {dump}\n\"${{LOCKSTEP:-lockstep}}\" {ask} \"$@\"\n"),
    )?;
    println!("{}: {because}\n", question.name);
    println!("wrote {}; now let llama.cpp run it, and ask:\n", model.display());
    println!("  cd {}", out.display());
    println!("  llama-dump {dump}");
    println!("  lockstep {ask}\n");
    println!("or both at once: bash {}", script.display());
    Ok(())
}

/// The preset with the probe's changes.
fn variant(probe: &Probe) -> Result<Variant> {
    let base = preset(probe.preset).with_context(|| format!("preset {}", probe.preset))?;
    let mut variant = Variant::from(base);
    for &(name, size) in probe.sizes {
        match field(&mut variant.preset, name) {
            Some(field) => *field = size,
            None => bail!("a preset has no size `{name}`"),
        }
    }
    if let Some(sections) = probe.rope_sections {
        variant.preset.rope_sections = sections;
    }
    if let Some(eps) = probe.eps {
        variant.f_norm_rms_eps = eps;
    }
    variant.scales = probe.scales.iter().map(|(name, factor)| ((*name).to_owned(), *factor)).collect();
    Ok(variant)
}

/// A size by its name.
fn field<'p>(preset: &'p mut Preset, name: &str) -> Option<&'p mut usize> {
    Some(match name {
        "n_layer" => &mut preset.n_layer,
        "full_attention_interval" => &mut preset.full_attention_interval,
        "n_vocab" => &mut preset.n_vocab,
        "n_embd" => &mut preset.n_embd,
        "n_ff" => &mut preset.n_ff,
        "n_head" => &mut preset.n_head,
        "n_head_kv" => &mut preset.n_head_kv,
        "n_embd_head" => &mut preset.n_embd_head,
        "n_rot" => &mut preset.n_rot,
        "ssm_d_conv" => &mut preset.ssm_d_conv,
        "ssm_d_state" => &mut preset.ssm_d_state,
        "ssm_dt_rank" => &mut preset.ssm_dt_rank,
        "ssm_n_group" => &mut preset.ssm_n_group,
        "fold_block" => &mut preset.fold_block,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::QUESTIONS;

    #[test]
    fn every_probe_is_a_preset_with_sizes_that_it_has() {
        for question in QUESTIONS {
            let probe = question.probe;
            let variant = variant(&probe).unwrap();
            assert!(probe.sizes.iter().all(|(name, _)| field(&mut variant.preset.clone(), name).is_some()));
            assert_eq!(probe.schedule.iter().sum::<usize>(), probe.tokens.len(), "{}", question.name);
            assert!(!probe.because.is_empty(), "{}", question.name);
        }
    }

    #[test]
    fn a_size_that_no_preset_has_is_refused() {
        let probe = Probe { sizes: &[("n_wings", 2)], ..Probe::PLAIN };
        assert!(variant(&probe).unwrap_err().to_string().contains("n_wings"));
    }
}
