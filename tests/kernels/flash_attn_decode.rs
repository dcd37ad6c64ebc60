//! kernels/flash_attn_decode.cu.

use lockstep::engine::gpu::launch::{self, FlashCache, FlashShape};
use lockstep::engine::gpu::{Device, GpuError};

use crate::cells::{Cache, CellType};
use crate::flash::{Case, as_i32, scattered};
use crate::support::{assert_rounded, in_every_order};

fn shape(n_seqs: usize, (n_head, n_head_kv): (usize, usize), head_dim: usize) -> FlashShape {
    FlashShape { n_seqs, n_tokens: 1, n_head, n_head_kv, head_dim, scale: 1.7 / (head_dim as f32).sqrt() }
}

/// Cells of each token in one list, one token's behind the other's.
fn run(device: &Device, case: &Case, is_listed: bool, n_splits: usize) -> Vec<f32> {
    let shape = &case.shape;
    let q = device.upload(&case.q).unwrap();
    let [k, v] = [&case.k, &case.v].map(|values| Cache::upload(device, case.cell, values));
    let n_kv: Vec<usize> = case.seen.iter().map(Vec::len).collect();
    let firsts = (0..n_kv.len()).map(|t| if is_listed { n_kv[..t].iter().sum() } else { case.seen[t][0] });
    let first = device.upload(&as_i32(&firsts.collect::<Vec<_>>())).unwrap();
    let list = device.upload(&as_i32(&case.seen.concat())).unwrap();
    let n_kv = device.upload(&as_i32(&n_kv)).unwrap();
    let cells = is_listed.then(|| list.all());
    let cache = FlashCache { k: k.cells(), v: v.cells(), first: first.all(), cells };
    let mut scratch = device.alloc(shape.n_scratch(n_splits)).unwrap();
    let mut y = device.alloc(shape.n_values()).unwrap();
    let (to, scratch) = (y.all_mut(), scratch.all_mut());
    launch::flash_attn_decode(device, to, scratch, q.all(), &cache, n_kv.all(), n_splits, shape).unwrap();
    device.read(y.all()).unwrap()
}

#[test]
fn heads_and_types_of_every_kind() {
    in_every_order(|device| {
        for (heads, head_dim) in [((2, 1), 32), ((8, 1), 64), ((5, 1), 128), ((6, 1), 256)] {
            for cell in CellType::ALL {
                let case = Case::new(shape(1, heads, head_dim), cell, 80, vec![(3..73).collect()]);
                assert_rounded(&case.what("flash_attn_decode"), &run(device, &case, false, 2), &case.exact());
            }
        }
    });
}

#[test]
fn cells_of_every_number() {
    in_every_order(|device| {
        for n_kv in [1, 31, 33, 64, 65, 129, 200] {
            for n_splits in [1, 3, 8] {
                let seen = vec![(5..5 + n_kv).collect()];
                let case = Case::new(shape(1, (2, 1), 32), CellType::F32, 211, seen);
                assert_rounded(
                    &format!("flash_attn_decode: {n_kv} cells"),
                    &run(device, &case, false, n_splits),
                    &case.exact(),
                );
            }
        }
    });
}

#[test]
fn tokens_have_cells_of_their_own() {
    in_every_order(|device| {
        let seen = vec![scattered(70, 211, 3), scattered(1, 211, 5), scattered(33, 211, 0)];
        let case = Case::new(shape(3, (4, 2), 32), CellType::F16, 211, seen);
        assert_rounded(&case.what("flash_attn_decode"), &run(device, &case, true, 2), &case.exact());
        let seen = vec![(0..70).collect(), (100..101).collect(), (150..183).collect()];
        let case = Case::new(shape(3, (4, 2), 32), CellType::Bf16, 211, seen);
        assert_rounded(&case.what("flash_attn_decode"), &run(device, &case, false, 2), &case.exact());
    });
}

/// What was recorded reads how many cells there are when it runs.
#[test]
fn a_recorded_launch_runs_at_any_position() {
    in_every_order(|device| {
        let shape = shape(1, (2, 1), 32);
        let of = |n: usize| Case::new(shape, CellType::F32, 211, vec![(0..n).collect()]);
        let n_splits = shape.n_splits(device, 200).unwrap();
        let case = of(1);
        let q = device.upload(&case.q).unwrap();
        let [k, v] = [&case.k, &case.v].map(|values| Cache::upload(device, case.cell, values));
        let first = device.zeros::<i32>(1).unwrap();
        let mut n_kv = device.upload(&[1i32]).unwrap();
        let mut scratch = device.alloc(shape.n_scratch(n_splits)).unwrap();
        let mut y = device.alloc(shape.n_values()).unwrap();
        let mut attend = || {
            let cache = FlashCache { k: k.cells(), v: v.cells(), first: first.all(), cells: None };
            let (to, scratch) = (y.all_mut(), scratch.all_mut());
            launch::flash_attn_decode(device, to, scratch, q.all(), &cache, n_kv.all(), n_splits, &shape)
        };
        attend().unwrap();
        let recording = device.record::<GpuError>(attend).unwrap();
        for n in [200, 2, 65] {
            device.write(&mut n_kv.all_mut(), &[n as i32]).unwrap();
            recording.replay().unwrap();
            assert_rounded(
                &format!("flash_attn_decode: {n} cells"),
                &device.read(y.all()).unwrap(),
                &of(n).exact(),
            );
        }
    });
}

#[test]
#[should_panic(expected = "9 heads of q for one of k")]
fn too_many_heads_for_one_of_k_are_refused() {
    in_every_order(|device| {
        run(device, &Case::new(shape(1, (9, 1), 32), CellType::F32, 3, vec![vec![0]]), false, 1);
    });
}

/// A token that fills a batch up reads nothing and harms nobody.
#[test]
fn nothing_visible_is_not_a_number() {
    in_every_order(|device| {
        let case = Case::new(shape(2, (2, 1), 32), CellType::F32, 211, vec![scattered(70, 211, 3), vec![]]);
        let y = run(device, &case, true, 2);
        assert_rounded("flash_attn_decode: the other token", &y[..64], &case.exact()[..64]);
        assert!(y[64..].iter().all(|y| y.is_nan()));
    });
}
