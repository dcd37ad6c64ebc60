//! The state of an engine as a value.

use std::collections::BTreeMap;

use ndarray::{Array2, Array3};

use super::EngineError;
use crate::model::{Hparams, LayerKind};

/// What all sequences of an engine hold. Values are in f64, which holds what an engine of either arithmetic has exactly.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// By sequence.
    pub sequences: BTreeMap<i32, SequenceSnapshot>,
}

/// What one sequence holds.
#[derive(Clone, PartialEq, Debug)]
pub struct SequenceSnapshot {
    /// Tokens run so far.
    pub n_past: usize,
    /// By layer.
    pub layers: Vec<LayerSnapshot>,
}

/// What one layer holds of a sequence.
#[derive(Clone, PartialEq, Debug)]
pub enum LayerSnapshot {
    /// Keys after their rotation, and values, a row per position: `[n_past, n_embd_kv]`.
    Attention {
        /// Keys.
        k: Array2<f64>,
        /// Values.
        v: Array2<f64>,
    },
    /// States of the delta net.
    DeltaNet {
        /// The last columns of the convolution's input, oldest first: `[channels, d_conv - 1]`.
        conv: Array2<f64>,
        /// The recurrent state, v-major: `[n_v, d_v, d_k]`.
        s: Array3<f64>,
    },
}

impl SequenceSnapshot {
    /// Whether the layers are those of the model, in kind and shape.
    pub(super) fn check(&self, h: &Hparams, sequence: i32) -> Result<(), EngineError> {
        let unlike = |what| Err(EngineError::OtherSnapshot { what });
        if self.layers.len() != h.layers.len() {
            return unlike(format!("{} layers, expected {}", self.layers.len(), h.layers.len()));
        }
        let kv = vec![self.n_past, h.n_embd_kv()];
        let conv = vec![h.conv_channels(), h.ssm_d_conv - 1];
        let s = vec![h.ssm_dt_rank, h.ssm_d_state, h.ssm_d_state];
        for (il, (kind, layer)) in h.layers.iter().zip(&self.layers).enumerate() {
            let (got, expected) = match (kind, layer) {
                (LayerKind::Attention, LayerSnapshot::Attention { k, v }) => {
                    ([k.shape().to_vec(), v.shape().to_vec()], [kv.clone(), kv.clone()])
                }
                (LayerKind::DeltaNet, LayerSnapshot::DeltaNet { conv: own, s: own_s }) => {
                    ([own.shape().to_vec(), own_s.shape().to_vec()], [conv.clone(), s.clone()])
                }
                _ => return unlike(format!("layer {il} of sequence {sequence} is of another kind")),
            };
            if got != expected {
                return unlike(format!(
                    "layer {il} of sequence {sequence} has {got:?}, expected {expected:?}"
                ));
            }
        }
        Ok(())
    }
}
