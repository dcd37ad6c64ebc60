//! The state of an engine as a value.

use std::collections::BTreeMap;

use ndarray::{Array2, Array3};

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
