//! The delta net: convolution and recurrence.

use lockstep::engine::HeadMap;
use lockstep::engine::gpu::cost::Sizes;
use lockstep::engine::gpu::launch::{
    self, ConvShape, DeltaHeads, DeltaShape, HeadNorm, StepInputs, StepStates,
};

use crate::Bench;

pub(crate) fn check(bench: &Bench) {
    convolution(bench);
    for d in [8, 16, 32, 64, 128] {
        recurrence(bench, d);
        step(bench, d);
    }
}

fn convolution(bench: &Bench) {
    let (device, n_seqs, n_tokens, channels, d_conv) = (&bench.device, 2, 40, 300, 4);
    let shape = ConvShape { n_seqs, n_tokens, channels, d_conv };
    let sizes = Sizes { n: channels, n_seqs, n_tokens, taps: d_conv, ..Sizes::default() };
    let (mut states, qkv) = (bench.values(4 * shape.n_state()), bench.values(shape.n_values()));
    let (kernel, from, to) = (bench.values(channels * d_conv), bench.ids([2, 0]), bench.ids([1, 3]));
    let (mut input, mut y) = (bench.room(shape.n_input()), bench.room(shape.n_values()));
    bench.check(sizes, || {
        launch::conv_input(device, input.all_mut(), states.all(), from.all(), qkv.all(), &shape)
    });
    bench.check(sizes, || launch::ssm_conv(device, y.all_mut(), input.all(), kernel.all(), &shape));
    bench.check(sizes, || {
        launch::conv_state(device, states.all_mut(), to.all(), input.all(), n_tokens, &shape)
    });
    bench.check(sizes, || {
        let (moved, from, to) = (states.all_mut(), from.all(), to.all());
        launch::ssm_conv_silu(device, y.all_mut(), moved, from, to, qkv.all(), kernel.all(), &shape)
    });
}

fn shape(n_seqs: usize, n_tokens: usize, d: usize) -> DeltaShape {
    DeltaShape { n_seqs, n_tokens, n_k: 1, n_v: 2, d, head_map: HeadMap::Interleaved, scale: 0.1 }
}

fn recurrence(bench: &Bench, d: usize) {
    let (device, shape) = (&bench.device, shape(2, 70, d));
    let DeltaShape { n_seqs, n_tokens, n_k, n_v, .. } = shape;
    let rows = n_seqs * n_tokens;
    let sizes = Sizes { n_seqs, n_tokens, n_head: n_v, n_head_kv: n_k, head_dim: d, ..Sizes::default() };
    let [q, k, v] = [n_k, n_k, n_v].map(|heads| bench.values(rows * heads * d));
    let (gate, beta, slots) = (bench.values(rows * n_v), bench.values(rows * n_v), bench.ids([2, 0]));
    let (mut states, mut o) = (bench.values(3 * shape.n_state()), bench.room(rows * n_v * d));
    for run in [launch::gated_delta_net, launch::delta_net_chunked] {
        bench.check(sizes, || {
            let heads = [(&q, n_k), (&k, n_k), (&v, n_v)]
                .map(|(buffer, heads)| DeltaHeads { values: buffer.all(), stride: heads * d });
            let (o, moved) = (o.all_mut(), states.all_mut());
            run(device, o, moved, heads, gate.all(), beta.all(), slots.all(), &shape)
        });
    }
}

fn step(bench: &Bench, d: usize) {
    let (device, shape, d_conv) = (&bench.device, shape(2, 1, d), 4);
    let DeltaShape { n_seqs, n_k, n_v, .. } = shape;
    let sizes = Sizes {
        n_seqs,
        n_tokens: 1,
        n_head: n_v,
        n_head_kv: n_k,
        head_dim: d,
        taps: d_conv,
        ..Sizes::default()
    };
    let channels = (2 * n_k + n_v) * d;
    let (qkv, kernel) = (bench.values(n_seqs * channels), bench.values(channels * d_conv));
    let [alpha, beta] = [(); 2].map(|()| bench.values(n_seqs * n_v));
    let [dt, a] = [(); 2].map(|()| bench.values(n_v));
    let mut states = bench.values(3 * shape.n_state());
    let mut conv = bench.values(4 * channels * (d_conv - 1));
    let [slots, from, to] = [[2, 0], [1, 3], [0, 2]].map(|slots| bench.ids(slots));
    let mut o = bench.room(n_seqs * n_v * d);
    let inputs = StepInputs {
        qkv: qkv.all(),
        kernel: kernel.all(),
        alpha: alpha.all(),
        beta: beta.all(),
        dt: dt.all(),
        a: a.all(),
    };
    bench.check(sizes, || {
        let moved = StepStates {
            states: states.all_mut(),
            slots: slots.all(),
            conv: conv.all_mut(),
            from: from.all(),
            to: to.all(),
        };
        launch::delta_net_step(device, o.all_mut(), moved, &inputs, HeadNorm::Max(1e-6), &shape)
    });
}
