//! Launches of kernels/delta_net_chunked.cu.

use super::super::{Device, GpuError, Grid, Part, PartMut};
use super::gated_delta_net::{DeltaHeads, DeltaShape};

const THREADS: usize = 256;
/// Tokens of a chunk, and rows of the state for a block: CHUNK and R in the kernel.
const CHUNK: usize = 64;
const ROWS: usize = 32;

/// The same function as [`gated_delta_net`](super::gated_delta_net()), of the same buffers, in chunks of 64 tokens.
///
/// # Errors
/// If the launch fails.
///
/// # Panics
/// If the sizes do not belong together, or there is no kernel for `d`.
#[allow(clippy::too_many_arguments)] // the operator has eight tensors
pub fn delta_net_chunked(
    device: &Device,
    o: PartMut<'_, f32>,
    states: PartMut<'_, f32>,
    [q, k, v]: [DeltaHeads<'_>; 3],
    gate: Part<'_, f32>,
    beta: Part<'_, f32>,
    slots: Part<'_, i32>,
    shape: &DeltaShape,
) -> Result<(), GpuError> {
    let d = shape.d;
    let kernel = match d {
        8 => "delta_net_chunked_d8_f32",
        16 => "delta_net_chunked_d16_f32",
        32 => "delta_net_chunked_d32_f32",
        64 => "delta_net_chunked_d64_f32",
        128 => "delta_net_chunked_d128_f32",
        _ => panic!("no kernel for heads of {d}"),
    };
    let rows = d.min(ROWS);
    let shared = (CHUNK + rows) * (d + 4) + CHUNK * (rows + 1) + CHUNK * (CHUNK + 1) + 4 * CHUNK;
    let grid = Grid::new_3d([d / rows, shape.n_v, shape.n_seqs], THREADS).shared(shared * size_of::<f32>());
    device.launch(kernel, grid, &shape.args(o, states, [q, k, v], [gate, beta], slots))
}
