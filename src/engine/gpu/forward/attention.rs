//! Full attention with normalised, rotated q and k, grouped kv heads and a gated output.
//!
//! Names, shapes and their order are those of the cpu engine (engine/cpu/attention.rs), which mirrors llama.cpp's graph without flash
//! attention.

use std::collections::BTreeMap;

use super::{Pass, Tensor, Tokens, launch};
use crate::engine::EngineError;
use crate::engine::gpu::Buffer;
use crate::engine::gpu::state::{KvCache, Sizes};
use crate::engine::gpu::weights::AttentionWeights;
use crate::engine::numerics::round_to;
use crate::tensor::GgmlType;

/// Runs layer `il` on its normalised input `[n_tokens, n_embd]`; puts keys and values into the caches of their streams.
pub(super) fn run(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    weights: &AttentionWeights,
    input: Tensor,
    caches: &mut BTreeMap<i32, KvCache>,
    sizes: Sizes,
    tokens: &Tokens,
) -> Result<Tensor, EngineError> {
    let layer = Some(il);
    let h = pass.hparams();
    let (n_head, n_head_kv, head_dim) = (h.n_head, h.n_head_kv, h.n_embd_head);
    let n_tokens = input.shape[0];
    let (type_k, type_v) = (pass.numerics.type_k, pass.numerics.type_v);
    let like = pass.rounds_like()?;
    let [q_full, k, v] = pass.mul_mats([&weights.q, &weights.k, &weights.v], &input, like.as_deref())?;
    let q_full = pass.emit("Qcur_full", layer, q_full)?;
    // Head by head: head_dim of the query, head_dim of its gate.
    let half = |pass: &Pass<'_, '_, '_>, at: usize| {
        let mut half = pass.tensor(&[n_tokens, n_head, head_dim])?;
        let from = q_full.part(at..q_full.len());
        launch::copy_rows(pass.device, half.all_mut(), from, head_dim, 2 * head_dim)?;
        Ok::<_, EngineError>(half)
    };
    let q = half(pass, 0)?;
    pass.observe("Qcur_reshaped", layer, &q.shape, |device| Ok(device.read(q.all())?))?;
    let v = pass.emit("Vcur", layer, v)?;
    let v_like = rounds_like_in(pass, type_v)?;
    let heads = [n_tokens, n_head_kv, head_dim];
    pass.observe("Vcur", layer, &heads, |device| Ok(device.read(v.all())?))?;
    let k = pass.emit("Kcur", layer, k)?;

    let mut q = normed_and_rotated(pass, il, "Qcur", &weights.q_norm, q, tokens)?;
    let q_like = rounds_like_in(pass, type_k)?;
    let mut k = normed_and_rotated(pass, il, "Kcur", &weights.k_norm, k.shaped(&heads), tokens)?;
    let k_like = rounds_like_in(pass, type_k)?;
    let mut v = v;
    // What goes into a cache of a smaller type is rounded as the reference's was; a product with keys rounds its other factor
    // to their type.
    for (x, ty, like) in [(&mut k, type_k, &k_like), (&mut v, type_v, &v_like), (&mut q, type_k, &q_like)] {
        rounded(pass, x, ty, like.as_deref())?;
    }
    let n_embd_kv = n_head_kv * head_dim;
    let mut first = 0;
    for (placed, stream) in tokens.placement.streams.iter().zip(&tokens.streams) {
        let cache = caches.get_mut(&placed.stream).expect("made when the tokens were placed");
        let rows = first * n_embd_kv..(first + placed.cells.len()) * n_embd_kv;
        let (k, v) = (k.part(rows.clone()), v.part(rows));
        launch::kv_append(pass.device, cache.k.all_mut(), cache.v.all_mut(), k, v, tokens.cells(stream))?;
        first += placed.cells.len();
    }
    let attended = attend(pass, il, &q, caches, sizes, tokens)?;
    let gate = half(pass, head_dim)?;
    let gate = pass.emit("gate_reshaped", layer, gate.shaped(&[n_tokens, n_head * head_dim]))?;
    let mut activated = pass.tensor(&gate.shape)?;
    launch::sigmoid(pass.device, activated.all_mut(), gate.all())?;
    let activated = pass.emit("gate_sigmoid", layer, activated)?;
    let mut gated = pass.tensor(&attended.shape)?;
    launch::mul(pass.device, gated.all_mut(), attended.all(), activated.all())?;
    let gated = pass.emit("attn_gated", layer, gated)?;
    let like = pass.rounds_like()?;
    let out = pass.mul_mat(&weights.output, &gated, like.as_deref())?;
    pass.emit("attn_output", layer, out)
}

/// What the reference had for the tensor that was emitted last, if it is rounded to a type and that is known.
fn rounds_like_in(pass: &mut Pass<'_, '_, '_>, ty: GgmlType) -> Result<Option<Vec<f32>>, EngineError> {
    if ty == GgmlType::F32 { Ok(None) } else { pass.emitter.rounds_like() }
}

