//! The last norm, and the logits of the tokens that they were asked for.

use super::{Pass, Tensor, Tokens};
use crate::engine::{EngineError, OutputRows};

/// Logits `[wanted, n_vocab]`, from the last layer's `[n_tokens, n_embd]`, or from those rows of it that are wanted if the graph has
/// picked them already.
pub(super) fn run(
    pass: &mut Pass<'_, '_, '_>,
    mut h: Tensor,
    wanted: &[usize],
    tokens: &Tokens,
) -> Result<Option<Tensor>, EngineError> {
    let weights = pass.weights;
    h = pass.rms_norm(&h, weights.output_norm.len())?;
    h = pass.emit("norm", None, h)?;
    h = pass.weighted(&weights.output_norm, h)?;
    if pass.numerics.dialect.output_rows == OutputRows::BehindLastNorm {
        h = pass.emit("h_nextn", None, h)?;
        if wanted.is_empty() {
            return Ok(None);
        }
        h = pass.pick(&h, tokens)?;
    }
    let rows = pass.emit("result_norm", None, h)?;
    let like = pass.rounds_like()?;
    let logits = pass.mul_mat(weights.output(), &rows, like.as_deref())?;
    pass.emit("result_output", None, logits).map(Some)
}
