//! The matrices of an unfolded model in another type, or in several.

use std::io;
use std::path::Path;

use super::{Progress, SynthError, weights};
use crate::gguf::{GgufWriter, TensorInfo};
use crate::model::{Model, UNFOLDED_FROM};
use crate::ops::Rows;
use crate::quant;
use crate::tensor::GgmlType;

/// What takes the place of a block type that does not divide a row, as in llama.cpp's own quantiser.
const FALLBACK: GgmlType = GgmlType::Q8_0;

/// Writes `input`, whose weights are f32, with every matrix that a fold would take, and the table, in one of `types`: they are
/// dealt out in turn, in the order of the file.
///
/// # Errors
/// If `input` is no model or the file cannot be written.
pub(super) fn convert(
    input: &Path,
    types: &[GgmlType],
    out: &Path,
    progress: Progress<'_>,
) -> Result<(), SynthError> {
    let model = Model::open(input)?;
    let mut writer = GgufWriter::new();
    let kept = |key: &str| key != UNFOLDED_FROM && key != "general.file_type";
    for (key, value) in model.gguf().metadata().iter().filter(|(key, _)| kept(key)) {
        writer.set(key, value.clone())?;
    }
    let mut turns = types.iter().cycle();
    for info in model.gguf().tensors() {
        writer.tensor(info.name.as_str(), info.dims(), stored(info, &mut turns))?;
    }
    let total = writer.data_bytes();
    let mut done = 0;
    writer.write(out, |info, file| {
        let source = model.gguf().tensor(&info.name).expect("declared from the same table");
        let n_in = info.ne[0] as usize;
        let n_out = info.ne[1..].iter().product::<u64>() as usize;
        let rows = Rows::new(source.info.ty, source.data, n_in, n_out).map_err(io::Error::other)?;
        let mut row = vec![0.0; n_in];
        for n in 0..n_out {
            rows.decode_row(n, &mut row);
            file.write_all(&quant::encode(info.ty, &row).map_err(io::Error::other)?)?;
        }
        done += info.bytes;
        progress(done, total);
        Ok(())
    })?;
    Ok(())
}

fn stored<'a>(info: &TensorInfo, turns: &mut impl Iterator<Item = &'a GgmlType>) -> GgmlType {
    if !weights::is_ternary(&info.name, info.dims()) {
        return info.ty;
    }
    match turns.next() {
        Some(ty) if ty.row_bytes(info.ne[0]).is_some() => *ty,
        Some(_) => FALLBACK,
        None => info.ty,
    }
}
