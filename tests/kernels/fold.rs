//! kernels/fold.cu: the bits of `model::Transform`.

use lockstep::engine::gpu::{Buffer, Device, GpuError, launch};
use lockstep::model::{FoldOrder, HeadPermutation, Transform};

use crate::support::{assert_same_bits, in_every_order, values};

pub(crate) fn signs(n: usize) -> Vec<i8> {
    values(n, 77).iter().map(|&x| if x < 0.0 { -1 } else { 1 }).collect()
}

/// What the cpu makes of rows.
pub(crate) fn transformed(x: &[f32], n: usize, transform: &Transform<'_>) -> Vec<f32> {
    let mut x = x.to_vec();
    x.chunks_exact_mut(n).for_each(|row| transform.apply(row));
    x
}

/// Runs a kernel that ends in a fold with and without its plain output; both must be those of the plain kernels.
pub(crate) fn check_folded(
    device: &Device,
    what: &str,
    fold: (usize, &launch::FoldParams<'_>),
    plain: &Buffer<f32>,
    run: impl Fn(launch::Folded<'_>) -> Result<(), GpuError>,
) {
    let (n, params) = fold;
    let total = plain.len();
    let mut expected = device.alloc(total).unwrap();
    launch::fold(device, expected.all_mut(), plain.all(), total / n, n, params).unwrap();
    let [plain, expected] = [plain, &expected].map(|buffer| device.read(buffer.all()).unwrap());
    let [mut y, mut folded] = [total; 2].map(|n| device.alloc(n).unwrap());
    run(launch::Folded { plain: Some(y.all_mut()), folded: folded.all_mut() }).unwrap();
    assert_same_bits(what, &device.read(y.all()).unwrap(), &plain);
    assert_same_bits(&format!("{what}, folded"), &device.read(folded.all()).unwrap(), &expected);
    let mut folded = device.alloc(total).unwrap();
    run(launch::Folded { plain: None, folded: folded.all_mut() }).unwrap();
    assert_same_bits(&format!("{what}, folded alone"), &device.read(folded.all()).unwrap(), &expected);
}

/// Width of a row, block, and the heads of it that are reordered.
type Shape = (usize, usize, Option<[usize; 3]>);

fn check(device: &Device, (n, block, heads): Shape, rows: usize, with_signs: bool) {
    let what = format!("[{rows}, {n}] in blocks of {block}, heads {heads:?}, signs {with_signs}");
    let (x, signs) = (values(rows * n, n as u64), signs(n));
    let transform = Transform {
        order: FoldOrder::SignsThenWht,
        block,
        normalize: with_signs,
        signs: with_signs.then_some(&signs[..]),
        permutation: heads.map(|[n_k, rep, dim]| HeadPermutation::tiled_to_grouped(n_k, rep, dim)),
    };
    let on_device = device.upload(&signs).unwrap();
    let fold = launch::FoldParams {
        block,
        normalize: with_signs,
        signs: with_signs.then_some(on_device.all()),
        heads: heads.map(|[n_k, rep, head_dim]| launch::FoldHeads { n_k, rep, head_dim }),
    };
    let from = device.upload(&x).unwrap();
    let mut to = device.alloc(rows * n).unwrap();
    launch::fold(device, to.all_mut(), from.all(), rows, n, &fold).unwrap();
    let folded = transformed(&x, n, &transform);
    assert_same_bits(&format!("fold of {what}"), &device.read(to.all()).unwrap(), &folded);
    if heads.is_some() {
        return;
    }
    let expected = transformed(&x, n, &Transform { order: FoldOrder::WhtThenSigns, ..transform });
    launch::unfold(device, to.all_mut(), from.all(), rows, n, &fold).unwrap();
    assert_same_bits(&format!("unfold of {what}"), &device.read(to.all()).unwrap(), &expected);
    let mut in_place = device.upload(&x).unwrap();
    launch::unfold_in_place(device, in_place.all_mut(), rows, n, &fold).unwrap();
    assert_same_bits(&format!("unfold in place of {what}"), &device.read(in_place.all()).unwrap(), &expected);
}

#[test]
fn every_block_size() {
    in_every_order(|device| {
        for log_block in 1..=13 {
            let block = 1 << log_block;
            let blocks: &[usize] = if block <= 1024 { &[1, 2, 3, 5] } else { &[1, 2] };
            for &blocks in blocks {
                check(device, (block * blocks, block, None), if block <= 256 { 3 } else { 1 }, true);
            }
            check(device, (block, block, None), 1, false);
        }
    });
}

#[test]
fn widths_of_models() {
    in_every_order(|device| {
        for n in [256, 384, 512] {
            check(device, (n, 128, None), 2, true);
        }
        check(device, (5120, 1024, None), 1, true);
        check(device, (17408, 1024, None), 1, true);
        check(device, (6144, 1024, Some([16, 3, 128])), 1, true);
    });
}

#[test]
fn heads_are_reordered_first() {
    in_every_order(|device| {
        for (n_k, rep, head_dim, block) in [
            (2, 1, 16, 32),
            (2, 3, 128, 128),
            (4, 2, 64, 512),
            (16, 3, 8, 128),
            (3, 2, 10, 4),
            (8, 2, 6, 32),
            (2, 2, 1, 2),
        ] {
            check(device, (n_k * rep * head_dim, block, Some([n_k, rep, head_dim])), 2, true);
        }
    });
}

#[test]
fn parts_that_do_not_lie_on_16_bytes() {
    in_every_order(|device| {
        let (x, signs) = (values(1 + 512, 1), signs(1 + 512));
        let transform = Transform {
            order: FoldOrder::SignsThenWht,
            block: 64,
            normalize: true,
            signs: Some(&signs[1..]),
            permutation: None,
        };
        let (from, on_device) = (device.upload(&x).unwrap(), device.upload(&signs).unwrap());
        let fold =
            launch::FoldParams { signs: Some(on_device.part(1..513)), ..launch::FoldParams::of_block(64) };
        let mut to = device.alloc(512).unwrap();
        launch::fold(device, to.all_mut(), from.part(1..513), 2, 256, &launch::FoldParams::of_block(64))
            .unwrap();
        launch::fold(device, to.all_mut(), from.part(1..513), 1, 512, &fold).unwrap();
        assert_same_bits(
            "fold of what is not aligned",
            &device.read(to.all()).unwrap(),
            &transformed(&x[1..], 512, &transform),
        );
    });
}

#[test]
#[should_panic(expected = "rows of 96 values in blocks of 64")]
fn rows_that_are_no_whole_blocks_are_refused() {
    in_every_order(|device| {
        let (x, mut y) = (device.alloc(96).unwrap(), device.alloc(96).unwrap());
        launch::fold(device, y.all_mut(), x.all(), 1, 96, &launch::FoldParams::of_block(64)).unwrap();
    });
}
