//! kernels/delta_net_step.cu.

use lockstep::engine::HeadMap;
use lockstep::engine::gpu::launch::{
    self, ConvShape, DeltaHeads, DeltaShape, GateInputs, HeadNorm, Heads, StepInputs, StepStates,
};
use lockstep::engine::gpu::{Device, GpuError};

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
        let n_tokens = self.shape.n_tokens;
        ConvShape { n_seqs, n_tokens, channels: self.channels(), d_conv: self.d_conv }
    }

    fn dt_and_a(&self) -> [Vec<f32>; 2] {
        let of = |seed, of: fn(f32) -> f32| values(self.shape.n_v, seed).into_iter().map(of).collect();
        [of(5, |x| x * 30.0), of(6, |x| -x.abs())]
    }

    /// One launch, or one for each operator.
    fn run(&self, device: &Device, is_fused: bool) -> Outcome {
        let shape = &self.shape;
        let &DeltaShape { n_seqs, n_tokens, n_k, n_v, d, .. } = shape;
        let rows = n_seqs * n_tokens;
        let new = |n: usize, seed: u64| device.upload(&values(n, seed)).unwrap();
        let (qkv, kernel) = (new(rows * self.channels(), 1), new(self.channels() * self.d_conv, 2));
        let (alpha, raw_beta) = (new(rows * n_v, 3), new(rows * n_v, 4));
        let [dt, a] = self.dt_and_a().map(|values| device.upload(&values).unwrap());
        let mut states = new(N_SLOTS * shape.n_state(), 7);
        let mut conv = new(N_SLOTS * self.conv().n_state(), 8);
        let [slots, from, to] = [SLOTS, FROM, TO].map(|slots| device.upload(&slots[..n_seqs]).unwrap());
        let mut o = device.alloc(rows * n_v * d).unwrap();
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
            let heads = Heads { tokens: rows, per_token: n_k, n: d, stride: self.channels() };
            let [q, k] = [0, n_k * d].map(|at| {
                let mut normed = device.alloc(rows * n_k * d).unwrap();
                let x = y.part(at..end);
                match self.norm {
                    HeadNorm::Inside(eps) => launch::l2_norm_inside(device, normed.all_mut(), x, heads, eps),
                    HeadNorm::Max(eps) => launch::l2_norm(device, normed.all_mut(), x, heads, eps),
                }
                .unwrap();
                normed
            });
            let [mut gate, mut beta] = [0; 2].map(|_| device.alloc(rows * n_v).unwrap());
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
            assert_same_bits(&format!("delta_net_step: {name} of {what}"), fused, apart);
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

/// One recorded step, replayed for token after token with columns that take turns, has the bits of one launch over all tokens.
#[test]
fn recorded_steps_have_the_bits_of_many_tokens_at_once() {
    const N_TOKENS: usize = 4;
    in_every_order(|device| {
        let norm = HeadNorm::Inside(1e-6);
        let step = Case { shape: shape(1, (1, 2), 8, HeadMap::Interleaved), d_conv: 4, norm };
        let whole = Case { shape: DeltaShape { n_tokens: N_TOKENS, ..step.shape }, ..step };
        let [expected, expected_states, expected_conv] = whole.run(device, false);

        let (channels, n_v, n_conv) = (step.channels(), step.shape.n_v, step.conv().n_state());
        let (qkv, kernel) =
            (values(N_TOKENS * channels, 1), device.upload(&values(channels * 4, 2)).unwrap());
        let (alpha, beta) = (values(N_TOKENS * n_v, 3), values(N_TOKENS * n_v, 4));
        let [dt, a] = step.dt_and_a().map(|values| device.upload(&values).unwrap());
        let (state, columns) = (values(N_SLOTS * step.shape.n_state(), 7), values(N_SLOTS * n_conv, 8));
        let [mut states, mut conv] = [&state, &columns].map(|values| device.upload(values).unwrap());
        let [mut now_qkv, mut now_alpha, mut now_beta] =
            [&qkv[..channels], &alpha[..n_v], &beta[..n_v]].map(|values| device.upload(values).unwrap());
        let [slots, mut from, mut to] = [&SLOTS, &FROM, &TO].map(|slots| device.upload(&slots[..1]).unwrap());
        let mut o = device.alloc(n_v * 8).unwrap();
        let mut launch = || {
            let inputs = StepInputs {
                qkv: now_qkv.all(),
                kernel: kernel.all(),
                alpha: now_alpha.all(),
                beta: now_beta.all(),
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
            launch::delta_net_step(device, o.all_mut(), moved, &inputs, norm, &step.shape)
        };
        launch().unwrap(); // a kernel is loaded before it is recorded
        let recording = device.record::<GpuError>(launch).unwrap();
        device.write(&mut states.all_mut(), &state).unwrap();
        device.write(&mut conv.all_mut(), &columns).unwrap();
        let mut read = Vec::new();
        for t in 0..N_TOKENS {
            let (source, target) = if t % 2 == 0 { (FROM[0], TO[0]) } else { (TO[0], FROM[0]) };
            device.write(&mut from.all_mut(), &[source]).unwrap();
            device.write(&mut to.all_mut(), &[target]).unwrap();
            device.write(&mut now_qkv.all_mut(), &qkv[t * channels..][..channels]).unwrap();
            device.write(&mut now_alpha.all_mut(), &alpha[t * n_v..][..n_v]).unwrap();
            device.write(&mut now_beta.all_mut(), &beta[t * n_v..][..n_v]).unwrap();
            recording.replay().unwrap();
            read.extend(device.read(o.all()).unwrap());
        }
        assert_same_bits("delta_net_step: o", &read, &expected);
        assert_same_bits("delta_net_step: states", &device.read(states.all()).unwrap(), &expected_states);
        // After an even number of tokens the columns are back where they were; those of many tokens went straight to the other slot.
        let of = |conv: &[f32], slot: i32| conv[slot as usize * n_conv..][..n_conv].to_vec();
        let left = of(&device.read(conv.all()).unwrap(), FROM[0]);
        assert_same_bits("delta_net_step: columns", &left, &of(&expected_conv, TO[0]));
    });
}
