//! Writing a synthetic model.

use std::io::{self, Write};
use std::path::Path;

use super::rng::Rng;
use super::{Preset, Progress, SynthError, Variant, convert, unfold, weights};
use crate::gguf::{GgufWriter, TensorInfo, Value};
use crate::model::{FOLD_PREFIX, Hparams, LayerKind, expected_tensors};
use crate::quant;
use crate::tensor::GgmlType;

/// The weight types that a model can be made in. The ternary ones of the fork are folded; f32 is the unfolded twin, and the
/// others are that twin with its matrices in the type.
pub const TYPES: &[GgmlType] = &[
    GgmlType::PQ2_0,
    GgmlType::PTQ1_0,
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::Q8_0,
    GgmlType::Q6_K,
    GgmlType::Q4_K,
    GgmlType::Q4_0,
    GgmlType::Q2_0,
    GgmlType::Q1_0,
    GgmlType::TQ2_0,
    GgmlType::TQ1_0,
];

const ARCHITECTURE: &str = "qwen35";
pub(super) const RMS_EPS: f32 = 1e-6;
const ROPE_FREQ_BASE: f32 = 1e7;
const CONTEXT_LENGTH: u32 = 4096;
/// `LLAMA_FTYPE` numbers of the fork.
const FILE_TYPE: [(GgmlType, u32); 2] = [(GgmlType::PQ2_0, 141), (GgmlType::PTQ1_0, 142)];

/// Whether models of this type are folded: llama.cpp cannot run them, only their unfolded twins.
pub fn is_folded(ty: GgmlType) -> bool {
    FILE_TYPE.iter().any(|(folded, _)| *folded == ty)
}

/// Writes the model that `(preset, seed, types)` stands for; the same bytes on every platform. Several types, none of them
/// folded, are dealt out to the matrices in turn, in the order of the file.
///
/// # Errors
/// If there is no type, or one is not offered, or the file cannot be written.
pub fn write_mixed(
    preset: &Preset,
    seed: u64,
    types: &[GgmlType],
    out: &Path,
    progress: Progress<'_>,
) -> Result<(), SynthError> {
    write_variant(&preset.into(), seed, types, out, progress)
}

/// Writes the model that `(variant, seed, types)` stands for, as [`write_mixed`] does of a preset.
///
/// # Errors
/// As [`write_mixed`]; or if its sizes make no model, or a tensor cannot be scaled exactly.
pub fn write_variant(
    variant: &Variant,
    seed: u64,
    types: &[GgmlType],
    out: &Path,
    progress: Progress<'_>,
) -> Result<(), SynthError> {
    variant.check()?;
    match types {
        [] => Err(SynthError::NoType),
        [ty] => write_one(variant, seed, *ty, out, progress),
        types => match types.iter().find(|ty| is_folded(**ty) || !TYPES.contains(ty)) {
            Some(&got) => Err(SynthError::Mixed { got }),
            None => by_way_of(variant, seed, GgmlType::F32, out, |twin| convert(twin, types, out, progress)),
        },
    }
}

/// Writes the model that `(preset, seed, ty)` stands for; the same bytes on every platform.
///
/// # Errors
/// If the type is not offered or the file cannot be written.
pub fn write_model(
    preset: &Preset,
    seed: u64,
    ty: GgmlType,
    out: &Path,
    progress: Progress<'_>,
) -> Result<(), SynthError> {
    write_variant(&preset.into(), seed, &[ty], out, progress)
}

fn write_one(
    variant: &Variant,
    seed: u64,
    ty: GgmlType,
    out: &Path,
    progress: Progress<'_>,
) -> Result<(), SynthError> {
    if !TYPES.contains(&ty) {
        return Err(SynthError::Type { got: ty });
    }
    if ty == GgmlType::F32 {
        return by_way_of(variant, seed, GgmlType::PQ2_0, out, |folded| unfold(folded, out, progress));
    }
    let Some(&(_, file_type)) = FILE_TYPE.iter().find(|(offered, _)| *offered == ty) else {
        return by_way_of(variant, seed, GgmlType::F32, out, |twin| convert(twin, &[ty], out, progress));
    };
    let writer = declare(variant, seed, ty, file_type)?;
    let total = writer.data_bytes();
    let mut done = 0;
    writer.write(out, |info, file| {
        write_tensor(info, seed, variant.factor(&info.name), file)?;
        done += info.bytes;
        progress(done, total);
        Ok(())
    })?;
    Ok(())
}

