//! Launches of kernels/gated_delta_net.cu.

use super::super::{Arg, Device, GpuError, Grid, Part, PartMut};
use crate::engine::HeadMap;

const THREADS: usize = 128;

/// Heads of all tokens: head h of token t begins at `t stride + h d`.
#[derive(Clone, Copy)]
pub struct DeltaHeads<'a> {
    /// From the first head of the first token on.
    pub values: Part<'a, f32>,
    /// From one token to the next, in values; a multiple of 4.
    pub stride: usize,
}

impl DeltaHeads<'_> {
    pub(super) fn check(&self, what: &str, n_tokens: usize, width: usize) {
        let needed = (n_tokens - 1) * self.stride + width;
        assert!(self.values.len() >= needed && self.stride >= width, "{what}: too few values");
        assert!(
            self.values.is_aligned(16) && self.stride.is_multiple_of(4),
            "{what}: not aligned to 16 bytes"
        );
    }
}

/// What the recurrence runs over: sequences side by side, each with as many tokens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeltaShape {
    /// Sequences.
    pub n_seqs: usize,
    /// Tokens of each.
    pub n_tokens: usize,
    /// Heads of q and k.
    pub n_k: usize,
    /// Heads of v, a multiple of `n_k`.
    pub n_v: usize,
    /// Elements of a head: 8, 16, 32, 64 or 128.
    pub d: usize,
    /// Which k head a v head reads.
    pub head_map: HeadMap,
    /// What is read is multiplied by this.
    pub scale: f32,
}

impl DeltaShape {
    /// Values of one state: `[n_v, d, d]`.
    pub fn n_state(&self) -> usize {
        self.n_v * self.d * self.d
    }

    pub(super) fn check(&self, o: usize, states: &PartMut<'_, f32>, gates: [usize; 2], slots: usize) {
        let n_tokens = self.n_seqs * self.n_tokens;
        assert!(n_tokens > 0, "nothing to run: {self:?}");
        assert!(
            self.n_k > 0 && self.n_v.is_multiple_of(self.n_k),
            "{} v heads, {} k heads",
            self.n_v,
            self.n_k
        );
        assert_eq!(o, n_tokens * self.n_v * self.d, "o");
        assert_eq!(gates, [n_tokens * self.n_v; 2], "gate and beta");
        assert_eq!(slots, self.n_seqs, "a slot for each sequence");
        let n_state = self.n_state();
        assert!(states.len() >= n_state && states.len().is_multiple_of(n_state), "states of {self:?}");
        assert!(states.is_aligned(16), "states: not aligned to 16 bytes");
    }

    /// Arguments of a kernel that runs over all tokens, checked.
    pub(super) fn args(
        &self,
        o: PartMut<'_, f32>,
        states: PartMut<'_, f32>,
        [q, k, v]: [DeltaHeads<'_>; 3],
        [gate, beta]: [Part<'_, f32>; 2],
        slots: Part<'_, i32>,
    ) -> Vec<Arg> {
        let &DeltaShape { n_seqs, n_tokens, n_k, n_v, d, scale, .. } = self;
        self.check(o.len(), &states, [gate.len(), beta.len()], slots.len());
        q.check("q", n_seqs * n_tokens, n_k * d);
        k.check("k", n_seqs * n_tokens, n_k * d);
        v.check("v", n_seqs * n_tokens, n_v * d);
        let buffers = [o.into(), states.into(), q.values.into(), k.values.into(), v.values.into()];
        let more = [gate.into(), beta.into(), slots.into()];
        let sizes = [n_tokens, n_k, n_v, q.stride, k.stride, v.stride].map(Into::into);
        [&buffers[..], &more, &sizes, &[self.is_blocked().into(), scale.into()]].concat()
    }

    pub(super) fn is_blocked(&self) -> i32 {
        i32::from(self.head_map == HeadMap::Blocked)
    }
}

/// Moves the states `[n_slots, n_v, d, d]` in the slots of the sequences on over all tokens and puts what is read into `o`
/// `[n_seqs, n_tokens, n_v, d]`. q and k have `n_k` heads, v has `n_v`; `gate` (the log decay) and `beta` are
/// `[n_seqs, n_tokens, n_v]`.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or there is no kernel for `d`.
#[allow(clippy::too_many_arguments)] // the operator has eight tensors
pub fn gated_delta_net(
    device: &Device,
    o: PartMut<'_, f32>,
    states: PartMut<'_, f32>,
    [q, k, v]: [DeltaHeads<'_>; 3],
    gate: Part<'_, f32>,
    beta: Part<'_, f32>,
    slots: Part<'_, i32>,
    shape: &DeltaShape,
) -> Result<(), GpuError> {
    let (kernel, lanes) = match shape.d {
        8 => ("gated_delta_net_d8_f32", 4),
        16 => ("gated_delta_net_d16_f32", 4),
        32 => ("gated_delta_net_d32_f32", 8),
        64 => ("gated_delta_net_d64_f32", 8),
        128 => ("gated_delta_net_d128_f32", 8),
        d => panic!("no kernel for heads of {d}"),
    };
    let blocks = [shape.d.div_ceil(THREADS / lanes), shape.n_v, shape.n_seqs];
    let args = shape.args(o, states, [q, k, v], [gate, beta], slots);
    device.launch(kernel, Grid::new_3d(blocks, THREADS), &args)
}
