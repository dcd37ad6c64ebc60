//! kernels/attn_combine_fold.cu: the bits of the plain kernels.

use lockstep::engine::gpu::launch::{self, FlashCache, FlashShape, FoldParams, Folded};
use lockstep::engine::gpu::{Buffer, Device, GpuError};

use crate::cells::{Cache, CellType};
use crate::fold::{check_folded, signs};
use crate::support::{assert_same_bits, in_every_order, values};

/// Queries, keys, values and gates of tokens that each see cells from 0 on.
struct Inputs {
    shape: FlashShape,
    q: Buffer<f32>,
    k: Cache,
    v: Cache,
    first: Buffer<i32>,
    q_full: Buffer<f32>,
}

impl Inputs {
    fn new(device: &Device, (n_head, n_head_kv): (usize, usize), head_dim: usize, rows: usize) -> Inputs {
        let scale = 1.7 / (head_dim as f32).sqrt();
        let shape = FlashShape { n_seqs: 1, n_tokens: rows, n_head, n_head_kv, head_dim, scale };
        let cells = values(700 * n_head_kv * head_dim, 2);
        let [k, v] = [CellType::F16; 2].map(|cell| {
            let rounded: Vec<f32> = cells.iter().map(|&x| cell.rounded(x)).collect();
            Cache::upload(device, cell, &rounded)
        });
        let q = device.upload(&values(shape.n_values(), 1)).unwrap();
        let q_full = device.upload(&values(1 + 2 * shape.n_values(), 5)).unwrap();
        Inputs { shape, q, k, v, first: device.zeros(rows).unwrap(), q_full }
    }

    fn cache(&self) -> FlashCache<'_> {
        FlashCache { k: self.k.cells(), v: self.v.cells(), first: self.first.all(), cells: None }
    }

    /// The gated output of the plain kernels.
    fn plain(&self, device: &Device, n_kv: &Buffer<i32>, n_splits: usize, gates_at: usize) -> Buffer<f32> {
        let shape = &self.shape;
        let mut scratch = device.alloc(shape.n_scratch(n_splits)).unwrap();
        let [mut x, mut y] = [(); 2].map(|()| device.alloc(shape.n_values()).unwrap());
        let (to, scratch, q) = (x.all_mut(), scratch.all_mut(), self.q.all());
        launch::flash_attn_decode(device, to, scratch, q, &self.cache(), n_kv.all(), n_splits, shape)
            .unwrap();
        let q_full = self.q_full.part(gates_at..gates_at + 2 * shape.n_values());
        launch::sigmoid_mul(device, y.all_mut(), x.all(), q_full, shape.head_dim).unwrap();
        y
    }

    /// The same by the kernel under test; both launches.
    fn combined(
        &self,
        device: &Device,
        to: Folded<'_>,
        (n_kv, n_splits): (&Buffer<i32>, usize),
        gates_at: usize,
        fold: &FoldParams<'_>,
    ) -> Result<(), GpuError> {
        let shape = &self.shape;
        let mut scratch = device.alloc(shape.n_scratch(n_splits))?;
        let (q, cache, n_kv) = (self.q.all(), self.cache(), n_kv.all());
        launch::flash_attn_decode_splits(device, &mut scratch.all_mut(), q, &cache, n_kv, n_splits, shape)?;
        let q_full = self.q_full.part(gates_at..gates_at + 2 * shape.n_values());
        launch::attn_combine_fold(device, to, (scratch.all(), n_splits), q_full, n_kv, shape, fold)
    }
}

