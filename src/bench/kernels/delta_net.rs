//! The delta net: one token, and a prompt in both ways that there are.

use super::{BenchError, Label, Table};
use crate::engine::HeadMap;
use crate::engine::gpu::launch::{self, DeltaHeads, DeltaShape, HeadNorm, StepInputs, StepStates};

const F32: usize = size_of::<f32>();
const GROUP: &str = "delta net";
const EPS: f64 = 1e-6;

pub(super) fn all(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    step(table)?;
    prompt(table)
}

fn shape(table: &Table<'_, '_>, n_tokens: usize) -> DeltaShape {
    let p = &table.sizes;
    let (n_k, n_v, d) = (p.ssm_n_group, p.ssm_dt_rank, p.ssm_d_state);
    let scale = 1.0 / (d as f32).sqrt();
    DeltaShape { n_seqs: 1, n_tokens, n_k, n_v, d, head_map: HeadMap::Interleaved, scale }
}

fn step(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let shape = shape(table, 1);
    let DeltaShape { n_k, n_v, d, .. } = shape;
    let (channels, d_conv) = ((2 * n_k + n_v) * d, table.sizes.ssm_d_conv);
    let (n_state, n_conv) = (shape.n_state(), channels * (d_conv - 1));
    let bytes = (2 * n_state + 2 * n_conv + channels * (1 + d_conv) + n_v * d) * F32;
    let copies = table.bench.copies(bytes);
    let mut states = device.zeros::<f32>(copies * n_state)?;
    let mut conv = device.zeros::<f32>(2 * copies * n_conv)?;
    let index = |of: fn(i32) -> i32| {
        (0..copies as i32).map(|i| device.upload(&[of(i)])).collect::<Result<Vec<_>, _>>()
    };
    let (slots, from, to) = (index(|i| i)?, index(|i| 2 * i)?, index(|i| 2 * i + 1)?);
    let (qkv, kernel) = (table.values(channels)?, table.values(channels * d_conv)?);
    let (alpha, beta) = (table.values(n_v)?, table.values(n_v)?);
    let (dt, a) = (table.values(n_v)?, device.upload(&vec![-0.1f32; n_v])?);
    let mut o = device.alloc::<f32>(n_v * d)?;
    let inputs = StepInputs {
        qkv: qkv.all(),
        kernel: kernel.all(),
        alpha: alpha.all(),
        beta: beta.all(),
        dt: dt.all(),
        a: a.all(),
    };
    let label = Label {
        group: GROUP,
        kernel: "delta_net_step".to_owned(),
        shape: format!("{n_v} heads of {d}, 1 token"),
        bytes,
        flops: None,
    };
    table.add(label, copies, |i| {
        let moved = StepStates {
            states: states.all_mut(),
            slots: slots[i].all(),
            conv: conv.all_mut(),
            from: from[i].all(),
            to: to[i].all(),
        };
        launch::delta_net_step(&device, o.all_mut(), moved, &inputs, HeadNorm::Inside(EPS), &shape)
    })
}

fn prompt(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let n_tokens = table.many();
    let shape = shape(table, n_tokens);
    let DeltaShape { n_k, n_v, d, .. } = shape;
    let bytes = (2 * shape.n_state() + n_tokens * ((2 * n_k + 2 * n_v) * d + 2 * n_v)) * F32;
    let mut states = device.zeros::<f32>(shape.n_state())?;
    // Keys of length one keep the state from growing.
    let small = |n: usize| {
        let of = |i: usize| if i.is_multiple_of(d) { 1.0 } else { 0.0 };
        device.upload(&(0..n).map(of).collect::<Vec<f32>>())
    };
    let (q, k, v) =
        (small(n_tokens * n_k * d)?, small(n_tokens * n_k * d)?, table.values(n_tokens * n_v * d)?);
    let gate = device.upload(&vec![-0.1f32; n_tokens * n_v])?;
    let beta = device.upload(&vec![0.5f32; n_tokens * n_v])?;
    let slots = device.upload(&[0i32])?;
    let mut o = device.alloc::<f32>(n_tokens * n_v * d)?;
    let key = |values| DeltaHeads { values, stride: n_k * d };
    let heads = [key(q.all()), key(k.all()), DeltaHeads { values: v.all(), stride: n_v * d }];
    let label = |kernel: &str| Label {
        group: GROUP,
        kernel: kernel.to_owned(),
        shape: format!("{n_v} heads of {d}, {n_tokens} tokens"),
        bytes,
        flops: None,
    };
    table.add(label("gated_delta_net"), 1, |_| {
        let (gate, beta) = (gate.all(), beta.all());
        launch::gated_delta_net(
            &device,
            o.all_mut(),
            states.all_mut(),
            heads,
            gate,
            beta,
            slots.all(),
            &shape,
        )
    })?;
    table.add(label("delta_net_chunked"), 1, |_| {
        let (gate, beta) = (gate.all(), beta.all());
        launch::delta_net_chunked(
            &device,
            o.all_mut(),
            states.all_mut(),
            heads,
            gate,
            beta,
            slots.all(),
            &shape,
        )
    })
}
