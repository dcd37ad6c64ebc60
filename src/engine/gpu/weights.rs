//! A model's weights on the device, as the bytes of the file, with the transform that stands in front of each.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::launch::{FoldHeads, FoldParams};
use super::staging::Staging;
use super::{Buffer, Device, Driver, GpuError, Matrix, MemoryPlan};
use crate::engine::EngineError;
use crate::model::{Hparams, LayerKind, Model, ModelError, Role, Transform};
use crate::ops::{Rope, RopePairing, RopeSections};
use crate::quant;
use crate::tensor::GgmlType;

/// Called with bytes that are on the device, and bytes in all.
pub type UploadProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// Gives the bytes of a tensor (name, type, extents in ggml's order) that are to stand in for those of the file; none: the file's.
pub type StandIn<'a> = &'a mut dyn FnMut(&str, GgmlType, [u64; 4]) -> Option<Vec<u8>>;

/// A model with its weights on a device, which any number of engines may run.
pub struct GpuModel<'m> {
    pub(super) model: &'m Model,
    pub(super) device: Device,
    pub(super) weights: Weights,
}

impl<'m> GpuModel<'m> {
    /// Copies all weights to the device; `progress` is called with bytes done and bytes in all.
    ///
    /// # Errors
    /// If a weight is of a type without kernels, or memory does not suffice.
    pub fn upload(
        device: &Device,
        model: &'m Model,
        progress: UploadProgress<'_>,
    ) -> Result<GpuModel<'m>, EngineError> {
        GpuModel::upload_with(device, model, &mut |_, _, _| None, progress)
    }

    /// The same with other weights of the same types and sizes in place of the file's: for a model of which only the header exists.
    /// Products with activations rounded as ggml-cpu does need the file's own weights, and must not be asked for.
    ///
    /// # Errors
    /// As [`GpuModel::upload`], or if there are too few or too many bytes of a tensor.
    pub fn upload_with(
        device: &Device,
        model: &'m Model,
        stand_in: StandIn<'_>,
        progress: UploadProgress<'_>,
    ) -> Result<GpuModel<'m>, EngineError> {
        let types = (GgmlType::F32, GgmlType::F32);
        MemoryPlan::new(model, types, 0).check_weights(device)?;
        let weights = Weights::upload(device, model, stand_in, progress)?;
        Ok(GpuModel { model, device: device.clone(), weights })
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The driver of that device.
    pub fn driver(&self) -> &Driver {
        self.device.driver()
    }
}

/// All weights.
pub(super) struct Weights {
    pub(super) token_embd: Weight,
    pub(super) output_norm: Buffer<f32>,
    /// None: the embedding table stands in.
    output: Option<Weight>,
    pub(super) layers: Vec<LayerWeights>,
    /// Signs of the fold by width, shared by all weights that read that width.
    signs: BTreeMap<usize, Buffer<i8>>,
}

/// A matrix, and what its activation (or, of the embedding table, its rows) goes through.
pub(super) struct Weight {
    pub(super) name: String,
    pub(super) matrix: Matrix,
    fold: Option<Fold>,
    role: Option<Role>,
}

impl Weight {
    /// The transform in front of a product.
    pub(super) fn fold_in_front(&self) -> Option<Fold> {
        self.fold.filter(|_| self.role == Some(Role::Forward))
    }

    /// The inverse behind a lookup. As an output head a rotated table is multiplied with, not looked up.
    pub(super) fn fold_behind(&self) -> Option<Fold> {
        self.fold.filter(|_| self.role == Some(Role::Inverse))
    }
}

/// A transform without its signs, which are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fold {
    pub(super) block: usize,
    pub(super) has_signs: bool,
    /// From tiled to grouped heads.
    pub(super) heads: Option<FoldHeads>,
}

pub(super) struct LayerWeights {
    pub(super) attn_norm: Buffer<f32>,
    pub(super) mixer: Mixer,
    pub(super) post_attention_norm: Buffer<f32>,
    pub(super) ffn_gate: Weight,
    pub(super) ffn_up: Weight,
    pub(super) ffn_down: Weight,
}

