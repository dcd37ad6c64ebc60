//! The norm behind the delta net's recurrence and its gate: `rms_norm(o) w silu(z)`.

use ndarray::Array3;

use super::epsilon::{Solved, solve};
use super::norm::weighted;
use super::{Held, Site, Stop, packed};
use crate::model::LayerKind;
use crate::ops::{Tracked, rms_norm, silu};

/// Which of a layer's tensors called `norm` it is: the first is in front of the projections.
const OCCURRENCE: u32 = 1;

/// The norm with what goes into it. Arrays are `[n_tokens, n_v, d]`.
pub(in crate::question) struct GatedNorm {
    /// `attn_output`.
    pub(in crate::question) o: Array3<Tracked>,
    /// `norm`, or where that is not held `final_output`.
    pub(in crate::question) result: Held,
    /// The norm's weight and `silu(z)`, if the result is behind both.
    behind: Option<(Vec<Tracked>, Array3<Tracked>)>,
}

impl Site<'_> {
    /// The norm of this layer.
    ///
    /// # Errors
    /// If this is no delta net, or the dump does not hold what goes into the norm, or nothing that comes out.
    pub(in crate::question) fn gated_norm(&self) -> Result<GatedNorm, Stop> {
        let o = self.recurrence_output()?;
        match self.occurrence("norm", OCCURRENCE) {
            Err(Stop::NotHeld(_)) => {
                let behind = Some((self.vector("ssm_norm.weight")?, self.z(&o)?.mapv_into(silu)));
                Ok(GatedNorm { o, result: self.tensor("final_output")?, behind })
            }
            norm => Ok(GatedNorm { o, result: norm?, behind: None }),
        }
    }

    /// `attn_output` of a delta net.
    ///
    /// # Errors
    /// If this is none, or the dump does not hold it.
    pub(in crate::question) fn recurrence_output(&self) -> Result<Array3<Tracked>, Stop> {
        self.require(LayerKind::DeltaNet)?;
        let h = self.hparams();
        Ok(self.tensor("attn_output")?.heads(h.ssm_dt_rank, h.ssm_d_state)?)
    }

    /// What gates the norm of `o`, by head.
    ///
    /// # Errors
    /// If the dump does not hold it, or it is of other tokens.
    pub(in crate::question) fn z(&self, o: &Array3<Tracked>) -> Result<Array3<Tracked>, Stop> {
        Ok(self.tensor("z")?.shaped(o.raw_dim())?)
    }
}

impl GatedNorm {
    /// What becomes of the normalised output up to the result.
    pub(in crate::question) fn result_of(&self, normalised: Array3<Tracked>) -> Vec<Tracked> {
        packed(match &self.behind {
            Some((weight, gate)) => weighted(normalised, weight) * gate,
            None => normalised,
        })
    }
}

/// The epsilon that heads of all these norms were normalised with, had their outputs been larger by a factor; none if no head tells.
pub(in crate::question) fn solved(norms: &[GatedNorm], factor: f64) -> Option<Solved> {
    let of = |norm: &GatedNorm| -> (Vec<f64>, Vec<f64>) {
        let o = norm.o.iter().map(|o| factor * o.value()).collect();
        (o, norm.result.values.iter().map(|&y| y.into()).collect())
    };
    let d = norms.first()?.o.dim().2;
    let (o, normalised): (Vec<_>, Vec<_>) = norms.iter().filter(|norm| norm.behind.is_none()).map(of).unzip();
    let (o, normalised) = (o.concat(), normalised.concat());
    solve(o.chunks(d).zip(normalised.chunks(d)))
}

/// Each head of each token divided by its root mean square.
pub(in crate::question) fn normalised(mut o: Array3<Tracked>, eps: f64) -> Array3<Tracked> {
    rms_norm(&mut o, eps);
    o
}
