//! kernels/qkv_rope_append.cu.

use lockstep::engine::gpu::Device;
use lockstep::engine::gpu::launch::{self, QkvInputs, QkvShape, RopeShape};

use crate::cells::{Cache, CellType};
use crate::support::{assert_same_bits, in_every_order, values};

const EPS: f32 = 1e-6;
const N_CELLS: usize = 5;
const CELLS: [i32; 3] = [4, 0, 3];
const POSITIONS: [i32; 3] = [6, 0, 2];

/// Queries, keys and values; from one launch, or from one for each operator.
fn run(device: &Device, shape: &QkvShape, cell: CellType, is_fused: bool) -> [Vec<f32>; 3] {
    let &QkvShape { n_tokens, n_head, n_head_kv, head_dim, n_rot, q_stride, q_head_stride, kv_stride } =
        shape;
    let new = |n: usize, seed: u64| device.upload(&values(n, seed)).unwrap();
    let (q, k, v) = (new(n_tokens * q_stride, 1), new(n_tokens * kv_stride, 2), new(n_tokens * kv_stride, 3));
    let (q_weight, k_weight, table) = (new(head_dim, 4), new(head_dim, 5), new(7 * n_rot, 6));
    let [cells, positions] = [CELLS, POSITIONS].map(|ids| device.upload(&ids[..n_tokens]).unwrap());
    let old = values(N_CELLS * n_head_kv * head_dim, 7);
    let [mut k_cache, mut v_cache] = [(); 2].map(|()| Cache::upload(device, cell, &old));
    let mut y = device.alloc(n_tokens * n_head * head_dim).unwrap();
    if is_fused {
        let inputs = QkvInputs {
            q: q.all(),
            k: k.all(),
            v: v.all(),
            q_weight: q_weight.all(),
            k_weight: k_weight.all(),
            cells: cells.all(),
            positions: positions.all(),
            table: table.all(),
        };
        let (k, v) = (k_cache.cells_mut(), v_cache.cells_mut());
        launch::qkv_rope_append(device, y.all_mut(), k, v, &inputs, shape, EPS).unwrap();
    } else {
        let of_q = RopeShape {
            n_tokens,
            n_head,
            head_dim,
            n_rot,
            token_stride: q_stride,
            head_stride: q_head_stride,
        };
        let of_k = RopeShape::packed(n_tokens, n_head_kv, head_dim, n_rot);
        let mut rotated = device.alloc(k.len()).unwrap();
        let (at, turns) = (positions.all(), table.all());
        launch::qk_norm_rope(device, y.all_mut(), q.all(), q_weight.all(), at, turns, &of_q, EPS).unwrap();
        launch::qk_norm_rope(device, rotated.all_mut(), k.all(), k_weight.all(), at, turns, &of_k, EPS)
            .unwrap();
        let (k_cells, v_cells) = (k_cache.cells_mut(), v_cache.cells_mut());
        launch::kv_append(device, k_cells, v_cells, rotated.all(), v.all(), cells.all()).unwrap();
    }
    [device.read(y.all()).unwrap(), k_cache.read(device), v_cache.read(device)]
}

#[test]
fn one_launch_has_the_bits_of_all_operators() {
    in_every_order(|device| {
        for (n_tokens, n_head, n_head_kv, head_dim, n_rot) in
            [(1, 6, 1, 256, 64), (3, 4, 2, 33, 10), (2, 1, 1, 64, 64)]
        {
            let shape = QkvShape {
                n_tokens,
                n_head,
                n_head_kv,
                head_dim,
                n_rot,
                q_stride: 2 * n_head * head_dim,
                q_head_stride: 2 * head_dim,
                kv_stride: n_head_kv * head_dim,
            };
            for cell in CellType::ALL {
                let [fused, apart] = [true, false].map(|is_fused| run(device, &shape, cell, is_fused));
                for (name, (fused, apart)) in ["q", "k", "v"].iter().zip(fused.iter().zip(&apart)) {
                    assert_same_bits(&format!("qkv_rope_append: {name} of {cell:?} {shape:?}"), fused, apart);
                }
            }
        }
    });
}