pub(super) enum Mixer {
    Attention(Box<AttentionWeights>),
    DeltaNet(Box<DeltaNetWeights>),
}

pub(super) struct AttentionWeights {
    pub(super) q: Weight,
    pub(super) k: Weight,
    pub(super) v: Weight,
    pub(super) q_norm: Buffer<f32>,
    pub(super) k_norm: Buffer<f32>,
    pub(super) output: Weight,
}

pub(super) struct DeltaNetWeights {
    pub(super) qkv: Weight,
    pub(super) gate: Weight,
    pub(super) alpha: Weight,
    pub(super) beta: Weight,
    /// `[channels, d_conv]`
    pub(super) conv1d: Buffer<f32>,
    pub(super) dt: Buffer<f32>,
    pub(super) a: Buffer<f32>,
    pub(super) norm: Buffer<f32>,
    pub(super) out: Weight,
}

impl Weights {
    /// Copies all weights to the device.
    ///
    /// # Errors
    /// If a weight is missing or of a type without kernels, or there is too little memory.
    pub(super) fn upload(
        device: &Device,
        model: &Model,
        stand_in: StandIn<'_>,
        progress: UploadProgress<'_>,
    ) -> Result<Weights, EngineError> {
        let h = model.hparams();
        let staging = Staging::new(device)?;
        let mut up = Uploader { device, staging, model, done: 0, of: bytes(model), stand_in, progress };
        let token_embd = up.weight("token_embd.weight")?;
        let mut layers = Vec::with_capacity(h.layers.len());
        for (il, kind) in h.layers.iter().enumerate() {
            let name = |name: &str| format!("blk.{il}.{name}");
            let mixer = match kind {
                LayerKind::Attention => Mixer::Attention(Box::new(AttentionWeights {
                    q: up.weight(&name("attn_q.weight"))?,
                    k: up.weight(&name("attn_k.weight"))?,
                    v: up.weight(&name("attn_v.weight"))?,
                    q_norm: up.vector(&name("attn_q_norm.weight"))?,
                    k_norm: up.vector(&name("attn_k_norm.weight"))?,
                    output: up.weight(&name("attn_output.weight"))?,
                })),
                LayerKind::DeltaNet => Mixer::DeltaNet(Box::new(DeltaNetWeights {
                    qkv: up.weight(&name("attn_qkv.weight"))?,
                    gate: up.weight(&name("attn_gate.weight"))?,
                    alpha: up.weight(&name("ssm_alpha.weight"))?,
                    beta: up.weight(&name("ssm_beta.weight"))?,
                    conv1d: up.vector(&name("ssm_conv1d.weight"))?,
                    dt: up.vector(&name("ssm_dt.bias"))?,
                    a: up.vector(&name("ssm_a"))?,
                    norm: up.vector(&name("ssm_norm.weight"))?,
                    out: up.weight(&name("ssm_out.weight"))?,
                })),
            };
            layers.push(LayerWeights {
                attn_norm: up.vector(&name("attn_norm.weight"))?,
                mixer,
                post_attention_norm: up.vector(&name("post_attention_norm.weight"))?,
                ffn_gate: up.weight(&name("ffn_gate.weight"))?,
                ffn_up: up.weight(&name("ffn_up.weight"))?,
                ffn_down: up.weight(&name("ffn_down.weight"))?,
            });
        }
        let output = match model.has_tied_embeddings() {
            true => None,
            false => Some(up.weight(model.output_name())?),
        };
        let output_norm = up.vector("output_norm.weight")?;
        let mut signs = BTreeMap::new();
        for (name, width) in folded(model) {
            let Some(of) = model.fold().and_then(|fold| fold.transform(name, width)?.signs) else { continue };
            if let Entry::Vacant(entry) = signs.entry(width) {
                entry.insert(device.upload(of)?);
            }
        }
        Ok(Weights { token_embd, output_norm, output, layers, signs })
    }

    /// What the output head multiplies with.
    pub(super) fn output(&self) -> &Weight {
        self.output.as_ref().unwrap_or(&self.token_embd)
    }