/// Rounds values to a type as the reference's were, on the host: a matter of comparison, not of speed.
fn rounded(
    pass: &Pass<'_, '_, '_>,
    x: &mut Tensor,
    ty: GgmlType,
    like: Option<&[f32]>,
) -> Result<(), EngineError> {
    if ty == GgmlType::F32 {
        return Ok(());
    }
    let mut values = pass.device.read(x.all())?;
    round_to(ty, &mut values, like);
    Ok(pass.device.write(&mut x.all_mut(), &values)?)
}

/// Norm and rotation of q or k, emitted as `norm-il`, `<name>_normed-il` and `<name>-il`.
fn normed_and_rotated(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    name: &str,
    norm: &Buffer<f32>,
    x: Tensor,
    tokens: &Tokens,
) -> Result<Tensor, EngineError> {
    let x = pass.norm(il, norm, &format!("{name}_normed"), &x)?;
    let [n_tokens, n_head, head_dim] = x.shape[..] else { unreachable!("heads of tokens") };
    let mut rotated = pass.tensor(&x.shape)?;
    let heads = launch::RopeShape::packed(n_tokens, n_head, head_dim, pass.hparams().n_rot);
    let table = pass.rope.all();
    launch::rope(pass.device, rotated.all_mut(), x.all(), tokens.positions(), table, &heads)?;
    pass.emit(name, Some(il), rotated)
}

/// Scores, softmax and weighted values over all cells of each stream: `[n_tokens, n_head head_dim]`.
fn attend(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    q: &Tensor,
    caches: &BTreeMap<i32, KvCache>,
    sizes: Sizes,
    tokens: &Tokens,
) -> Result<Tensor, EngineError> {
    let [n_tokens, n_head, head_dim] = q.shape[..] else { unreachable!("heads of tokens") };
    let h = pass.hparams();
    let scale = h.f_attention_scale.unwrap_or((1.0 / (head_dim as f64).sqrt()) as f32);
    let type_v = pass.numerics.type_v;
    let streams = &tokens.placement.streams;
    let (n_streams, n_kv) = (streams.len(), tokens.placement.n_kv);
    let of_stream = n_tokens / n_streams;
    let shape = launch::AttnShape { n_tokens: of_stream, n_kv, n_head, n_head_kv: h.n_head_kv, head_dim };
    let mut masks = Vec::new();
    let mut kq = pass.tensor(&[n_streams, n_head, of_stream, n_kv])?;
    let block = n_head * of_stream * n_kv;
    for (s, placed) in streams.iter().enumerate() {
        let mut mask = vec![0u8; of_stream * n_kv];
        for (row, seen) in mask.chunks_exact_mut(n_kv).zip(&placed.seen) {
            seen.iter().for_each(|&cell| row[cell] = 1);
        }
        masks.push(pass.device.upload(&mask)?);
        let keys = caches[&placed.stream].k.part(0..n_kv * sizes.kv_row);
        let queries = q.part(s * of_stream * n_head * head_dim..(s + 1) * of_stream * n_head * head_dim);
        launch::kq(pass.device, kq.part_mut(s * block..(s + 1) * block), queries, keys, &shape)?;
    }
    let mut kq = pass.emit("kq", Some(il), kq)?;
    for (s, mask) in masks.iter().enumerate() {
        let scores = kq.part_mut(s * block..(s + 1) * block);
        launch::soft_max(pass.device, scores, mask.all(), scale, &shape)?;
    }
    let mut probabilities = pass.emit("kq_soft_max", Some(il), kq)?;
    let like = rounds_like_in(pass, type_v)?;
    rounded(pass, &mut probabilities, type_v, like.as_deref())?;
    let mut kqv = pass.tensor(&[n_streams, n_head, of_stream, head_dim])?;
    let size = n_head * of_stream * head_dim;
    for (s, (placed, mask)) in streams.iter().zip(&masks).enumerate() {
        let values = caches[&placed.stream].v.part(0..n_kv * sizes.kv_row);
        let p = probabilities.part(s * block..(s + 1) * block);
        let to = kqv.part_mut(s * size..(s + 1) * size);
        launch::kqv(pass.device, to, p, values, mask.all(), &shape)?;
    }
    let kqv = pass.emit("kqv", Some(il), kqv)?;
    // [n_streams, n_head, tokens, head_dim] to [n_tokens, n_head, head_dim]
    let at = |s: usize, t: usize, head: usize| ((s * n_head + head) * of_stream + t) as i32;
    let of_tokens = (0..n_tokens).map(|token| (token / of_stream, token % of_stream));
    let rows: Vec<i32> = of_tokens.flat_map(|(s, t)| (0..n_head).map(move |head| at(s, t, head))).collect();
    let rows = pass.device.upload(&rows)?;
    let mut merged = pass.tensor(&[n_tokens, n_head * head_dim])?;
    launch::gather_rows(pass.device, merged.all_mut(), kqv.all(), rows.all(), head_dim)?;
    pass.emit("attn_pregate", Some(il), merged)
}
