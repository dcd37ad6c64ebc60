//! The recurrence of the delta net by its one operator, with states in slots.

use std::ops::Range;

use super::delta_net::Dims;
use super::{Pass, Tensor, launch, unfused};
use crate::engine::gpu::slots::SequenceSlots;
use crate::engine::gpu::state::copy_slot;
use crate::engine::gpu::{Buffer, Device, GpuError};
use crate::engine::route::Route;
use crate::engine::{EngineError, HeadMap};

/// The recurrence over all tokens of each sequence, with the states before and after.
#[allow(clippy::too_many_arguments)] // the operator has six tensors, and states in slots
pub(super) fn recur(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    route: Route,
    inputs: unfused::Inputs<'_>,
    states: &mut Buffer<f32>, // [slots, n_v, d_v, d_k]
    size: usize,
    slots: &[SequenceSlots],
    dims: Dims,
) -> Result<Tensor, EngineError> {
    let layer = Some(il);
    let Dims { n_seqs, n_tokens, n_v, d, .. } = dims;
    let device = pass.device;
    let before = gathered(pass, states, size, slots.iter().map(|slots| slots.before.s))?;
    let before = pass.emit("state_predelta", layer, before.shaped(&[n_seqs, n_v, d, d]))?;
    if route != Route::Fused {
        let (o, after) = unfused::recur(pass, il, route, inputs, before)?;
        scatter(device, states, size, slots.iter().map(|slots| slots.before.s), &after)?;
        return pass.emit("attn_output", layer, o);
    }
    scatter(device, states, size, slots.iter().map(|slots| slots.before.s), &before)?;
    let mut o = pass.tensor(&[n_seqs, n_tokens, n_v, d])?;
    let n_kept = slots[0].kept.len();
    if n_kept == 0 {
        let own: Vec<usize> = slots.iter().map(|slots| slots.before.s).collect();
        move_on(device, &mut o, states, &own, &inputs, (n_seqs, 0..n_seqs * n_tokens))?;
    }
    // All tokens at once, but for the last ones where the states between them are kept.
    for (s, slots) in slots.iter().enumerate().filter(|_| n_kept > 0) {
        let (start, end) = (s * n_tokens, (s + 1) * n_tokens);
        let mut at = slots.before.s;
        if n_tokens > n_kept {
            move_on(device, &mut o, states, &[at], &inputs, (1, start..end - n_kept))?;
        }
        for (i, kept) in slots.kept.iter().enumerate() {
            copy_slot(device, states, (kept.s, at), size)?;
            at = kept.s;
            let token = end - n_kept + i;
            move_on(device, &mut o, states, &[at], &inputs, (1, token..token + 1))?;
        }
    }
    if pass.memory.n_rs_seq == 0 {
        let after = gathered(pass, states, size, slots.iter().map(|slots| slots.before.s))?;
        let after = after.shaped(&[n_seqs, n_v, d, d]);
        let (o_now, after) = packed(pass, il, o, after)?;
        o = o_now;
        let after = pass.emit("new_state", layer, after)?;
        scatter(device, states, size, slots.iter().map(|slots| slots.before.s), &after)?;
    }
    pass.emit("attn_output", layer, o)
}

/// Moves the states in some slots, one for each of `n_seqs` sequences, on over `tokens` of the ubatch.
fn move_on(
    device: &Device,
    o: &mut Tensor,
    states: &mut Buffer<f32>,
    slots: &[usize],
    inputs: &unfused::Inputs<'_>,
    (n_seqs, tokens): (usize, Range<usize>),
) -> Result<(), GpuError> {
    let [.., n_v, d] = o.shape[..] else { unreachable!("heads of tokens") };
    let n_k = inputs.q.shape[2];
    let scale = (1.0 / (d as f64).sqrt()) as f32;
    let n_tokens = tokens.len() / n_seqs;
    let shape = launch::DeltaShape { n_seqs, n_tokens, n_k, n_v, d, head_map: HeadMap::Interleaved, scale };
    let range = |width: usize| tokens.start * width..tokens.end * width;
    let slots: Vec<i32> = slots.iter().map(|&slot| slot as i32).collect();
    let slots = device.upload(&slots)?;
    let heads = [(inputs.q, n_k), (inputs.k, n_k), (inputs.v, n_v)]
        .map(|(x, heads)| launch::DeltaHeads { values: x.part(range(heads * d)), stride: heads * d });
    let (gate, beta) = (inputs.gate.part(range(n_v)), inputs.beta.part(range(n_v)));
    let to = o.part_mut(range(n_v * d));
    launch::gated_delta_net(device, to, states.all_mut(), heads, gate, beta, slots.all(), &shape)
}

/// Outputs and states as one tensor, for graphs in which it has a name ([`crate::engine::Dialect`]): rows of `n_v d`, outputs first.
fn packed(
    pass: &mut Pass<'_, '_, '_>,
    il: usize,
    mut o: Tensor,
    mut after: Tensor,
) -> Result<(Tensor, Tensor), EngineError> {
    let Some(names) = pass.numerics.dialect.gated_delta_net else { return Ok((o, after)) };
    let name = names.of(o.shape[1]);
    let row = o.shape[2] * o.shape[3];
    let (n_o, n_after) = (o.len(), after.len());
    let mut both = pass.tensor(&[(n_o + n_after) / row, row])?;
    pass.device.copy(&mut both.part_mut(0..n_o), o.all())?;
    pass.device.copy(&mut both.part_mut(n_o..n_o + n_after), after.all())?;
    let both = pass.emit(name, Some(il), both)?;
    pass.device.copy(&mut o.all_mut(), both.part(0..n_o))?;
    pass.device.copy(&mut after.all_mut(), both.part(n_o..n_o + n_after))?;
    Ok((o, after))
}

/// What is in some slots, one after the other.
pub(super) fn gathered(
    pass: &Pass<'_, '_, '_>,
    states: &Buffer<f32>,
    size: usize,
    slots: impl ExactSizeIterator<Item = usize>,
) -> Result<Tensor, EngineError> {
    let mut gathered = pass.tensor(&[slots.len(), size])?;
    for (i, slot) in slots.enumerate() {
        let to = &mut gathered.part_mut(i * size..(i + 1) * size);
        pass.device.copy(to, states.part(slot * size..(slot + 1) * size))?;
    }
    Ok(gathered)
}

/// Puts them back into their slots.
pub(super) fn scatter(
    device: &Device,
    states: &mut Buffer<f32>,
    size: usize,
    slots: impl Iterator<Item = usize>,
    from: &Tensor,
) -> Result<(), GpuError> {
    for (i, slot) in slots.enumerate() {
        let to = &mut states.part_mut(slot * size..(slot + 1) * size);
        device.copy(to, from.part(i * size..(i + 1) * size))?;
    }
    Ok(())
}

pub(super) fn read_slots(
    device: &Device,
    states: &Buffer<f32>,
    size: usize,
    slots: impl Iterator<Item = usize>,
) -> Result<Vec<f32>, EngineError> {
    let mut values = Vec::new();
    for slot in slots {
        values.extend(device.read(states.part(slot * size..(slot + 1) * size))?);
    }
    Ok(values)
}
