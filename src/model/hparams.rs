//! Hyperparameters, under llama.cpp's names, read from `qwen35.*` metadata.
//!
//! Source: `llama_model_qwen35::load_arch_hparams` (models/qwen35.cpp) and `llama_model_base::load_hparams`.

use super::ModelError;
use crate::gguf::Gguf;

/// What mixes the tokens of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayerKind {
    /// Gated delta net: recurrent state, no cache of keys.
    DeltaNet,
    /// Full attention with a KV cache.
    Attention,
}

/// The sizes and constants of a model.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // llama.cpp's own names; units are elements unless the line says otherwise
pub struct Hparams {
    /// Layers of the trunk (MTP layers not counted).
    pub n_layer: usize,
    /// MTP layers behind the trunk; they are not run.
    pub n_layer_nextn: usize,
    pub n_vocab: usize,
    pub n_ctx_train: u64,
    pub n_embd: usize,
    pub n_ff: usize,
    pub n_head: usize,
    pub n_head_kv: usize,
    /// Size of an attention head (key_length = value_length).
    pub n_embd_head: usize,
    pub f_norm_rms_eps: f32,
    pub f_attention_scale: Option<f32>,
    pub rope_freq_base: f32,
    /// Elements of a head that rotate.
    pub n_rot: usize,
    /// Rotated pairs of each position channel.
    pub rope_sections: [usize; 4],
    pub ssm_d_conv: usize,
    pub ssm_d_inner: usize,
    /// Size of a delta-net head, for keys and values.
    pub ssm_d_state: usize,
    /// Number of v heads.
    pub ssm_dt_rank: usize,
    /// Number of k heads.
    pub ssm_n_group: usize,
    /// The kind of each trunk layer.
    pub layers: Vec<LayerKind>,
}

/// More than any model has; keeps products of two sizes far inside 64 bits and a broken file from asking for memory.
pub(crate) const MAX_SIZE: u64 = 1 << 24;
/// `LLAMA_MAX_LAYERS` (llama-hparams.h). The tensor table is built per layer before it is compared with the file's.
pub(crate) const MAX_LAYERS: u64 = 512;
/// Attention every this many layers if the file does not say (`full_attention_interval`).
const DEFAULT_ATTENTION_INTERVAL: u64 = 4;
/// The architecture's name in `general.architecture`.
const ARCHITECTURE: &str = "qwen35";

impl Hparams {
    /// Reads and checks the metadata.
    ///
    /// # Errors
    /// If the architecture is another, a key is missing or of the wrong type, or the sizes make no model.
    pub fn read(gguf: &Gguf) -> Result<Hparams, ModelError> {
        let metadata = gguf.metadata();
        let architecture = metadata.str("general.architecture")?;
        if architecture != ARCHITECTURE {
            return Err(ModelError::Architecture { got: architecture.to_owned() });
        }
        let at_most = |limit: u64, suffix: &str| -> Result<usize, ModelError> {
            let key = format!("{ARCHITECTURE}.{suffix}");
            let value = metadata.u64(&key)?;
            require((1..=limit).contains(&value), &key, value, format!("1 to {limit}"))?;
            Ok(value as usize)
        };
        let size = |suffix: &str| at_most(MAX_SIZE, suffix);
        let key = |suffix: &str| format!("{ARCHITECTURE}.{suffix}");
        let block_count = at_most(MAX_LAYERS, "block_count")?;
        let nextn_key = key("nextn_predict_layers");
        let nextn = metadata.optional_u64(&nextn_key)?.unwrap_or(0);
        require(
            nextn < block_count as u64,
            &nextn_key,
            nextn,
            format!("less than block_count = {block_count}"),
        )?;
        let n_layer = block_count - nextn as usize;
        let n_vocab = match gguf.tensor(super::tensors::TOKEN_EMBD) {
            Some(table) => table.info.ne[1] as usize,
            None => return Err(ModelError::MissingTensor { name: super::tensors::TOKEN_EMBD.to_owned() }),
        };
        let hparams = Hparams {
            n_layer,
            n_layer_nextn: nextn as usize,
            n_vocab,
            n_ctx_train: metadata.optional_u64(&key("context_length"))?.unwrap_or(0),
            n_embd: size("embedding_length")?,
            n_ff: size("feed_forward_length")?,
            n_head: size("attention.head_count")?,
            n_head_kv: size("attention.head_count_kv")?,
            n_embd_head: size("attention.key_length")?,
            f_norm_rms_eps: metadata.f32(&key("attention.layer_norm_rms_epsilon"))?,
            f_attention_scale: metadata.optional_f32(&key("attention.scale"))?.filter(|&scale| scale != 0.0),
            rope_freq_base: metadata.f32(&key("rope.freq_base"))?,
            n_rot: size("rope.dimension_count")?,
            rope_sections: sections(metadata.u32_array(&key("rope.dimension_sections"))?)?,
            ssm_d_conv: size("ssm.conv_kernel")?,
            ssm_d_inner: size("ssm.inner_size")?,
            ssm_d_state: size("ssm.state_size")?,
            ssm_dt_rank: size("ssm.time_step_rank")?,
            ssm_n_group: size("ssm.group_count")?,
            layers: layer_kinds(gguf, n_layer, block_count)?,
        };
        hparams.check(size("attention.value_length")?)?;
        Ok(hparams)
    }