#[test]
fn splits_combined_gated_and_folded_in_one_launch() {
    in_every_order(|device| {
        for (heads, head_dim, block, n_kv, n_splits) in [
            ((1, 1), 32, 2, &[70, 1][..], 2),
            ((12, 2), 32, 128, &[1, 64, 65], 11),
            ((6, 1), 64, 128, &[700], 11),
            ((3, 1), 128, 128, &[200, 33], 3),
            ((5, 1), 128, 64, &[100], 1),
            ((6, 1), 256, 512, &[130], 3),
            ((24, 4), 256, 1024, &[70], 2),
            ((8, 1), 256, 2048, &[65], 2),
            ((16, 2), 256, 4096, &[65], 2),
        ] {
            let rows = n_kv.len();
            let inputs = Inputs::new(device, heads, head_dim, rows);
            let n = inputs.shape.n_values() / rows;
            let n_kv = device.upload(n_kv).unwrap();
            let on_device = device.upload(&signs(n)).unwrap();
            // Gates that do not lie on 16 bytes, and no signs, in every second case.
            let at = rows % 2;
            let signs = (at == 0 || block > 512).then(|| on_device.all());
            let fold = FoldParams { signs, ..FoldParams::of_block(block) };
            let plain = inputs.plain(device, &n_kv, n_splits, at);
            let what = format!(
                "attn_combine_fold: {rows} rows of {heads:?} heads of {head_dim}, block {block}, {n_splits} splits"
            );
            check_folded(device, &what, (n, &fold), &plain, |to| {
                inputs.combined(device, to, (&n_kv, n_splits), at, &fold)
            });
        }
    });
}

/// What was recorded reads how many cells there are when it runs, and leaves splits without cells alone.
#[test]
fn a_recorded_launch_runs_at_any_position() {
    in_every_order(|device| {
        let inputs = Inputs::new(device, (4, 1), 32, 1);
        let (shape, n, n_splits) = (&inputs.shape, 128, 11);
        let fold = FoldParams::of_block(128);
        let mut n_kv = device.upload(&[700i32]).unwrap();
        let mut scratch = device.alloc(shape.n_scratch(n_splits)).unwrap();
        let mut folded = device.alloc(n).unwrap();
        let q_full = inputs.q_full.part(0..2 * n);
        let mut attend = || {
            let (q, cache, n_kv) = (inputs.q.all(), inputs.cache(), n_kv.all());
            let to = &mut scratch.all_mut();
            launch::flash_attn_decode_splits(device, to, q, &cache, n_kv, n_splits, shape)?;
            let to = Folded { plain: None, folded: folded.all_mut() };
            launch::attn_combine_fold(device, to, (scratch.all(), n_splits), q_full, n_kv, shape, &fold)
        };
        attend().unwrap();
        let recording = device.record::<GpuError>(attend).unwrap();
        for now in [2, 650, 65] {
            device.write(&mut n_kv.all_mut(), &[now]).unwrap();
            recording.replay().unwrap();
            let plain = inputs.plain(device, &n_kv, n_splits, 0);
            let mut expected = device.alloc(n).unwrap();
            launch::fold(device, expected.all_mut(), plain.all(), 1, n, &fold).unwrap();
            let [folded, expected] = [&folded, &expected].map(|buffer| device.read(buffer.all()).unwrap());
            assert_same_bits(&format!("attn_combine_fold: {now} cells"), &folded, &expected);
        }
    });
}

#[test]
#[should_panic(expected = "attn_combine_fold: blocks of 8192")]
fn blocks_that_take_more_threads_than_there_are_registers_for_are_refused() {
    in_every_order(|device| {
        let inputs = Inputs::new(device, (32, 4), 256, 1);
        let (n_kv, fold) = (device.zeros(1).unwrap(), FoldParams::of_block(8192));
        assert!(!launch::combine_fits(&fold) && launch::combine_fits(&FoldParams::of_block(4096)));
        let mut folded = device.alloc(8192).unwrap();
        let to = Folded { plain: None, folded: folded.all_mut() };
        inputs.combined(device, to, (&n_kv, 1), 0, &fold).unwrap();
    });
}

#[test]
#[should_panic(expected = "scratch for 3 splits")]
fn too_little_scratch_is_refused() {
    in_every_order(|device| {
        let inputs = Inputs::new(device, (4, 1), 32, 1);
        let (n_kv, scratch) = (device.zeros(1).unwrap(), device.zeros(inputs.shape.n_scratch(2)).unwrap());
        let mut folded = device.alloc(128).unwrap();
        let to = Folded { plain: None, folded: folded.all_mut() };
        let (q_full, fold) = (inputs.q_full.part(0..256), FoldParams::of_block(128));
        let scratch = (scratch.all(), 3);
        launch::attn_combine_fold(device, to, scratch, q_full, n_kv.all(), &inputs.shape, &fold).unwrap();
    });
}
