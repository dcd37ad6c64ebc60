//! kernels/gated_delta_net.cu.

use std::ops::Range;

use lockstep::engine::HeadMap;
use lockstep::engine::gpu::launch::{self, DeltaHeads, DeltaShape};
use lockstep::engine::gpu::{Device, GpuError, Part, PartMut};
use lockstep::ops::{DecayOrder, DeltaGates, DeltaRule, Number, Tracked, gated_delta_net};
use ndarray::{ArrayView2, ArrayView3, ArrayViewMut3, s};

use crate::support::{assert_rounded, assert_same_bits, given, in_every_order, values};

const N_SLOTS: usize = 4;

/// Slots of up to three sequences, in no order.
pub(crate) const SLOTS: [i32; 3] = [2, 0, 3];

/// A launcher of the recurrence.
pub(crate) type Launcher = fn(
    &Device,
    PartMut<'_, f32>,
    PartMut<'_, f32>,
    [DeltaHeads<'_>; 3],
    Part<'_, f32>,
    Part<'_, f32>,
    Part<'_, i32>,
    &DeltaShape,
) -> Result<(), GpuError>;

/// Inputs of the recurrence; q, k and v lie side by side in each token, as the convolution leaves them.
pub(crate) struct Case {
    pub(crate) shape: DeltaShape,
    pub(crate) states: Vec<f32>, // [N_SLOTS, n_v, d, d]
    pub(crate) qkv: Vec<f32>,    // [n_seqs n_tokens, (2 n_k + n_v) d]
    pub(crate) gate: Vec<f32>,
    pub(crate) beta: Vec<f32>,
}

impl Case {
    /// Keys and queries of length 1, log decays between -`strongest` and -1e-4.
    pub(crate) fn new(shape: DeltaShape, strongest: f32) -> Case {
        let DeltaShape { n_seqs, n_tokens, n_k, n_v, d, .. } = shape;
        let n_rows = n_seqs * n_tokens;
        let mut qkv = values(n_rows * (2 * n_k + n_v) * d, 1);
        for token in qkv.chunks_mut((2 * n_k + n_v) * d) {
            for head in token[..2 * n_k * d].chunks_mut(d) {
                let norm = head.iter().map(|x| x * x).sum::<f32>().sqrt();
                head.iter_mut().for_each(|x| *x /= norm);
            }
        }
        let unit = |seed| values(n_rows * n_v, seed).into_iter().map(|x| x.mul_add(0.5, 0.5));
        Case {
            shape,
            states: values(N_SLOTS * shape.n_state(), 2),
            qkv,
            gate: unit(3).map(|x| -1e-4 - x * (strongest - 1e-4)).collect(),
            beta: unit(4).collect(),
        }
    }

    /// Some of the tokens of its only sequence, from other states on.
    pub(crate) fn part(&self, tokens: Range<usize>, states: Vec<f32>) -> Case {
        assert_eq!(self.shape.n_seqs, 1);
        let of = |x: &[f32], width: usize| x[tokens.start * width..tokens.end * width].to_vec();
        Case {
            shape: DeltaShape { n_tokens: tokens.len(), ..self.shape },
            states,
            qkv: of(&self.qkv, self.stride()),
            gate: of(&self.gate, self.shape.n_v),
            beta: of(&self.beta, self.shape.n_v),
        }
    }

    pub(crate) fn stride(&self) -> usize {
        (2 * self.shape.n_k + self.shape.n_v) * self.shape.d
    }

    /// What is read, and the states behind all tokens, computed in numbers of any type.
    pub(crate) fn exact<T: Number>(&self, of: impl Fn(f32) -> T + Copy) -> (Vec<T>, Vec<T>) {
        let DeltaShape { n_seqs, n_tokens, n_k, n_v, d, head_map, scale } = self.shape;
        let all = |values: &[f32]| values.iter().map(|&x| of(x)).collect::<Vec<T>>();
        let (qkv, gate, beta) = (all(&self.qkv), all(&self.gate), all(&self.beta));
        let mut states = all(&self.states);
        let mut o = Vec::new();
        for seq in 0..n_seqs {
            let rows = seq * n_tokens..(seq + 1) * n_tokens;
            let tokens = &qkv[rows.start * self.stride()..rows.end * self.stride()];
            let tokens = ArrayView3::from_shape((n_tokens, 2 * n_k + n_v, d), tokens).unwrap();
            let gates = |x: &'_ [T]| x[rows.start * n_v..rows.end * n_v].to_vec();
            let (gate, beta) = (gates(&gate), gates(&beta));
            let state = &mut states[SLOTS[seq] as usize * self.shape.n_state()..][..self.shape.n_state()];
            let out = gated_delta_net(
                tokens.slice(s![.., ..n_k, ..]),
                tokens.slice(s![.., n_k..2 * n_k, ..]),
                tokens.slice(s![.., 2 * n_k.., ..]),
                DeltaGates {
                    log_decay: ArrayView2::from_shape((n_tokens, n_v), &gate).unwrap(),
                    beta: ArrayView2::from_shape((n_tokens, n_v), &beta).unwrap(),
                },
                ArrayViewMut3::from_shape((n_v, d, d), state).unwrap(),
                |h| if head_map == HeadMap::Blocked { h / (n_v / n_k) } else { h % n_k },
                of(scale),
                (DeltaRule::Delta, DecayOrder::BeforePrediction),
            );
            o.extend(out);
        }
        (o, states)
    }

    /// What a launcher of the recurrence reads and leaves.
    pub(crate) fn run(&self, device: &Device, launch: Launcher) -> (Vec<f32>, Vec<f32>) {
        let DeltaShape { n_seqs, n_k, d, .. } = self.shape;
        let mut states = device.upload(&self.states).unwrap();
        let qkv = device.upload(&self.qkv).unwrap();
        let (gate, beta) = (device.upload(&self.gate).unwrap(), device.upload(&self.beta).unwrap());
        let slots = device.upload(&SLOTS[..n_seqs]).unwrap();
        let mut o = device.alloc(self.gate.len() * d).unwrap();
        let (stride, end) = (self.stride(), self.qkv.len());
        let [q, k, v] = [0, n_k * d, 2 * n_k * d].map(|at| DeltaHeads { values: qkv.part(at..end), stride });
        launch(
            device,
            o.all_mut(),
            states.all_mut(),
            [q, k, v],
            gate.all(),
            beta.all(),
            slots.all(),
            &self.shape,
        )
        .unwrap();
        (device.read(o.all()).unwrap(), device.read(states.all()).unwrap())
    }
}

pub(crate) fn shape(n_seqs: usize, n_tokens: usize, (n_k, n_v): (usize, usize), d: usize) -> DeltaShape {
    let scale = 1.0 / (d as f32).sqrt();
    DeltaShape { n_seqs, n_tokens, n_k, n_v, d, head_map: HeadMap::Interleaved, scale }
}

fn check(device: &Device, case: &Case) {
    let what = format!("gated_delta_net: {:?}", case.shape);
    let (o, states) = case.run(device, launch::gated_delta_net);
    let (exact_o, exact_states) = case.exact(|x| given(&[x])[0]);
    assert_rounded(&format!("{what}, o"), &o, &exact_o);
    assert_rounded(&format!("{what}, states"), &states, &exact_states);
}

#[test]
fn heads_of_every_size() {
    in_every_order(|device| {
        for d in [8, 16, 32, 64] {
            for strongest in [1.0, 20.0] {
                check(device, &Case::new(shape(2, 3, (1, 3), d), strongest));
            }
        }
        check(device, &Case::new(shape(1, 2, (1, 1), 128), 1.0));
    });
}

#[test]
fn any_number_of_tokens_and_sequences() {
    in_every_order(|device| {
        for (n_seqs, n_tokens) in [(1, 1), (3, 2), (1, 31), (2, 33), (1, 65)] {
            check(device, &Case::new(shape(n_seqs, n_tokens, (2, 4), 8), 1.0));
        }
    });
}

#[test]
fn k_heads_may_be_shared_by_neighbours() {
    in_every_order(|device| {
        let blocked = DeltaShape { head_map: HeadMap::Blocked, ..shape(2, 3, (2, 6), 16) };
        check(device, &Case::new(blocked, 1.0));
    });
}

/// A launch over many tokens and launches over a few each leave the same bits: what is kept in registers is what is stored.
#[test]
fn tokens_may_come_in_several_launches() {
    in_every_order(|device| {
        let whole = Case::new(shape(1, 5, (1, 2), 32), 1.0);
        let (o, states) = whole.run(device, launch::gated_delta_net);
        let (mut parts, mut left) = (Vec::new(), whole.states.clone());
        for tokens in [0..2usize, 2..5] {
            let part = whole.part(tokens, left);
            let (o, states) = part.run(device, launch::gated_delta_net);
            parts.extend(o);
            left = states;
        }
        assert_same_bits("gated_delta_net: o", &parts, &o);
        assert_same_bits("gated_delta_net: states", &left, &states);
    });
}

#[test]
#[should_panic(expected = "no kernel for heads of 24")]
fn heads_of_another_size_are_refused() {
    in_every_order(|device| check(device, &Case::new(shape(1, 1, (1, 1), 24), 1.0)));
}

/// The oracle's limits tell a state that decays too late from one that does not.
#[test]
fn a_wrong_recurrence_is_over_the_limits() {
    let case = Case::new(shape(1, 2, (1, 1), 8), 1.0);
    let (exact, _): (Vec<Tracked>, _) = case.exact(|x| given(&[x])[0]);
    let mut other = Case::new(case.shape, 1.0);
    other.gate[1] *= 0.999;
    let (o, _) = other.exact(|x| x);
    assert!(std::panic::catch_unwind(|| assert_rounded("another decay", &o, &exact)).is_err());
}