    /// Relations between the sizes, each with the key that breaks it.
    pub(crate) fn check(&self, value_length: usize) -> Result<(), ModelError> {
        let key = |suffix: &str| format!("{ARCHITECTURE}.{suffix}");
        let sections: usize = self.rope_sections.iter().sum();
        for (holds, suffix, got, expected) in [
            (value_length == self.n_embd_head, "attention.value_length", value_length, "equal to key_length"),
            (
                self.n_head.is_multiple_of(self.n_head_kv),
                "attention.head_count",
                self.n_head,
                "a multiple of head_count_kv",
            ),
            (
                self.n_rot.is_multiple_of(2) && self.n_rot <= self.n_embd_head,
                "rope.dimension_count",
                self.n_rot,
                "even and at most key_length",
            ),
            (
                sections > 0 && sections <= self.n_embd_head,
                "rope.dimension_sections",
                sections,
                "a sum from 1 to key_length",
            ),
            (
                self.ssm_d_state * self.ssm_dt_rank == self.ssm_d_inner,
                "ssm.inner_size",
                self.ssm_d_inner,
                "state_size * time_step_rank",
            ),
            (
                self.ssm_dt_rank.is_multiple_of(self.ssm_n_group),
                "ssm.time_step_rank",
                self.ssm_dt_rank,
                "a multiple of group_count",
            ),
            (self.ssm_d_conv >= 2, "ssm.conv_kernel", self.ssm_d_conv, "at least 2"),
        ] {
            require(holds, &key(suffix), got, expected.to_owned())?;
        }
        let positive = |x: f32| x.is_finite() && x > 0.0;
        let (eps, base) = (self.f_norm_rms_eps, self.rope_freq_base);
        require(
            positive(eps),
            &key("attention.layer_norm_rms_epsilon"),
            eps,
            "finite and above 0".to_owned(),
        )?;
        require(positive(base), &key("rope.freq_base"), base, "finite and above 0".to_owned())?;
        let scale = self.f_attention_scale.unwrap_or(1.0);
        require(scale.is_finite(), &key("attention.scale"), scale, "finite".to_owned())
    }

    /// Width of all q heads together, and of the attention output.
    pub fn n_embd_q(&self) -> usize {
        self.n_head * self.n_embd_head
    }

    /// Width of all k (or v) heads of attention together.
    pub fn n_embd_kv(&self) -> usize {
        self.n_head_kv * self.n_embd_head
    }

    /// Width of all k (or q) heads of the delta net together.
    pub fn ssm_d_key(&self) -> usize {
        self.ssm_n_group * self.ssm_d_state
    }

    /// Channels of the convolution: q, k and v.
    pub fn conv_channels(&self) -> usize {
        2 * self.ssm_d_key() + self.ssm_d_inner
    }

    /// v heads for each k head.
    pub fn ssm_rep(&self) -> usize {
        self.ssm_dt_rank / self.ssm_n_group
    }

    /// How many layers are of a kind.
    pub fn count(&self, kind: LayerKind) -> usize {
        self.layers.iter().filter(|&&layer| layer == kind).count()
    }
}

fn require(holds: bool, key: &str, got: impl ToString, expected: String) -> Result<(), ModelError> {
    if holds {
        Ok(())
    } else {
        Err(ModelError::Hparam { key: key.to_owned(), got: got.to_string(), expected })
    }
}

fn sections(values: Vec<u32>) -> Result<[usize; 4], ModelError> {
    let as_sizes: Vec<usize> = values.iter().map(|&v| v as usize).collect();
    // llama.cpp accepts a list of up to four; what is not given is 0.
    let mut sections = [0; 4];
    let key = format!("{ARCHITECTURE}.rope.dimension_sections");
    require(as_sizes.len() <= 4, &key, format!("{as_sizes:?}"), "at most 4 numbers".to_owned())?;
    sections[..as_sizes.len()].copy_from_slice(&as_sizes);
    Ok(sections)
}

/// From `attention.recurrent_layers` if the file has it, else from `full_attention_interval`.
fn layer_kinds(gguf: &Gguf, n_layer: usize, block_count: usize) -> Result<Vec<LayerKind>, ModelError> {
    let metadata = gguf.metadata();
    let kind = |recurrent: bool| if recurrent { LayerKind::DeltaNet } else { LayerKind::Attention };
    let key = format!("{ARCHITECTURE}.attention.recurrent_layers");
    if let Some(recurrent) = metadata.optional_bool_array(&key)? {
        let expected = format!("{block_count} values, as block_count says");
        require(recurrent.len() == block_count, &key, format!("{} values", recurrent.len()), expected)?;
        return Ok(recurrent.iter().take(n_layer).map(|&r| kind(r)).collect());
    }
    let key = format!("{ARCHITECTURE}.full_attention_interval");
    let interval = metadata.optional_u64(&key)?.unwrap_or(DEFAULT_ATTENTION_INTERVAL);
    require((1..=MAX_SIZE).contains(&interval), &key, interval, format!("1 to {MAX_SIZE}"))?;
    Ok((1..=n_layer as u64).map(|i| kind(!i.is_multiple_of(interval))).collect())
}
