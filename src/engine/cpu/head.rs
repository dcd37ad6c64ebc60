//! The last norm, and the logits of the tokens that they were asked for.

use ndarray::{Array2, Axis};

use super::Context;
use crate::engine::{EngineError, OutputRows};
use crate::ops::Real;

/// Logits `[wanted, n_vocab]`, from the last layer's `[n_tokens, n_embd]`, or from those rows of it that are wanted if the graph has
/// picked them already.
pub(super) fn run<T: Real>(
    context: &mut Context<'_, '_, '_>,
    mut h: Array2<T>,
    wanted: &[usize],
) -> Result<Array2<T>, EngineError> {
    let none = Array2::from_elem((0, context.hparams().n_vocab), T::ZERO);
    if h.is_empty() {
        return Ok(none);
    }
    context.rms_norm(&mut h);
    h = context.emitter.emit("norm", None, h)?;
    h = context.weighted("output_norm.weight", h)?;
    if context.numerics.dialect.output_rows == OutputRows::BehindLastNorm {
        h = context.emitter.emit("h_nextn", None, h)?.select(Axis(0), wanted);
    }
    if wanted.is_empty() {
        return Ok(none);
    }
    let rows = context.emitter.emit("result_norm", None, h)?;
    let like = context.rounds_like()?;
    let logits = context.projector.mul_mat(context.model.output_name(), &rows, like.as_deref())?;
    let logits = context.emitter.emit("result_output", None, logits)?;
    context.projector.check_reached()?;
    Ok(logits)
}
