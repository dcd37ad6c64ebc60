//! Models that are in no file, to measure how fast something runs: a header, and weights that are made when they are asked for.

use std::io;

use super::rng::Rng;
use super::{Preset, SynthError, weights, write};
use crate::gguf::Gguf;
use crate::model::Model;
use crate::quant;
use crate::tensor::GgmlType;

/// The sizes of Ternary-Bonsai-2-27B. No preset: as a file it would be 7 GB.
pub const BONSAI_27B: Preset = Preset {
    name: "bonsai-27b",
    about: "64 layers (48 delta net, 16 attention), 7 GB",
    n_layer: 64,
    full_attention_interval: 4,
    n_vocab: 248_320,
    n_embd: 5120,
    n_ff: 17_408,
    n_head: 24,
    n_head_kv: 4,
    n_embd_head: 256,
    n_rot: 64,
    rope_sections: [11, 11, 10, 0],
    ssm_d_conv: 4,
    ssm_d_state: 128,
    ssm_dt_rank: 48,
    ssm_n_group: 16,
    fold_block: 1024,
};

/// Rows of a matrix that differ; the others repeat them, so that 7 GB are made in seconds.
const DISTINCT_ROWS: usize = 64;

/// A folded model with all of its header and no weights: they read as zeros, and take no memory until someone reads them.
///
/// # Errors
/// If the type is not one of the folded ones, or the sizes make no model.
pub fn without_weights(preset: &Preset, seed: u64, ty: GgmlType) -> Result<Model, SynthError> {
    Ok(Model::from_gguf(Gguf::from_bytes(write::header(&preset.into(), seed, ty)?)?)?)
}

/// The bytes of one tensor, of values like those of a synthetic model; of a large matrix some rows are repeated. `ty` is any type
/// with an encoder.
///
/// # Errors
/// If the type has no encoder, or does not fit the rows.
pub fn tensor_bytes(seed: u64, name: &str, ty: GgmlType, ne: [u64; 4]) -> Result<Vec<u8>, io::Error> {
    let mut rng = Rng::new(seed, name);
    let [n_in, n_out, ..] = ne.map(|n| n as usize);
    let is_matrix = weights::is_ternary(name, &ne[..if ne[1] > 1 { 2 } else { 1 }]);
    if !is_matrix && ty == GgmlType::F32 {
        let mut values = vec![0.0; n_in * n_out];
        weights::vector(name, &mut rng, &mut values);
        return quant::encode(ty, &values).map_err(io::Error::other);
    }
    let mut row = vec![0.0; n_in];
    let mut distinct = Vec::new();
    for _ in 0..n_out.min(DISTINCT_ROWS) {
        match is_matrix {
            true => weights::ternary_row(name, &mut rng, &mut row),
            false => weights::normal_row(name, &mut rng, &mut row),
        }
        distinct.push(quant::encode(ty, &row).map_err(io::Error::other)?);
    }
    let mut bytes = Vec::with_capacity(n_out * distinct.first().map_or(0, Vec::len));
    for n in 0..n_out {
        let at = if n < DISTINCT_ROWS { n } else { rng.next() as usize % DISTINCT_ROWS };
        bytes.extend_from_slice(&distinct[at]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LayerKind;
    use crate::synth::preset;

    #[test]
    fn the_27b_has_the_sizes_of_the_shipped_file() {
        let model = without_weights(&BONSAI_27B, 1, GgmlType::PQ2_0).unwrap();
        let tensors = model.gguf().tensors();
        assert_eq!((tensors.len(), model.hparams().count(LayerKind::DeltaNet)), (851, 48));
        let elements = tensors.iter().map(|tensor| tensor.ne.iter().product::<u64>()).sum::<u64>();
        assert_eq!(elements, 26_895_998_464);
        let folded: Vec<_> = tensors.iter().filter(|t| t.ty == GgmlType::PQ2_0).collect();
        assert_eq!(folded.len(), 402);
        // The shipped file has the same tensors, and a tokenizer in front of them.
        assert!(7_206_168_928 - tensors.iter().map(|t| t.bytes).sum::<u64>() < 20_000_000);
    }

    #[test]
    fn every_tensor_has_the_bytes_that_the_table_says() {
        let model = without_weights(preset("micro-bonsai").unwrap(), 1, GgmlType::PTQ1_0).unwrap();
        for tensor in model.gguf().tensors() {
            let bytes = tensor_bytes(1, &tensor.name, tensor.ty, tensor.ne).unwrap();
            assert_eq!(bytes.len() as u64, tensor.bytes, "{}", tensor.name);
            let mut values = vec![0.0; tensor.ne.iter().product::<u64>() as usize];
            quant::decode(tensor.ty, &bytes, &mut values).unwrap();
            assert!(
                values.iter().all(|x| x.is_finite()) && values.iter().any(|&x| x != 0.0),
                "{}",
                tensor.name
            );
        }
    }
}