/// Metadata and tensor table of a folded model.
fn declare(variant: &Variant, seed: u64, ty: GgmlType, file_type: u32) -> Result<GgufWriter, SynthError> {
    let hparams = hparams(variant);
    let tensors = expected_tensors(&hparams, false);
    let mut writer = GgufWriter::new();
    write_metadata(&mut writer, variant, &hparams, seed, file_type)?;
    let folded: Vec<String> = tensors
        .iter()
        .filter(|t| weights::is_ternary(&t.name, &t.ne) && t.name != "token_embd.weight")
        .map(|t| t.name.clone())
        .collect();
    writer.set(format!("{FOLD_PREFIX}weight_names"), folded)?;
    for tensor in &tensors {
        let stored = match weights::bare(&tensor.name) {
            "ssm_alpha" | "ssm_beta" => GgmlType::BF16,
            _ if weights::is_ternary(&tensor.name, &tensor.ne) => ty,
            _ => GgmlType::F32,
        };
        writer.tensor(tensor.name.as_str(), &tensor.ne, stored)?;
    }
    Ok(writer)
}

/// The header of a folded model of a type, in front of zeros for its weights.
pub(super) fn header(variant: &Variant, seed: u64, ty: GgmlType) -> Result<Vec<u8>, SynthError> {
    variant.check()?;
    let offered = FILE_TYPE.iter().find(|(offered, _)| *offered == ty);
    let &(_, file_type) = offered.ok_or(SynthError::Type { got: ty })?;
    Ok(declare(variant, seed, ty, file_type)?.with_zeros()?)
}

/// Makes a model of another type beside `out`, does something with it, and removes it.
fn by_way_of(
    variant: &Variant,
    seed: u64,
    ty: GgmlType,
    out: &Path,
    make: impl FnOnce(&Path) -> Result<(), SynthError>,
) -> Result<(), SynthError> {
    // The process is in the name, so that no file of the user's is overwritten and removed.
    let mut means = out.as_os_str().to_owned();
    means.push(format!(".{}.{ty}", std::process::id()));
    let means = Path::new(&means);
    let result = write_one(variant, seed, ty, means, &mut |_, _| {}).and_then(|()| make(means));
    // It is a means only; whether it could be removed does not change the result.
    let _ = std::fs::remove_file(means);
    result
}

fn write_tensor(info: &TensorInfo, seed: u64, factor: f32, file: &mut dyn Write) -> io::Result<()> {
    let mut rng = Rng::new(seed, &info.name);
    let [n_in, n_out, ..] = info.ne.map(|n| n as usize);
    let encode = |values: &mut [f32]| {
        values.iter_mut().for_each(|value| *value *= factor);
        quant::encode(info.ty, values).map_err(io::Error::other)
    };
    if info.ty == GgmlType::F32 {
        let mut values = vec![0.0; n_in * n_out];
        weights::vector(&info.name, &mut rng, &mut values);
        return file.write_all(&encode(&mut values)?);
    }
    let mut row = vec![0.0; n_in];
    for _ in 0..n_out {
        match info.ty {
            GgmlType::BF16 => weights::normal_row(&info.name, &mut rng, &mut row),
            _ => weights::ternary_row(&info.name, &mut rng, &mut row),
        }
        file.write_all(&encode(&mut row)?)?;
    }
    Ok(())
}

