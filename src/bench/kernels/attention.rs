//! Attention: one token over many keys, and a prompt over its own.

use super::{BenchError, Label, Table};
use crate::engine::gpu::launch::{self, Cells, FlashCache, FlashShape};

const GROUP: &str = "attention";

pub(super) fn all(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    for n_kv in if table.bench.is_small { [16, 80] } else { [1024, 16384] } {
        decode(table, n_kv)?;
    }
    prefill(table)
}

fn shape(table: &Table<'_, '_>, n_tokens: usize) -> FlashShape {
    let p = &table.sizes;
    let (n_head, n_head_kv, head_dim) = (p.n_head, p.n_head_kv, p.n_embd_head);
    let scale = 1.0 / (head_dim as f32).sqrt();
    FlashShape { n_seqs: 1, n_tokens, n_head, n_head_kv, head_dim, scale }
}

/// Half-precision numbers near one.
const HALF: u16 = 0x3c00;

fn decode(table: &mut Table<'_, '_>, n_kv: usize) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let shape = shape(table, 1);
    let n_cache = n_kv * shape.n_head_kv * shape.head_dim;
    let q = table.values(shape.n_values())?;
    let (of_kv, first) = (device.upload(&[n_kv as i32])?, device.upload(&[0i32])?);
    let n_splits = shape.n_splits(&device, n_kv)?;
    let mut scratch = device.alloc(shape.n_scratch(n_splits))?;
    let mut y = device.alloc(shape.n_values())?;
    for is_half in [true, false] {
        let width = if is_half { size_of::<u16>() } else { size_of::<f32>() };
        let bytes = 2 * n_cache * width;
        let copies = table.bench.copies(bytes);
        let halves = (0..if is_half { 2 * copies } else { 0 }).map(|_| device.upload(&vec![HALF; n_cache]));
        let halves = halves.collect::<Result<Vec<_>, _>>()?;
        let wholes = table.copies_of_values(n_cache, if is_half { 0 } else { 2 * copies })?;
        let cells = |i: usize| match is_half {
            true => Cells::F16(halves[i].all()),
            false => Cells::F32(wholes[i].all()),
        };
        let label = Label {
            group: GROUP,
            kernel: "flash_attn_decode".to_owned(),
            shape: format!(
                "{} heads, {} of k, {} wide, {n_kv} keys in {}",
                shape.n_head,
                shape.n_head_kv,
                shape.head_dim,
                if is_half { "f16" } else { "f32" }
            ),
            bytes,
            flops: Some(4 * (shape.n_values() * n_kv) as u64),
        };
        table.add(label, copies, |i| {
            let cache = FlashCache { k: cells(2 * i), v: cells(2 * i + 1), first: first.all(), cells: None };
            let (y, scratch) = (y.all_mut(), scratch.all_mut());
            launch::flash_attn_decode(&device, y, scratch, q.all(), &cache, of_kv.all(), n_splits, &shape)
        })?;
    }
    Ok(())
}

fn prefill(table: &mut Table<'_, '_>) -> Result<(), BenchError> {
    let device = table.bench.device.clone();
    let n_tokens = table.many();
    let shape = shape(table, n_tokens);
    let n_cache = n_tokens * shape.n_head_kv * shape.head_dim;
    let q = table.values(shape.n_values())?;
    let (k, v) = (device.upload(&vec![HALF; n_cache])?, device.upload(&vec![HALF; n_cache])?);
    let (n_past, first) = (device.upload(&[0i32])?, device.upload(&[0i32])?);
    let mut y = device.alloc(shape.n_values())?;
    let label = Label {
        group: GROUP,
        kernel: "flash_attn_prefill".to_owned(),
        shape: format!("{} heads, {} wide, {n_tokens} tokens, f16", shape.n_head, shape.head_dim),
        bytes: 2 * shape.n_values() * size_of::<f32>() + 2 * n_cache * size_of::<u16>(),
        // Each token sees half of the others.
        flops: Some(2 * (shape.n_values() * (n_tokens + 1)) as u64),
    };
    table.add(label, 1, |_| {
        let cache =
            FlashCache { k: Cells::F16(k.all()), v: Cells::F16(v.all()), first: first.all(), cells: None };
        launch::flash_attn_prefill(&device, y.all_mut(), q.all(), &cache, n_past.all(), &shape)
    })
}
