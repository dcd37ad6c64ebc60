//! kernels/flash_attn_prefill.cu.

use lockstep::engine::gpu::Device;
use lockstep::engine::gpu::launch::{self, FlashCache, FlashShape};

use crate::cells::{Cache, CellType};
use crate::flash::{Case, as_i32, scattered};
use crate::support::{assert_rounded, in_every_order};

/// Cells of the cache: a prime.
const N_CELLS: usize = 211;

fn shape(n_seqs: usize, n_tokens: usize, (n_head, n_head_kv): (usize, usize), head_dim: usize) -> FlashShape {
    FlashShape { n_seqs, n_tokens, n_head, n_head_kv, head_dim, scale: 1.7 / (head_dim as f32).sqrt() }
}

/// Sequences with these numbers of earlier tokens and all cells that they have.
fn check(
    device: &Device,
    shape: FlashShape,
    cell: CellType,
    past: &[usize],
    own: &[Vec<usize>],
    is_listed: bool,
) {
    let tokens = (0..shape.n_seqs).flat_map(|s| (0..shape.n_tokens).map(move |t| (s, t)));
    let seen = tokens.map(|(s, t)| own[s][..=past[s] + t].to_vec()).collect();
    let case = Case::new(shape, cell, N_CELLS, seen);
    let q = device.upload(&case.q).unwrap();
    let [k, v] = [&case.k, &case.v].map(|values| Cache::upload(device, cell, values));
    let firsts = (0..own.len()).map(|s| match is_listed {
        true => own[..s].iter().map(Vec::len).sum(),
        false => own[s][0],
    });
    let first = device.upload(&as_i32(&firsts.collect::<Vec<_>>())).unwrap();
    let list = device.upload(&as_i32(&own.concat())).unwrap();
    let n_past = device.upload(&as_i32(past)).unwrap();
    let cells = is_listed.then(|| list.all());
    let cache = FlashCache { k: k.cells(), v: v.cells(), first: first.all(), cells };
    let mut y = device.alloc(shape.n_values()).unwrap();
    launch::flash_attn_prefill(device, y.all_mut(), q.all(), &cache, n_past.all(), &shape).unwrap();
    assert_rounded(&case.what("flash_attn_prefill"), &device.read(y.all()).unwrap(), &case.exact());
}

/// Sequences whose cells follow each other.
fn contiguous(n_seqs: usize, each: usize) -> Vec<Vec<usize>> {
    (0..n_seqs).map(|s| (s * each + 1..(s + 1) * each + 1).collect()).collect()
}

#[test]
fn heads_and_types_of_every_kind() {
    in_every_order(|device| {
        for (heads, head_dim) in [((1, 1), 32), ((4, 2), 64), ((2, 1), 128), ((3, 1), 256)] {
            for cell in CellType::ALL {
                check(device, shape(1, 5, heads, head_dim), cell, &[31], &contiguous(1, 40), false);
            }
        }
    });
}

#[test]
fn tokens_of_every_number() {
    in_every_order(|device| {
        for n_tokens in [1, 2, 3, 31, 33, 65] {
            for past in [0, 30] {
                let own = contiguous(1, 100);
                check(device, shape(1, n_tokens, (1, 1), 32), CellType::F32, &[past], &own, false);
            }
        }
        check(device, shape(1, 7, (6, 1), 32), CellType::F16, &[60], &contiguous(1, 100), false);
    });
}

#[test]
fn sequences_have_cells_of_their_own() {
    in_every_order(|device| {
        let own = [scattered(40, N_CELLS, 3), scattered(10, N_CELLS, 1), scattered(70, N_CELLS, 100)];
        check(device, shape(3, 5, (4, 2), 32), CellType::Bf16, &[33, 0, 64], &own, true);
        check(device, shape(3, 5, (2, 2), 32), CellType::F32, &[33, 0, 50], &contiguous(3, 60), false);
    });
}
