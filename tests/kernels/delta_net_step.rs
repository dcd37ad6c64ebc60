//! kernels/delta_net_step.cu.

use lockstep::engine::HeadMap;
use lockstep::engine::gpu::Device;
use lockstep::engine::gpu::launch::{
    self, ConvShape, DeltaHeads, DeltaShape, GateInputs, HeadNorm, Heads, StepInputs, StepStates,
};

use crate::support::{assert_same_bits, in_every_order, values};

const N_SLOTS: usize = 6;
const SLOTS: [i32; 3] = [2, 0, 4];
/// Columns are read here and left there.
const FROM: [i32; 3] = [1, 3, 0];
const TO: [i32; 3] = [5, 2, 4];

struct Case {
    shape: DeltaShape,
    d_conv: usize,
    norm: HeadNorm,
}

/// What is read, the states, and the columns left behind.
type Outcome = [Vec<f32>; 3];

impl Case {
    fn channels(&self) -> usize {
        (2 * self.shape.n_k + self.shape.n_v) * self.shape.d
    }

    fn conv(&self) -> ConvShape {
        let n_seqs = self.shape.n_seqs;
        ConvShape { n_seqs, n_tokens: 1, channels: self.channels(), d_conv: self.d_conv }
    }

    /// One launch, or one for each operator.
    fn run(&self, device: &Device, is_fused: bool) -> Outcome {
        let shape = &self.shape;
        let &DeltaShape { n_seqs, n_k, n_v, d, .. } = shape;
        let new = |n: usize, seed: u64| device.upload(&values(n, seed)).unwrap();
        let (qkv, kernel) = (new(n_seqs * self.channels(), 1), new(self.channels() * self.d_conv, 2));
        let (alpha, raw_beta) = (new(n_seqs * n_v, 3), new(n_seqs * n_v, 4));
        let dt = device.upload(&values(n_v, 5).iter().map(|x| x * 30.0).collect::<Vec<_>>()).unwrap();
        let a = device.upload(&values(n_v, 6).iter().map(|x| -x.abs()).collect::<Vec<_>>()).unwrap();
        let mut states = new(N_SLOTS * shape.n_state(), 7);
        let mut conv = new(N_SLOTS * self.conv().n_state(), 8);
        let [slots, from, to] = [SLOTS, FROM, TO].map(|slots| device.upload(&slots[..n_seqs]).unwrap());
        let mut o = device.alloc(n_seqs * n_v * d).unwrap();
        if is_fused {
            let inputs = StepInputs {
                qkv: qkv.all(),
                kernel: kernel.all(),
                alpha: alpha.all(),
                beta: raw_beta.all(),
                dt: dt.all(),
                a: a.all(),
            };
            let moved = StepStates {
                states: states.all_mut(),
                slots: slots.all(),
                conv: conv.all_mut(),
                from: from.all(),
                to: to.all(),
            };
            launch::delta_net_step(device, o.all_mut(), moved, &inputs, self.norm, shape).unwrap();
        } else {
            let mut y = device.alloc(qkv.len()).unwrap();
            let (left, end) = (conv.all_mut(), qkv.len());
            let convolution = self.conv();
            let (from, to) = (from.all(), to.all());
            launch::ssm_conv_silu(device, y.all_mut(), left, from, to, qkv.all(), kernel.all(), &convolution)
                .unwrap();
            let heads = Heads { tokens: n_seqs, per_token: n_k, n: d, stride: self.channels() };
            let [q, k] = [0, n_k * d].map(|at| {
                let mut normed = device.alloc(n_seqs * n_k * d).unwrap();
                let x = y.part(at..end);
                match self.norm {
                    HeadNorm::Inside(eps) => launch::l2_norm_inside(device, normed.all_mut(), x, heads, eps),
                    HeadNorm::Max(eps) => launch::l2_norm(device, normed.all_mut(), x, heads, eps),
                }
                .unwrap();
                normed
            });
            let [mut gate, mut beta] = [0; 2].map(|_| device.alloc(n_seqs * n_v).unwrap());
            let inputs = GateInputs { alpha: alpha.all(), beta: raw_beta.all(), dt: dt.all(), a: a.all() };
            launch::gates(device, gate.all_mut(), beta.all_mut(), inputs).unwrap();
            let [q, k] = [&q, &k].map(|normed| DeltaHeads { values: normed.all(), stride: n_k * d });
            let v = DeltaHeads { values: y.part(2 * n_k * d..end), stride: self.channels() };
            let (to, moved) = (o.all_mut(), states.all_mut());
            let (gate, beta) = (gate.all(), beta.all());
            launch::gated_delta_net(device, to, moved, [q, k, v], gate, beta, slots.all(), shape).unwrap();
        }
        [&o, &states, &conv].map(|buffer| device.read(buffer.all()).unwrap())
    }

    fn check(&self, device: &Device) {
        let what = format!("{:?} {} {:?}", self.shape, self.d_conv, self.norm);
        let [fused, apart] = [true, false].map(|is_fused| self.run(device, is_fused));
        for (name, (fused, apart)) in ["o", "states", "columns"].iter().zip(fused.iter().zip(&apart)) {
            assert_same_bits(&format!("{name} of {what}"), fused, apart);
        }
    }
}

fn shape(n_seqs: usize, (n_k, n_v): (usize, usize), d: usize, head_map: HeadMap) -> DeltaShape {
    DeltaShape { n_seqs, n_tokens: 1, n_k, n_v, d, head_map, scale: 1.0 / (d as f32).sqrt() }
}

#[test]
fn one_launch_has_the_bits_of_all_operators() {
    in_every_order(|device| {
        for (n_seqs, heads, d) in
            [(3, (2, 4), 8), (1, (1, 3), 16), (2, (1, 2), 32), (1, (2, 2), 64), (1, (1, 2), 128)]
        {
            for (head_map, norm) in
                [(HeadMap::Interleaved, HeadNorm::Inside(1e-6)), (HeadMap::Blocked, HeadNorm::Max(1e-6))]
            {
                Case { shape: shape(n_seqs, heads, d, head_map), d_conv: 4, norm }.check(device);
            }
        }
    });
}

#[test]
fn kernels_of_every_width() {
    in_every_order(|device| {
        for d_conv in [2, 3, 8] {
            let shape = shape(2, (1, 2), 8, HeadMap::Interleaved);
            Case { shape, d_conv, norm: HeadNorm::Inside(1e-6) }.check(device);
        }
    });
}

#[test]
#[should_panic(expected = "tokens of each sequence in one step")]
fn several_tokens_are_refused() {
    in_every_order(|device| {
        let shape = DeltaShape { n_tokens: 2, ..shape(1, (1, 1), 8, HeadMap::Interleaved) };
        Case { shape, d_conv: 4, norm: HeadNorm::Max(1e-6) }.run(device, true);
    });
}
