//! What an engine rounds on purpose, which of two ways it goes, and what it names, as the reference does.

use super::{Dialect, EngineError};
use crate::arithmetic::Ggml;
use crate::model::Hparams;
pub use crate::ops::exact::{ActivationRounding, CpuKernel, cpu_kernel};
use crate::ops::{Activations, Real, RoundingRule, carry};
use crate::tensor::GgmlType;

/// What becomes of the activations in front of all products with weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ActivationMode {
    /// They are taken as they are.
    #[default]
    Whole,
    /// They are rounded as this kernel of ggml-cpu rounds them for the type of the weights. Where the tap knows what the reference had
    /// ([`super::Tap::rounds_like`]), what rounding did there is done here.
    Rounded(CpuKernel),
    /// They are rounded as ggml-cuda's products of few tokens do it, to Q8_1 in front of quantised weights; in front of others they are
    /// taken as they are. The GPU engine then multiplies in integers.
    Mmvq,
    /// They are rounded to this whatever the type of the weights, f32 too: a choice that ggml makes for some types only.
    Always(ActivationRounding),
}

impl ActivationMode {
    /// What a product is to do, with what the reference had there.
    pub(super) fn of(self, like: Option<&[f32]>) -> Activations<'_> {
        let rule = match self {
            ActivationMode::Whole => return Activations::Whole,
            ActivationMode::Rounded(kernel) => RoundingRule::ForWeights(kernel),
            ActivationMode::Mmvq => RoundingRule::Mmvq,
            ActivationMode::Always(rounding) => RoundingRule::Always(rounding),
        };
        match like {
            None => Activations::Rounded(rule),
            Some(reference) => Activations::RoundedLike(rule, reference),
        }
    }
}

/// How the recurrence of the delta net is computed. The result is the same function; roundings and the tensors in between differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeltaNetRoute {
    /// By one operator, token by token.
    #[default]
    Fused,
    /// As a graph of plain operators, in chunks, or for one token (llama.cpp with `fused_gdn_ch` and `fused_gdn_ar` off).
    Unfused,
}

/// What an engine rounds on purpose, by default nothing, and which way it goes where llama.cpp has two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numerics {
    /// What becomes of an activation in front of a product with weights.
    pub activations: ActivationMode,
    /// What keys are stored in; queries are rounded to it in front of the scores.
    pub type_k: GgmlType,
    /// What values are stored in; probabilities are rounded to it in front of the weighted sum.
    pub type_v: GgmlType,
    /// How the delta net is computed.
    pub delta_net: DeltaNetRoute,
    /// How the reference's graph shows it.
    pub dialect: Dialect,
    /// The build of ggml-cpu whose order of operations is followed to the bit, weights and caches included; none for the
    /// engine's own.
    pub ggml: Option<Ggml>,
}

impl Default for Numerics {
    fn default() -> Numerics {
        Numerics {
            activations: ActivationMode::Whole,
            type_k: GgmlType::F32,
            type_v: GgmlType::F32,
            delta_net: DeltaNetRoute::Fused,
            dialect: Dialect::PINNED,
            ggml: None,
        }
    }
}

impl Numerics {
    /// Checks that keys and values are of types that an engine keeps, and that activations can be rounded as they are to be.
    ///
    /// # Errors
    /// If a type is not f32, f16 or bf16, or all activations are to be rounded in blocks that do not divide their width.
    pub fn check(&self, hparams: &Hparams) -> Result<(), EngineError> {
        if let ActivationMode::Always(rounding) = self.activations {
            let block = rounding.block_elements();
            let widths = [hparams.n_embd, hparams.n_embd_q(), hparams.ssm_d_inner, hparams.n_ff];
            if let Some(width) = widths.into_iter().find(|width| !width.is_multiple_of(block)) {
                return Err(EngineError::ActivationBlock { rounding, block, width });
            }
        }
        for (cache, ty) in [("K", self.type_k), ("V", self.type_v)] {
            if !matches!(ty, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16) {
                return Err(EngineError::CacheType { cache, got: ty });
            }
        }
        Ok(())
    }

    /// A few words for a report; empty for the default.
    pub fn describe(&self) -> String {
        let mut words = Vec::new();
        match self.activations {
            // What the build does is in its name.
            _ if self.ggml.is_some() => {}
            ActivationMode::Whole => {}
            ActivationMode::Rounded(kernel) => {
                words.push(format!("activations rounded as ggml-cpu {kernel}"))
            }
            ActivationMode::Mmvq => words.push("activations rounded as ggml-cuda, to Q8_1".to_owned()),
            ActivationMode::Always(rounding) => words.push(format!("all activations rounded to {rounding}")),
        }
        for (cache, ty) in [("K", self.type_k), ("V", self.type_v)] {
            if ty != GgmlType::F32 {
                words.push(format!("{cache} {ty}"));
            }
        }
        if self.delta_net == DeltaNetRoute::Unfused {
            words.push("delta net out of plain operators".to_owned());
        }
        words.join(", ")
    }
}

/// Rounds values to one of the types that [`Numerics::check`] lets through, each as the reference's was rounded if that is
/// known.
pub(super) fn round_to<T: Real>(ty: GgmlType, values: &mut [T], like: Option<&[f32]>) {
    let round: fn(f32) -> f32 = match ty {
        GgmlType::F16 => |x| half::f16::from_f32(x).to_f32(),
        GgmlType::BF16 => |x| half::bf16::from_f32(x).to_f32(),
        _ => return,
    };
    match like {
        None => values.iter_mut().for_each(|x| *x = T::from_f32(round(x.to_f64() as f32))),
        Some(like) => values.iter_mut().zip(like).for_each(|(x, &like)| *x = carry(*x, round(like), like)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_what_is_stored() {
        let mut x = [2049.0f64, 1.0];
        round_to(GgmlType::F32, &mut x, None);
        assert_eq!(x, [2049.0, 1.0]);
        round_to(GgmlType::F16, &mut x, Some(&[2050.5, 1.0]));
        assert_eq!(x, [2048.5, 1.0]); // the reference's went down by 0.5
        round_to(GgmlType::F16, &mut x, None);
        assert_eq!(x, [2048.0, 1.0]);
    }
}
