//! What a model and its sequences take of a device's memory.

use std::fmt;

use super::weights::{GpuModel, bytes};
use super::{Device, GpuError};
use crate::model::{Hparams, LayerKind, Model};
use crate::tensor::GgmlType;

/// Bytes of device memory, by what they are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryPlan {
    /// All weights, as the file holds them.
    pub weights: u64,
    /// Keys and values of one token in all layers.
    pub kv_of_token: u64,
    /// Tokens that a stream has room for.
    pub n_ctx: usize,
    /// States of the delta nets of one sequence, and the columns of their convolutions twice.
    pub state_of_sequence: u64,
    /// Activations of a ubatch of [`MemoryPlan::UBATCH`] tokens with logits for one.
    pub scratch: u64,
    /// Angles of the rotation.
    pub rope: u64,
}

impl MemoryPlan {
    /// Tokens that [`MemoryPlan::scratch`] is for: llama.cpp's default ubatch.
    pub const UBATCH: usize = 512;

    /// What a model takes with caches of these types.
    pub fn new(model: &Model, (type_k, type_v): (GgmlType, GgmlType), n_ctx: usize) -> MemoryPlan {
        let h = model.hparams();
        let (attention, delta) = (h.count(LayerKind::Attention), h.count(LayerKind::DeltaNet));
        let row = |ty: GgmlType| ty.row_bytes(h.n_embd_kv() as u64).unwrap_or_default();
        let conv = 2 * h.conv_channels() * (h.ssm_d_conv - 1);
        let state = h.ssm_dt_rank * h.ssm_d_state * h.ssm_d_state;
        MemoryPlan {
            weights: bytes(model),
            kv_of_token: attention as u64 * (row(type_k) + row(type_v)),
            n_ctx,
            state_of_sequence: f32_bytes(delta * (conv + state)),
            scratch: f32_bytes(MemoryPlan::UBATCH * scratch_of_token(h) + h.n_vocab),
            rope: f32_bytes(n_ctx * h.n_rot),
        }
    }

    /// What one sequence takes beside the weights.
    pub fn sequence(&self) -> u64 {
        self.kv_of_token * self.n_ctx as u64 + self.state_of_sequence
    }

    /// Checks that the weights fit.
    ///
    /// # Errors
    /// If they do not, or the driver fails.
    pub(super) fn check_weights(&self, device: &Device) -> Result<(), GpuError> {
        self.check(device, self.weights)
    }

    /// Checks that one sequence fits beside the weights, which are there already.
    ///
    /// # Errors
    /// If it does not, or the driver fails.
    pub(super) fn check_sequence(&self, device: &Device) -> Result<(), GpuError> {
        self.check(device, self.sequence() + self.rope + self.scratch)
    }

    fn check(&self, device: &Device, needed: u64) -> Result<(), GpuError> {
        let (free, total) = device.memory()?;
        if needed <= free as u64 {
            return Ok(());
        }
        Err(GpuError::DoesNotFit { plan: *self, needed, free, total })
    }
}

/// Elements that the tensors between two of the residual stream have for one token, in both kinds of layers.
fn scratch_of_token(h: &Hparams) -> usize {
    let mixer = 2 * h.conv_channels() + 3 * h.ssm_d_inner + 2 * h.ssm_d_key() + 4 * h.ssm_dt_rank;
    let attention = 5 * h.n_embd_q() + 2 * h.n_embd_kv();
    6 * h.n_embd + mixer + attention + 4 * h.n_ff
}

fn f32_bytes(n: usize) -> u64 {
    (n * size_of::<f32>()) as u64
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "weights {}, keys and values {} for 1,000 tokens ({} for n_ctx {}), recurrent states {} a sequence, scratch {} for a ubatch of {}",
            Size(self.weights),
            Size(self.kv_of_token * 1000),
            Size(self.kv_of_token * self.n_ctx as u64),
            self.n_ctx,
            Size(self.state_of_sequence),
            Size(self.scratch),
            MemoryPlan::UBATCH,
        )
    }
}

/// A number of bytes in decimal units, as disks and GPUs are labelled.
pub(super) struct Size(pub(super) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{x} B"),
            1_000..1_000_000 => write!(f, "{:.1} kB", x / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", x / 1e6),
            _ => write!(f, "{:.2} GB", x / 1e9),
        }
    }
}

impl GpuModel<'_> {
    /// What the model takes of its device's memory with caches of these types.
    pub fn plan(&self, types: (GgmlType, GgmlType), n_ctx: usize) -> MemoryPlan {
        MemoryPlan::new(self.model, types, n_ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let of = |bytes| Size(bytes).to_string();
        assert_eq!(
            [of(999), of(65_536), of(302_000_000), of(7_206_168_928)],
            ["999 B", "65.5 kB", "302.0 MB", "7.21 GB"]
        );
    }
}