    /// A transform of rows of one width as launchers take it.
    pub(super) fn fold_params(&self, fold: &Fold, width: usize) -> FoldParams<'_> {
        let signs = if fold.has_signs { self.signs.get(&width) } else { None };
        FoldParams { block: fold.block, normalize: true, signs: signs.map(Buffer::all), heads: fold.heads }
    }
}

/// Every weight of the fold contract, with its width.
fn folded(model: &Model) -> impl Iterator<Item = (&str, usize)> {
    let fold = model.fold();
    let names =
        fold.map(|fold| fold.forward_names().iter().chain(fold.inverse_names())).into_iter().flatten();
    names.filter_map(|name| Some((name.as_str(), model.gguf().tensor(name)?.info.ne[0] as usize)))
}

/// Bytes of all tensors that are uploaded.
pub(super) fn bytes(model: &Model) -> u64 {
    let names = crate::model::expected_tensors(model.hparams(), model.has_tied_embeddings());
    names
        .iter()
        .filter_map(|shape| model.gguf().tensor(&shape.name))
        .map(|tensor| tensor.data.len() as u64)
        .sum()
}

/// How heads are rotated.
pub(super) fn rope(h: &Hparams) -> Rope {
    Rope {
        n_dims: h.n_rot,
        freq_base: f64::from(h.rope_freq_base),
        sections: h.rope_sections,
        layout: RopeSections::Interleaved,
        pairing: RopePairing::Half,
    }
}

struct Uploader<'a, 'p> {
    device: &'a Device,
    staging: Staging,
    model: &'a Model,
    done: u64,
    of: u64,
    stand_in: StandIn<'p>,
    progress: UploadProgress<'p>,
}

impl Uploader<'_, '_> {
    fn weight(&mut self, name: &str) -> Result<Weight, EngineError> {
        let missing = || ModelError::MissingTensor { name: name.to_owned() };
        let tensor = self.model.gguf().tensor(name).ok_or_else(missing)?;
        let [n_in, n_out, ..] = tensor.info.ne.map(|n| n as usize);
        let other = (self.stand_in)(name, tensor.info.ty, tensor.info.ne);
        let bytes = other.as_deref().unwrap_or(tensor.data);
        let scale = self.model.scale(name)?;
        let ty = tensor.info.ty;
        let mut matrix = Matrix::alloc(self.device, ty, bytes.len(), n_in, n_out, scale)?;
        self.staging.write(matrix.bytes_mut(), bytes)?;
        self.count(tensor.data.len());
        let fold = self.model.fold().and_then(|fold| fold.transform(name, n_in));
        let role = self.model.fold().and_then(|fold| fold.role(name));
        Ok(Weight { name: name.to_owned(), matrix, fold: fold.map(|fold| self.fold(&fold)), role })
    }

    fn fold(&self, transform: &Transform<'_>) -> Fold {
        let h = self.model.hparams();
        let heads = FoldHeads { n_k: h.ssm_n_group, rep: h.ssm_rep(), head_dim: h.ssm_d_state };
        Fold {
            block: transform.block,
            has_signs: transform.signs.is_some(),
            heads: transform.permutation.as_ref().map(|_| heads),
        }
    }

    fn vector(&mut self, name: &str) -> Result<Buffer<f32>, EngineError> {
        let missing = || ModelError::MissingTensor { name: name.to_owned() };
        let tensor = self.model.gguf().tensor(name).ok_or_else(missing)?;
        let values = match (self.stand_in)(name, tensor.info.ty, tensor.info.ne) {
            None => self.model.vector(name)?,
            Some(bytes) => {
                let mut values = vec![0.0; tensor.info.ne.iter().product::<u64>() as usize];
                quant::decode(tensor.info.ty, &bytes, &mut values).map_err(GpuError::from)?;
                values
            }
        };
        self.count(tensor.data.len());
        Ok(self.device.upload(&values)?)
    }

    fn count(&mut self, bytes: usize) {
        self.done += bytes as u64;
        (self.progress)(self.done, self.of);
    }
}

impl From<GpuError> for EngineError {
    fn from(cause: GpuError) -> EngineError {
        EngineError::Gpu(Box::new(cause))
    }
}