pub(super) fn hparams(variant: &Variant) -> Hparams {
    let p = &variant.preset;
    let kind = |i: usize| match i.is_multiple_of(p.full_attention_interval) {
        true => LayerKind::Attention,
        false => LayerKind::DeltaNet,
    };
    Hparams {
        n_layer: p.n_layer,
        n_layer_nextn: 0,
        n_vocab: p.n_vocab,
        n_ctx_train: CONTEXT_LENGTH.into(),
        n_embd: p.n_embd,
        n_ff: p.n_ff,
        n_head: p.n_head,
        n_head_kv: p.n_head_kv,
        n_embd_head: p.n_embd_head,
        f_norm_rms_eps: variant.f_norm_rms_eps,
        f_attention_scale: None,
        rope_freq_base: ROPE_FREQ_BASE,
        n_rot: p.n_rot,
        rope_sections: p.rope_sections,
        ssm_d_conv: p.ssm_d_conv,
        ssm_d_inner: p.ssm_d_inner(),
        ssm_d_state: p.ssm_d_state,
        ssm_dt_rank: p.ssm_dt_rank,
        ssm_n_group: p.ssm_n_group,
        layers: (1..=p.n_layer).map(kind).collect(),
    }
}

fn write_metadata(
    writer: &mut GgufWriter,
    variant: &Variant,
    h: &Hparams,
    seed: u64,
    file_type: u32,
) -> Result<(), SynthError> {
    let p = &variant.preset;
    writer.set("general.architecture", ARCHITECTURE)?;
    writer.set("general.name", variant.name(seed))?;
    writer.set("general.file_type", file_type)?;
    let sizes = [
        ("block_count", h.n_layer),
        ("context_length", CONTEXT_LENGTH as usize),
        ("vocab_size", h.n_vocab),
        ("embedding_length", h.n_embd),
        ("feed_forward_length", h.n_ff),
        ("attention.head_count", h.n_head),
        ("attention.head_count_kv", h.n_head_kv),
        ("attention.key_length", h.n_embd_head),
        ("attention.value_length", h.n_embd_head),
        ("full_attention_interval", p.full_attention_interval),
        ("rope.dimension_count", h.n_rot),
        ("ssm.conv_kernel", h.ssm_d_conv),
        ("ssm.inner_size", h.ssm_d_inner),
        ("ssm.state_size", h.ssm_d_state),
        ("ssm.time_step_rank", h.ssm_dt_rank),
        ("ssm.group_count", h.ssm_n_group),
    ];
    for (key, size) in sizes {
        writer.set(format!("{ARCHITECTURE}.{key}"), size as u32)?;
    }
    writer.set(format!("{ARCHITECTURE}.attention.layer_norm_rms_epsilon"), h.f_norm_rms_eps)?;
    writer.set(format!("{ARCHITECTURE}.rope.freq_base"), ROPE_FREQ_BASE)?;
    let sections: Vec<i32> = h.rope_sections.iter().map(|&s| s as i32).collect();
    writer.set(format!("{ARCHITECTURE}.rope.dimension_sections"), sections)?;
    writer.set("tokenizer.ggml.model", "none")?;

    let widths = p.fold_widths();
    let mut signs = Vec::new();
    for width in &widths {
        let mut rng = Rng::new(seed, &format!("signs {width}"));
        signs.extend((0..*width).map(|_| rng.sign()));
    }
    let fold: [(&str, Value); 9] = [
        ("version", 1u32.into()),
        ("block_size", (p.fold_block as u32).into()),
        ("transform", "normalized-sylvester-walsh-hadamard".into()),
        ("axis", "input-last-dimension".into()),
        ("sign_mode", "explicit".into()),
        ("sign_widths", widths.iter().map(|&w| w as i32).collect::<Vec<i32>>().into()),
        ("sign_values", signs.into()),
        ("inverse_weight_names", vec!["token_embd.weight".to_owned()].into()),
        ("gdn_v_grouped", true.into()),
    ];
    for (key, value) in fold {
        writer.set(format!("{FOLD_PREFIX}{key}"), value)?;
    }
    Ok(())
}
