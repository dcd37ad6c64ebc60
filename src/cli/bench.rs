//! `lockstep bench`: how fast kernels and the engine are on a device.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Result, bail};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::engine::EngineName;
use super::output::{require_folder, write};
use super::progress;
use crate::bench::{Bench, ModelOptions, bench_kernels, bench_model};
use crate::report::{bench_kernels_json, bench_kernels_text, bench_model_json, bench_model_text};
use crate::tensor::GgmlType;

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep bench kernels --json kernels.json
      every kernel at the sizes of the 27B: time, GB/s, share of the rate at which the device copies memory
  lockstep bench model
      tokens per second of the engine with 7 GB of synthetic weights in the shape of the 27B
  lockstep bench model --layers 8 --contexts 1,4096
  lockstep bench kernels --engine simt --small
      shows that everything runs; the times of the emulator mean nothing

docs/gpu.md says what each figure is.")]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Kernels one by one
    Kernels(Common),
    /// The engine with a model of the 27B's shape
    Model(ModelArgs),
}

#[derive(ClapArgs, Debug)]
struct Common {
    /// What runs the kernels: an NVIDIA GPU, or the emulator
    #[arg(long, value_enum, default_value_t = EngineName::Cuda)]
    engine: EngineName,
    /// Small sizes, which the emulator gets through
    #[arg(long)]
    small: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
}

#[derive(ClapArgs, Debug)]
struct ModelArgs {
    #[command(flatten)]
    common: Common,
    /// Layers, if not all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    layers: Option<u32>,
    /// The type of the weights
    #[arg(long = "type", value_enum, default_value_t = WeightType::Pq2_0)]
    ty: WeightType,
    /// The type of keys and values
    #[arg(long, value_enum, default_value_t = CacheType::F16)]
    kv: CacheType,
    /// Tokens in front of those that are timed, ascending [default: 1,1024,4096,16384]
    #[arg(long, value_delimiter = ',', value_name = "NS")]
    contexts: Vec<u32>,
    /// Lengths of prompts [default: 512,2048]
    #[arg(long, value_delimiter = ',', value_name = "NS")]
    prompts: Vec<u32>,
    /// Tokens that are timed behind each context
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    decode: Option<u32>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum WeightType {
    #[value(name = "pq2_0")]
    Pq2_0,
    #[value(name = "ptq1_0")]
    Ptq1_0,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum CacheType {
    F32,
    F16,
    Bf16,
}

impl ModelArgs {
    fn options(&self) -> ModelOptions {
        let sizes = |given: &[u32], default: Vec<usize>| match given {
            [] => default,
            given => given.iter().map(|&n| n as usize).collect(),
        };
        let default = ModelOptions::new(self.common.small);
        ModelOptions {
            layers: self.layers.map(|n| n as usize),
            ty: match self.ty {
                WeightType::Pq2_0 => GgmlType::PQ2_0,
                WeightType::Ptq1_0 => GgmlType::PTQ1_0,
            },
            kv: match self.kv {
                CacheType::F32 => GgmlType::F32,
                CacheType::F16 => GgmlType::F16,
                CacheType::Bf16 => GgmlType::BF16,
            },
            contexts: sizes(&self.contexts, default.contexts.clone()),
            prompts: sizes(&self.prompts, default.prompts.clone()),
            n_decode: self.decode.map_or(default.n_decode, |n| n as usize),
            ..default
        }
    }
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let common = match &args.what {
        What::Kernels(common) => common,
        What::Model(model) => &model.common,
    };
    if let Some(path) = &common.json {
        require_folder(path)?;
    }
    let Some(device) = common.engine.device()? else {
        bail!("--engine cpu has no kernels to measure: give cuda or simt");
    };
    if common.engine == EngineName::Simt && !common.small {
        bail!(
            "the emulator would take days for the sizes of the 27B, and its times mean nothing: give --small"
        );
    }
    let bar = progress::bar("measuring");
    let shown = bar.clone();
    let mut progress = |what: &str| {
        shown.set_message(what.to_owned());
        shown.inc(1);
    };
    let mut bench = Bench { device: &device, is_small: common.small, progress: &mut progress };
    let date = date();
    let (text, json) = match &args.what {
        What::Kernels(_) => {
            let found = bench_kernels(&mut bench)?;
            (bench_kernels_text(&found, &date), bench_kernels_json(&found, &date))
        }
        What::Model(model) => {
            let found = bench_model(&mut bench, &model.options())?;
            (bench_model_text(&found, &date), bench_model_json(&found, &date))
        }
    };
    bar.finish_and_clear();
    if let Some(path) = &common.json {
        write(path, &json)?;
    }
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

/// Now, in UTC: `2026-01-31 23:59`.
fn date() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let minutes = since.as_secs() / 60;
    let (year, month, day) = civil((minutes / 1440) as i64);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes % 1440 / 60, minutes % 60)
}

/// Year, month and day of a day counted from 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, date) in
            [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29)), (20_453, (2025, 12, 31))]
        {
            assert_eq!(civil(days), date, "{days}");
        }
    }
}
