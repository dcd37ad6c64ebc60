//! Products with weights: of one token, of a few, of a prompt.

use super::{BenchError, Label, Table};
use crate::engine::gpu::launch::{self, Digits, Q8_1, SplitMatrix};
use crate::engine::gpu::{Device, Matrix};
use crate::synth::tensor_bytes;
use crate::tensor::GgmlType;

/// The name under which weights are made, input and output.
type Shape = (&'static str, usize, usize);

const F32: usize = size_of::<f32>();

impl Table<'_, '_> {
    /// The large matrices of a model.
    fn shapes(&self) -> Vec<Shape> {
        let p = &self.sizes;
        let inner = p.ssm_d_inner();
        let channels = 2 * p.ssm_n_group * p.ssm_d_state + inner;
        let d_in = if self.bench.is_small { p.n_embd } else { inner };
        vec![
            ("attn_qkv", p.n_embd, channels),
            ("attn_gate", p.n_embd, inner),
            ("ssm_out", d_in, p.n_embd),
            ("ffn_up", p.n_embd, p.n_ff),
            ("ffn_down", p.n_ff, p.n_embd),
            ("output", p.n_embd, p.n_vocab),
        ]
        .into_iter()
        .map(|(name, n_in, n_out)| (name, n_in, if self.bench.is_small { n_out.min(96) } else { n_out }))
        .collect()
    }

    fn shape(&self, name: &str) -> Shape {
        self.shapes().into_iter().find(|shape| shape.0 == name).expect("a shape of the list")
    }
}

fn bytes(ty: GgmlType, (name, n_in, n_out): Shape) -> Result<Vec<u8>, BenchError> {
    let ne = [n_in as u64, n_out as u64, 1, 1];
    let name = format!("{name}.weight");
    tensor_bytes(1, &name, ty, ne).map_err(|cause| BenchError::Weights { name, cause })
}

fn matrices(device: &Device, ty: GgmlType, shape: Shape, copies: usize) -> Result<Vec<Matrix>, BenchError> {
    let bytes = bytes(ty, shape)?;
    let upload = |_| Ok(Matrix::upload(device, ty, &bytes, shape.1, shape.2, 1.0)?);
    (0..copies).map(upload).collect()
}

fn n_bytes(ty: GgmlType, (_, n_in, n_out): Shape) -> usize {
    ty.row_bytes(n_in as u64).map_or(0, |row| row as usize * n_out)
}

fn label(group: &'static str, kernel: &str, ty: GgmlType, shape: Shape, n_tokens: usize) -> Label {
    let (name, n_in, n_out) = shape;
    Label {
        group,
        kernel: kernel.to_owned(),
        shape: format!("{ty} {name} {n_in} x {n_out}, {n_tokens} token(s)"),
        bytes: n_bytes(ty, shape) + n_tokens * (n_in + n_out) * F32,
        flops: Some(2 * (n_in * n_out * n_tokens) as u64),
    }
}

const FEW: &str = "products of few tokens";

/// Kernels of up to eight tokens.
pub(super) fn few_tokens(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    for ty in [GgmlType::PQ2_0, GgmlType::PTQ1_0, GgmlType::Q4_K, GgmlType::Q8_0, GgmlType::BF16] {
        let is_folded = matches!(ty, GgmlType::PQ2_0 | GgmlType::PTQ1_0);
        for shape in table.shapes() {
            if shape.0 == "output" && !is_folded {
                continue; // gigabytes
            }
            let copies = table.bench.copies(n_bytes(ty, shape));
            let ws = matrices(&device, ty, shape, copies)?;
            for n_tokens in
                if ty == GgmlType::PQ2_0 && shape.0 == "ffn_up" { &[1, 2, 4, 8][..] } else { &[1] }
            {
                let (_, n_in, n_out) = shape;
                let x = table.values(n_tokens * n_in)?;
                let mut y = device.alloc(n_tokens * n_out)?;
                table.add(label(FEW, "mul_mat_vec", ty, shape, *n_tokens), copies, |i| {
                    launch::mul_mat_vec(&device, y.all_mut(), &ws[i], x.all(), *n_tokens, None)
                })?;
                if ws[0].ty().block_elements() > 1 {
                    let mut codes = Q8_1::alloc(&device, n_tokens * n_in)?;
                    launch::quantize_q8_1(&device, &mut codes, x.all())?;
                    table.add(label(FEW, "mul_mat_vec_q8_1", ty, shape, *n_tokens), copies, |i| {
                        launch::mul_mat_vec_q8_1(&device, y.all_mut(), &ws[i], &codes, *n_tokens, None)
                    })?;
                }
                if launch::takes_digits(&ws[0]) {
                    let mut digits = Digits::alloc(&device, n_in, *n_tokens)?;
                    launch::quantize_digits(&device, &mut digits, x.all(), n_in, *n_tokens)?;
                    table.add(label(FEW, "mul_mat_vec_digits", ty, shape, *n_tokens), copies, |i| {
                        launch::mul_mat_vec_digits(&device, y.all_mut(), &ws[i], &digits, *n_tokens, None)
                    })?;
                }
            }
        }
    }
    two_in_one(table, &device)
}

/// Gate and up of a feed-forward net, as the engine launches them.
fn two_in_one(table: &mut Table<'_, '_>, device: &Device) -> Result<(), BenchError> {
    let (ty, shape) = (GgmlType::PQ2_0, table.shape("ffn_up"));
    let (_, n_in, n_out) = shape;
    let copies = table.bench.copies(2 * n_bytes(ty, shape));
    let ws = matrices(device, ty, shape, 2 * copies)?;
    let x = table.values(n_in)?;
    let (mut gate, mut up) = (device.alloc(n_out)?, device.alloc(n_out)?);
    let label = Label {
        bytes: 2 * n_bytes(ty, shape) + (n_in + 2 * n_out) * F32,
        flops: Some(4 * (n_in * n_out) as u64),
        shape: format!("{ty} ffn_gate and ffn_up {n_in} x {n_out}, 1 token(s)"),
        ..label(FEW, "mul_mats_vec", ty, shape, 1)
    };
    table.add(label, copies, |i| {
        let mut products = [(&ws[2 * i], gate.all_mut()), (&ws[2 * i + 1], up.all_mut())];
        launch::mul_mats_vec(device, &mut products, x.all(), 1)
    })
}

/// The same weights in 34-byte blocks and with codes and scales apart.
pub(super) fn layouts(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let (group, ty) = ("layouts of PQ2_0", GgmlType::PQ2_0);
    for name in ["attn_qkv", "ffn_up", "ffn_down", "output"] {
        let shape = table.shape(name);
        let (_, n_in, n_out) = shape;
        let copies = table.bench.copies(n_bytes(ty, shape));
        let x = table.values(n_in)?;
        let mut y = device.alloc(n_out)?;
        let ws = matrices(&device, ty, shape, copies)?;
        table.add(label(group, "mul_mat_vec (blocks)", ty, shape, 1), copies, |i| {
            launch::mul_mat_vec(&device, y.all_mut(), &ws[i], x.all(), 1, None)
        })?;
        drop(ws);
        let bytes = bytes(ty, shape)?;
        let upload = |_| SplitMatrix::upload(&device, &bytes, n_in, n_out);
        let ws = (0..copies).map(upload).collect::<Result<Vec<_>, _>>()?;
        table.add(label(group, "mul_mat_vec_split (apart)", ty, shape, 1), copies, |i| {
            launch::mul_mat_vec_split(&device, y.all_mut(), &ws[i], x.all())
        })?;
    }
    Ok(())
}

/// Kernels of a prompt.
pub(super) fn many_tokens(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let (group, n_tokens) = ("products of many tokens", table.many());
    for (ty, names) in [
        (GgmlType::PQ2_0, &["attn_qkv", "ssm_out", "ffn_up", "ffn_down"][..]),
        (GgmlType::PTQ1_0, &["ffn_up"]),
        (GgmlType::Q4_K, &["ffn_up"]),
        (GgmlType::Q8_0, &["ffn_up"]),
        (GgmlType::BF16, &["ffn_up"]),
    ] {
        for name in names {
            let shape = table.shape(name);
            let (_, n_in, n_out) = shape;
            let copies = table.bench.copies(n_bytes(ty, shape)).min(8);
            let ws = matrices(&device, ty, shape, copies)?;
            let x = table.values(n_tokens * n_in)?;
            let mut y = device.alloc(n_tokens * n_out)?;
            table.add(label(group, "mul_mat", ty, shape, n_tokens), copies, |i| {
                launch::mul_mat(&device, y.all_mut(), &ws[i], x.all(), n_tokens, None)
            })?;
            if ty.block_elements() > 1 {
                let mut codes = Q8_1::alloc(&device, n_tokens * n_in)?;
                launch::quantize_q8_1(&device, &mut codes, x.all())?;
                table.add(label(group, "mul_mat_q8_1", ty, shape, n_tokens), copies, |i| {
                    launch::mul_mat_q8_1(&device, y.all_mut(), &ws[i], &codes, n_tokens, None)
                })?;
            }
        }
    }
    Ok(())
}
