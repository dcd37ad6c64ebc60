//! What the kernels ask of a model's sizes, where no other path runs what they do not take.

use super::Driver;
use crate::engine::EngineError;
use crate::model::{Hparams, LayerKind, Model};

/// Heads of the delta net that there are kernels for.
const DELTA_NET_HEADS: [usize; 5] = [8, 16, 32, 64, 128];
/// Taps of its convolution.
const MAX_TAPS: usize = 8;
/// Values of a row that is normed.
const MAX_ROW: usize = 24576;
/// Values of a Hadamard block.
const MAX_FOLD_BLOCK: usize = 8192;

/// # Errors
/// If a size has no kernel; the error names it.
pub(super) fn check(model: &Model, driver: &Driver) -> Result<(), EngineError> {
    match unsupported(model.hparams(), model.fold().map_or(1, |fold| fold.block())) {
        None => Ok(()),
        Some(what) => Err(EngineError::NotSupported { engine: driver.to_string(), what }),
    }
}

fn unsupported(h: &Hparams, fold_block: usize) -> Option<String> {
    let has = |kind| h.layers.contains(&kind);
    let (is_delta, is_attention) = (has(LayerKind::DeltaNet), has(LayerKind::Attention));
    let sizes = [
        (
            !is_delta || DELTA_NET_HEADS.contains(&h.ssm_d_state),
            "delta net heads (ssm.state_size)",
            h.ssm_d_state,
            "8, 16, 32, 64 or 128",
        ),
        (
            !is_delta || (2..=MAX_TAPS).contains(&h.ssm_d_conv),
            "taps of a convolution (ssm.conv_kernel)",
            h.ssm_d_conv,
            "2 to 8",
        ),
        (!is_attention || h.n_rot > 0, "rotated elements (rope.dimension_count)", h.n_rot, "2 or more"),
        (h.n_embd <= MAX_ROW, "rows of a norm (embedding_length)", h.n_embd, "up to 24576"),
        (
            !is_attention || h.n_embd_head <= MAX_ROW,
            "attention heads (attention.key_length)",
            h.n_embd_head,
            "up to 24576",
        ),
        (fold_block <= MAX_FOLD_BLOCK, "Hadamard blocks", fold_block, "up to 8192"),
    ];
    let (_, what, got, expected) = sizes.into_iter().find(|(fits, ..)| !fits)?;
    Some(format!("{what} of {got}: its kernels take {expected}"))
}
