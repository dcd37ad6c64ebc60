//! kernels/kv_append.cu.

use lockstep::engine::gpu::launch::{self, CellsMut};

use crate::cells::{Cache, CellType};
use crate::support::{assert_same_bits, in_every_order, values};

#[test]
fn rows_go_to_their_cells() {
    in_every_order(|device| {
        for cell in CellType::ALL {
            for n in [1, 33, 257] {
                let cells = [4, 0, 3];
                let old = values(6 * n, 1).iter().map(|&x| cell.rounded(x)).collect::<Vec<_>>();
                let rows = [values(3 * n, 2), values(3 * n, 3)];
                let mut caches = [Cache::upload(device, cell, &old), Cache::upload(device, cell, &old)];
                let [k, v] = rows.each_ref().map(|rows| device.upload(rows).unwrap());
                let at = device.upload(&cells).unwrap();
                let [k_cache, v_cache] = &mut caches;
                launch::kv_append(
                    device,
                    k_cache.cells_mut(),
                    v_cache.cells_mut(),
                    k.all(),
                    v.all(),
                    at.all(),
                )
                .unwrap();
                for (cache, rows) in caches.iter().zip(&rows) {
                    let mut expected = old.clone();
                    for (row, &at) in rows.chunks(n).zip(&cells) {
                        let to = &mut expected[at as usize * n..][..n];
                        to.iter_mut().zip(row).for_each(|(to, &x)| *to = cell.rounded(x));
                    }
                    assert_same_bits(&format!("kv_append: {cell:?} {n}"), &cache.read(device), &expected);
                }
            }
        }
    });
}

#[test]
#[should_panic(expected = "caches of two types")]
fn caches_of_two_types_are_refused() {
    in_every_order(|device| {
        let (mut k, mut v) = (device.zeros::<f32>(4).unwrap(), device.zeros::<u16>(4).unwrap());
        let (row, at) = (device.zeros::<f32>(4).unwrap(), device.zeros::<i32>(1).unwrap());
        let (k, v) = (CellsMut::F32(k.all_mut()), CellsMut::F16(v.all_mut()));
        launch::kv_append(device, k, v, row.all(), row.all(), at.all()).unwrap();
    });
}
