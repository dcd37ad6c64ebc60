//! What a sequence leaves behind: keys and values, convolution columns, delta-net states.

use ndarray::{Array2, Array3, s};

use crate::model::{Hparams, LayerKind};
use crate::ops::Real;

/// llama.cpp rounds the number of cells that attention reads up to this (`llama_kv_cache::get_n_kv`); the cells beyond
/// the tokens hold zeros and are masked. It matters for the shapes of `kq` and `kq_soft_max` only.
const KV_CELLS: usize = 256;

/// The state of one sequence.
pub(super) struct State<T> {
    /// Tokens run so far.
    pub(super) n_past: usize,
    pub(super) layers: Vec<LayerState<T>>,
}

pub(super) enum LayerState<T> {
    Attention(KvCache<T>),
    DeltaNet(DeltaNetState<T>),
}

/// Keys after rotation and values, a row per cell.
pub(super) struct KvCache<T> {
    pub(super) k: Array2<T>, // [n_kv, n_head_kv * head_dim]
    pub(super) v: Array2<T>, // [n_kv, n_head_kv * head_dim]
}

pub(super) struct DeltaNetState<T> {
    /// The last columns of the convolution's input, before the convolution.
    pub(super) conv: Array2<T>, // [channels, d_conv - 1]
    /// The recurrent state, v-major.
    pub(super) s: Array3<T>, // [n_v, d_v, d_k]
}

impl<T: Real> State<T> {
    pub(super) fn new(hparams: &Hparams) -> State<T> {
        let h = hparams;
        let layer = |kind: &LayerKind| match kind {
            LayerKind::Attention => {
                let empty = Array2::from_elem((0, h.n_embd_kv()), T::ZERO);
                LayerState::Attention(KvCache { k: empty.clone(), v: empty })
            }
            LayerKind::DeltaNet => LayerState::DeltaNet(DeltaNetState {
                conv: Array2::from_elem((h.conv_channels(), h.ssm_d_conv - 1), T::ZERO),
                s: Array3::from_elem((h.ssm_dt_rank, h.ssm_d_state, h.ssm_d_state), T::ZERO),
            }),
        };
        State { n_past: 0, layers: h.layers.iter().map(layer).collect() }
    }

    /// Makes room for `n_tokens` in every cache, as many cells as llama.cpp reads.
    pub(super) fn reserve(&mut self, n_tokens: usize, n_ctx: usize, hparams: &Hparams) {
        let n_kv = n_tokens.next_multiple_of(KV_CELLS).min(n_ctx.max(n_tokens));
        for layer in &mut self.layers {
            let LayerState::Attention(cache) = layer else { continue };
            for rows in [&mut cache.k, &mut cache.v] {
                if rows.nrows() < n_kv {
                    let mut grown = Array2::from_elem((n_kv, hparams.n_embd_kv()), T::ZERO);
                    grown.slice_mut(s![..rows.nrows(), ..]).assign(rows);
                    *rows = grown;
                }
            }
        }
    }
}
