//! A preset with other sizes, another epsilon, or some of its tensors scaled: the smallest model in which two conventions part.

use half::f16;

use super::weights::GROUP;
use super::write::{RMS_EPS, hparams};
use super::{Preset, SynthError, weights};
use crate::model::{MAX_LAYERS, MAX_SIZE, expected_tensors};

/// What a synthetic model is made from.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Its sizes.
    pub preset: Preset,
    /// The epsilon of its norms (`attention.layer_norm_rms_epsilon`).
    pub f_norm_rms_eps: f32,
    /// Factors of all tensors with a bare name (`token_embd`, `attn_k_norm`), whatever the layer. They are powers of two, so that
    /// every value is scaled exactly, in the ternary types and in their unfolded twin.
    pub scales: Vec<(String, f32)>,
}

impl From<&Preset> for Variant {
    fn from(preset: &Preset) -> Variant {
        Variant { preset: preset.clone(), f_norm_rms_eps: RMS_EPS, scales: Vec::new() }
    }
}

/// The largest exponent of a factor: no value in f32 or bf16 comes near the ends of their range.
const MAX_EXPONENT: f32 = 24.0;

impl Variant {
    /// By what the values of a tensor are multiplied.
    pub(super) fn factor(&self, tensor: &str) -> f32 {
        let bare = weights::bare(tensor);
        self.scales.iter().find(|(name, _)| name == bare).map_or(1.0, |(_, factor)| *factor)
    }

    /// `micro-bonsai seed 1, eps 1, token_embd * 0.0009765625`
    pub(super) fn name(&self, seed: u64) -> String {
        let eps = self.f_norm_rms_eps;
        let eps = if eps == RMS_EPS { String::new() } else { format!(", eps {eps}") };
        let scales = self.scales.iter().map(|(name, factor)| format!(", {name} * {factor}"));
        format!("{} seed {seed}{eps}{}", self.preset.name, scales.collect::<String>())
    }

    /// Checks what the writer takes for granted, and the relations between sizes that every model has.
    ///
    /// # Errors
    /// [`SynthError::Size`] or, for a relation, [`SynthError::Model`] with the metadata key; [`SynthError::Scale`].
    pub(super) fn check(&self) -> Result<(), SynthError> {
        let p = &self.preset;
        let limits = [("n_layer", p.n_layer, MAX_LAYERS as usize)].into_iter().chain(
            [
                ("full_attention_interval", p.full_attention_interval),
                ("n_vocab", p.n_vocab),
                ("n_embd", p.n_embd),
                ("n_ff", p.n_ff),
                ("n_head", p.n_head),
                ("n_head_kv", p.n_head_kv),
                ("n_embd_head", p.n_embd_head),
                ("n_rot", p.n_rot),
                ("ssm_d_conv", p.ssm_d_conv),
                ("ssm_d_state", p.ssm_d_state),
                ("ssm_dt_rank", p.ssm_dt_rank),
                ("ssm_n_group", p.ssm_n_group),
            ]
            .map(|(field, size)| (field, size, MAX_SIZE as usize)),
        );
        for (field, got, most) in limits {
            require((1..=most).contains(&got), field, got, || format!("1 to {most}"))?;
        }
        let block = p.fold_block;
        require(block.is_power_of_two() && block >= 2, "fold_block", block, || {
            "a power of two, at least 2".to_owned()
        })?;
        for (field, width) in [
            ("n_embd", p.n_embd),
            ("n_head * n_embd_head", p.n_head * p.n_embd_head),
            ("ssm_dt_rank * ssm_d_state", p.ssm_d_inner()),
            ("n_ff", p.n_ff),
        ] {
            let fits = width.is_multiple_of(block) && width.is_multiple_of(GROUP);
            require(fits, field, width, || format!("a multiple of {GROUP} and of fold_block = {block}"))?;
        }
        let sections = p.rope_sections;
        // llama.cpp stops on `GGML_ASSERT(sections[0] > 0 || sections[1] > 0 || sections[2] > 0)` (ggml-cpu/ops.cpp).
        let fit = sections[..3].iter().any(|&n| n > 0) && sections.iter().all(|&n| n <= MAX_SIZE as usize);
        require(fit, "rope_sections", format!("{sections:?}"), || {
            format!("one of the first three above 0, none above {MAX_SIZE}")
        })?;
        hparams(self).check(p.n_embd_head)?;
        self.check_scales()
    }

