//! The unfolded twin of a folded model, which an unmodified llama.cpp can run.
//!
//! ```text
//! W = W_file H diag(s) P      for a folded weight (P: columns of `ssm_out` from grouped to tiled heads)
//! row = s . (H row_file)      for the embedding table
//! ```
//! Both are the same operation on a row. It runs in f64; the result is rounded to f32 once.

use std::io;
use std::path::Path;

use super::{Progress, SynthError};
use crate::gguf::{GgufWriter, sha256};
use crate::model::{FOLD_PREFIX, FoldOrder, HeadPermutation, Model, Transform, UNFOLDED_FROM};
use crate::ops::Rows;
use crate::quant;
use crate::tensor::GgmlType;

/// `LLAMA_FTYPE_ALL_F32`
const FILE_TYPE_F32: u32 = 0;

/// Writes the twin of the folded model `input`, all weights in f32, one row at a time.
///
/// # Errors
/// If `input` is no model or not folded, or the file cannot be written.
pub fn unfold(input: &Path, out: &Path, progress: Progress<'_>) -> Result<(), SynthError> {
    let model = Model::open(input)?;
    let Some(fold) = model.fold() else {
        return Err(SynthError::NotFolded { model: input.display().to_string() });
    };
    let mut writer = GgufWriter::new();
    for (key, value) in model.gguf().metadata().iter() {
        match key {
            "general.file_type" => writer.set(key, FILE_TYPE_F32)?,
            key if key.starts_with(FOLD_PREFIX) || key.starts_with("split.") => continue,
            key => writer.set(key, value.clone())?,
        };
    }
    writer.set(UNFOLDED_FROM, sha256(input)?)?;
    for info in model.gguf().tensors() {
        writer.tensor(info.name.as_str(), info.dims(), GgmlType::F32)?;
    }
    let total = writer.data_bytes();
    let mut done = 0;
    writer.write(out, |info, file| {
        let stored = model.gguf().tensor(&info.name).expect("declared from the same table");
        let n_in = info.ne[0] as usize;
        let n_out = info.ne[1..].iter().product::<u64>() as usize;
        let rows = Rows::new(stored.info.ty, stored.data, n_in, n_out).map_err(io::Error::other)?;
        let undo = fold.transform(&info.name, n_in).map(Undo::new);
        let mut row = vec![0.0; n_in];
        for n in 0..n_out {
            rows.decode_row(n, &mut row);
            if let Some(undo) = &undo {
                undo.apply(&mut row);
            }
            file.write_all(&quant::encode(GgmlType::F32, &row).map_err(io::Error::other)?)?;
        }
        done += info.bytes;
        progress(done, total);
        Ok(())
    })?;
    Ok(())
}

/// Takes a stored row back: the transform, the signs, and last the heads to their order in the activation.
struct Undo<'a> {
    transform: Transform<'a>,
    permutation: Option<HeadPermutation>,
}

impl<'a> Undo<'a> {
    fn new(transform: Transform<'a>) -> Undo<'a> {
        let permutation = transform.permutation.as_ref().map(HeadPermutation::inverse);
        Undo {
            transform: Transform { order: FoldOrder::WhtThenSigns, permutation: None, ..transform },
            permutation,
        }
    }

    fn apply(&self, row: &mut [f32]) {
        let mut exact: Vec<f64> = row.iter().map(|&w| f64::from(w)).collect();
        self.transform.apply(&mut exact);
        if let Some(permutation) = &self.permutation {
            permutation.apply(&mut exact);
        }
        row.iter_mut().zip(&exact).for_each(|(w, &x)| *w = x as f32);
    }
}
