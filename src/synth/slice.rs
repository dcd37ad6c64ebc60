//! The first layers of a model: real weights in a small file.

use std::path::Path;

use super::{Progress, SynthError};
use crate::gguf::{Array, GgufWriter, Value};
use crate::model::{FOLD_PREFIX, Model};

/// Writes the first `n_layer` layers of `input` with everything outside the layers; tensors are copied as they are.
///
/// MTP layers are left out; the fold contract keeps the weights that are still there.
///
/// # Errors
/// If `input` is no model or has fewer layers, or the file cannot be written.
pub fn slice(input: &Path, n_layer: usize, out: &Path, progress: Progress<'_>) -> Result<(), SynthError> {
    let model = Model::open(input)?;
    let have = model.hparams().n_layer;
    if !(1..=have).contains(&n_layer) {
        return Err(SynthError::Layers { got: n_layer, have });
    }
    let keeps = |name: &str| layer_of_weight(name).is_none_or(|il| il < n_layer);
    let mut writer = GgufWriter::new();
    for (key, value) in model.gguf().metadata().iter() {
        let value = match (key, value) {
            ("qwen35.block_count", _) => Value::U32(n_layer as u32),
            ("qwen35.nextn_predict_layers", _) => continue,
            (key, _) if key.starts_with("split.") => continue,
            ("qwen35.attention.recurrent_layers", Value::Array(Array::Bool(layers))) => {
                layers.iter().take(n_layer).copied().collect::<Vec<bool>>().into()
            }
            (key, Value::Array(Array::String(names))) if key.starts_with(FOLD_PREFIX) => {
                names.iter().filter(|name| keeps(name)).cloned().collect::<Vec<String>>().into()
            }
            (_, value) => value.clone(),
        };
        writer.set(key, value)?;
    }
    for info in model.gguf().tensors().iter().filter(|info| keeps(&info.name)) {
        writer.tensor(info.name.as_str(), info.dims(), info.ty)?;
    }
    let total = writer.data_bytes();
    let mut done = 0;
    writer.write(out, |info, file| {
        file.write_all(model.gguf().tensor(&info.name).expect("declared from the same table").data)?;
        done += info.bytes;
        progress(done, total);
        Ok(())
    })?;
    Ok(())
}

/// The layer of a weight's name: 3 for `blk.3.ffn_up.weight`.
fn layer_of_weight(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}