    fn check_scales(&self) -> Result<(), SynthError> {
        let tensors = expected_tensors(&hparams(self), false);
        for (i, (name, factor)) in self.scales.iter().enumerate() {
            let refuse =
                |expected: String| SynthError::Scale { tensor: name.clone(), factor: *factor, expected };
            if self.scales[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(refuse("one factor for each name".to_owned()));
            }
            let exponent = factor.log2();
            if *factor != exponent.round().exp2() || !(-MAX_EXPONENT..=MAX_EXPONENT).contains(&exponent) {
                return Err(refuse(format!("a power of two from 2^-{MAX_EXPONENT} to 2^{MAX_EXPONENT}")));
            }
            let mut scaled = tensors.iter().filter(|t| weights::bare(&t.name) == name).peekable();
            if scaled.peek().is_none() {
                let mut names: Vec<&str> = tensors.iter().map(|t| weights::bare(&t.name)).collect();
                names.sort_unstable();
                names.dedup();
                return Err(refuse(format!("a tensor of the model: {}", names.join(", "))));
            }
            for tensor in scaled.filter(|t| weights::is_ternary(&t.name, &t.ne)) {
                let (least, largest) = weights::group_scales(name, tensor.ne[0] as usize);
                let is_normal = |d: f16| f16::from_f32(d.to_f32() * factor).is_normal();
                if !(is_normal(least) && is_normal(largest)) {
                    let expected =
                        format!("scales of groups, now {least} to {largest}, that stay normal f16");
                    return Err(refuse(expected));
                }
            }
        }
        Ok(())
    }
}

fn require(
    holds: bool,
    field: &'static str,
    got: impl ToString,
    expected: impl FnOnce() -> String,
) -> Result<(), SynthError> {
    if holds { Ok(()) } else { Err(SynthError::Size { field, got: got.to_string(), expected: expected() }) }
}

#[cfg(test)]
mod tests {
    use super::super::preset;
    use super::*;

    fn micro() -> Preset {
        preset("micro-bonsai").unwrap().clone()
    }

    fn refusal(preset: Preset, scales: &[(&str, f32)]) -> String {
        let scales = scales.iter().map(|(name, factor)| ((*name).to_owned(), *factor)).collect();
        match (Variant { scales, ..Variant::from(&preset) }).check() {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn presets_are_variants() {
        for preset in super::super::PRESETS {
            Variant::from(preset).check().unwrap();
        }
    }

    #[test]
    fn rejects_each_size_that_makes_no_model() {
        type Change = fn(&mut Preset);
        let broken: [(&str, Change); 13] = [
            ("n_layer = 0, expected 1 to 512", |p| p.n_layer = 0),
            ("n_layer = 513", |p| p.n_layer = 513),
            ("full_attention_interval = 0", |p| p.full_attention_interval = 0),
            ("n_vocab = 16777217", |p| p.n_vocab = (1 << 24) + 1),
            ("ssm_dt_rank = 0", |p| p.ssm_dt_rank = 0),
            ("fold_block = 96, expected a power of two", |p| p.fold_block = 96),
            ("n_embd = 192, expected a multiple of 128 and of fold_block = 128", |p| p.n_embd = 192),
            ("n_head * n_embd_head = 416", |p| p.n_head = 13),
            ("n_embd = 256, expected a multiple of 128 and of fold_block = 512", |p| p.fold_block = 512),
            ("rope_sections = [0, 0, 0, 8], expected one of the first three above 0", |p| {
                p.rope_sections = [0, 0, 0, 8]
            }),
            ("qwen35.rope.dimension_count = 34", |p| p.n_rot = 34),
            ("qwen35.attention.head_count = 12", |p| p.n_head_kv = 5),
            ("qwen35.ssm.time_step_rank = 24", |p| p.ssm_n_group = 7),
        ];
        for (expected, change) in broken {
            let mut preset = micro();
            change(&mut preset);
            let got = refusal(preset, &[]);
            assert!(got.contains(expected), "{got:?}, expected {expected:?}");
        }
    }

    #[test]
    fn rejects_an_epsilon_that_is_none() {
        for eps in [0.0, -1e-6, f32::NAN, f32::INFINITY] {
            let error = Variant { f_norm_rms_eps: eps, ..Variant::from(&micro()) }.check().unwrap_err();
            let expected = format!("layer_norm_rms_epsilon = {eps}, expected finite and above 0");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }

    #[test]
    fn rejects_each_scale_that_is_not_exact() {
        for (scales, expected) in [
            (&[("token_embd", 1e-3)][..], "token_embd * 0.001, expected a power of two from 2^-24 to 2^24"),
            (&[("ssm_a", -2.0)], "ssm_a * -2, expected a power of two"),
            (&[("ssm_a", f32::NAN)], "ssm_a * NaN, expected a power of two"),
            (&[("ssm_a", 2f32.powi(25))], "expected a power of two"),
            (&[("attn_sinks", 2.0)], "attn_sinks * 2, expected a tensor of the model: attn_gate, "),
            (&[("ssm_a", 2.0), ("ssm_a", 2.0)], "expected one factor for each name"),
            // 0.92 / 2^14 is below 2^-14, 1.5 * 2^16 above 65504
            (&[("token_embd", 2f32.powi(-14))], "that stay normal f16"),
            (&[("token_embd", 2f32.powi(16))], "that stay normal f16"),
        ] {
            let got = refusal(micro(), scales);
            assert!(got.contains(expected), "{got:?}, expected {expected:?}");
        }
        assert_eq!(refusal(micro(), &[("token_embd", 2f32.powi(-13)), ("attn_k_norm", 8.0)]), "");
    }
}
