//! The tensor table: which tensors a `qwen35` file holds, and their shapes.
//!
//! Source: `llama_model_qwen35::load_arch_tensors` (models/qwen35.cpp).

use std::collections::HashSet;

use super::{Hparams, LayerKind, ModelError};
use crate::gguf::{Gguf, TensorInfo};
use crate::tensor::GgmlType;

/// The embedding table.
pub(super) const TOKEN_EMBD: &str = "token_embd.weight";
/// The output head; optional, the embedding table stands in.
pub(super) const OUTPUT: &str = "output.weight";

/// A tensor that the architecture needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorShape {
    /// Its name in the file.
    pub name: String,
    /// Its extents, dimension 0 (the contraction axis of a matrix) first.
    pub ne: Vec<u64>,
}

/// Every tensor of a model with these hyperparameters, in file order; `output.weight` only if it is not tied.
pub fn expected_tensors(hparams: &Hparams, tied: bool) -> Vec<TensorShape> {
    let h = hparams;
    let shape = |name: String, ne: &[usize]| TensorShape { name, ne: ne.iter().map(|&n| n as u64).collect() };
    let mut tensors = vec![shape(TOKEN_EMBD.to_owned(), &[h.n_embd, h.n_vocab])];
    tensors.push(shape("output_norm.weight".to_owned(), &[h.n_embd]));
    if !tied {
        tensors.push(shape(OUTPUT.to_owned(), &[h.n_embd, h.n_vocab]));
    }
    for (il, kind) in h.layers.iter().enumerate() {
        let mut block = |name: &str, ne: &[usize]| tensors.push(shape(format!("blk.{il}.{name}"), ne));
        block("attn_norm.weight", &[h.n_embd]);
        match kind {
            LayerKind::Attention => {
                block("attn_q.weight", &[h.n_embd, 2 * h.n_embd_q()]);
                block("attn_k.weight", &[h.n_embd, h.n_embd_kv()]);
                block("attn_v.weight", &[h.n_embd, h.n_embd_kv()]);
                block("attn_output.weight", &[h.n_embd_q(), h.n_embd]);
                block("attn_q_norm.weight", &[h.n_embd_head]);
                block("attn_k_norm.weight", &[h.n_embd_head]);
            }
            LayerKind::DeltaNet => {
                block("attn_qkv.weight", &[h.n_embd, h.conv_channels()]);
                block("attn_gate.weight", &[h.n_embd, h.ssm_d_inner]);
                block("ssm_conv1d.weight", &[h.ssm_d_conv, h.conv_channels()]);
                block("ssm_dt.bias", &[h.ssm_dt_rank]);
                block("ssm_a", &[h.ssm_dt_rank]);
                block("ssm_beta.weight", &[h.n_embd, h.ssm_dt_rank]);
                block("ssm_alpha.weight", &[h.n_embd, h.ssm_dt_rank]);
                block("ssm_norm.weight", &[h.ssm_d_state]);
                block("ssm_out.weight", &[h.ssm_d_inner, h.n_embd]);
            }
        }
        block("post_attention_norm.weight", &[h.n_embd]);
        block("ffn_gate.weight", &[h.n_embd, h.n_ff]);
        block("ffn_up.weight", &[h.n_embd, h.n_ff]);
        block("ffn_down.weight", &[h.n_ff, h.n_embd]);
    }
    tensors
}

/// `blk.0.ffn_up.weight` -> `blk.0.ffn_up.scale`
pub(super) fn scale_name(weight: &str) -> String {
    format!("{}.scale", weight.strip_suffix(".weight").unwrap_or(weight))
}

/// Checks presence and shape of every tensor; returns notes about those that are not used.
pub(super) fn check(gguf: &Gguf, hparams: &Hparams) -> Result<Vec<String>, ModelError> {
    let expected = expected_tensors(hparams, gguf.tensor(OUTPUT).is_none());
    for TensorShape { name, ne } in &expected {
        let tensor = gguf.tensor(name).ok_or_else(|| ModelError::MissingTensor { name: name.clone() })?;
        check_one(tensor.info, ne)?;
    }
    for name in scale_names(&expected) {
        if let Some(tensor) = gguf.tensor(&name) {
            check_one(tensor.info, &[1])?;
        }
    }
    Ok(notes(gguf, hparams, &expected))
}

fn check_one(info: &TensorInfo, ne: &[u64]) -> Result<(), ModelError> {
    let mut padded = [1; 4];
    padded[..ne.len()].copy_from_slice(ne);
    if info.ne != padded {
        let (got, expected) = (info.dims().to_vec(), ne.to_vec());
        return Err(ModelError::Shape { name: info.name.clone(), got, expected });
    }
    let plain = [GgmlType::F32, GgmlType::F16, GgmlType::BF16];
    if ne.len() == 1 && !plain.contains(&info.ty) {
        return Err(ModelError::PlainType { name: info.name.clone(), got: info.ty });
    }
    Ok(())
}

/// The optional factors of the matrices that activations are multiplied with.
fn scale_names(expected: &[TensorShape]) -> HashSet<String> {
    let tied = !expected.iter().any(|t| t.name == OUTPUT);
    let takes_none = |name: &str| (name == TOKEN_EMBD && !tied) || name.ends_with(".ssm_conv1d.weight");
    let matrices = expected.iter().filter(|t| t.ne.len() == 2 && !takes_none(&t.name));
    matrices.map(|t| scale_name(&t.name)).collect()
}

fn notes(gguf: &Gguf, hparams: &Hparams, expected: &[TensorShape]) -> Vec<String> {
    let known: HashSet<&str> = expected.iter().map(|t| t.name.as_str()).collect();
    let scales = scale_names(expected);
    let is_nextn = |name: &str| {
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
        layer.is_some_and(|il| il >= hparams.n_layer && il < hparams.n_layer + hparams.n_layer_nextn)
    };
    let mut notes = Vec::new();
    if hparams.n_layer_nextn > 0 {
        let n = gguf.tensors().iter().filter(|t| is_nextn(&t.name)).count();
        notes.push(format!(
            "{} MTP layer(s) behind the trunk are not run ({n} tensors)",
            hparams.n_layer_nextn
        ));
    }
    for tensor in gguf.tensors() {
        let name = tensor.name.as_str();
        if !known.contains(name) && !scales.contains(name) && !is_nextn(name) {
            notes.push(format!("tensor `{name}` is not used"));
        }
    }
    notes
}
