//! kernels/copy.cu.

use lockstep::engine::gpu::launch;

use crate::support::{assert_same_bits, in_every_order, values};

#[test]
fn rows_of_a_view() {
    in_every_order(|device| {
        for (rows, n, stride, at) in
            [(1, 1, 1, 0), (5, 3, 7, 2), (4, 8, 16, 8), (3, 8, 16, 3), (33, 31, 31, 0), (2, 1028, 1032, 4)]
        {
            let x = values(at + (rows - 1) * stride + n, 1);
            let from = device.upload(&x).unwrap();
            let mut to = device.alloc(rows * n).unwrap();
            launch::copy_rows(device, to.all_mut(), from.part(at..x.len()), n, stride).unwrap();
            let expected: Vec<f32> = (0..rows).flat_map(|row| x[at + row * stride..][..n].to_vec()).collect();
            let what = format!("copy_rows: {rows} rows of {n}, {stride} apart, from {at}");
            assert_same_bits(&what, &device.read(to.all()).unwrap(), &expected);
        }
    });
}

#[test]
fn rows_by_their_numbers() {
    in_every_order(|device| {
        for n in [1, 4, 31, 1028] {
            let x = values(5 * n, 1);
            let ids = [4, 0, 0, 3];
            let (from, at) = (device.upload(&x).unwrap(), device.upload(&ids).unwrap());
            let mut to = device.alloc(4 * n).unwrap();
            launch::gather_rows(device, to.all_mut(), from.all(), at.all(), n).unwrap();
            let expected: Vec<f32> = ids.iter().flat_map(|&id| x[id as usize * n..][..n].to_vec()).collect();
            assert_same_bits(&format!("gather_rows of {n}"), &device.read(to.all()).unwrap(), &expected);
        }
    });
}

#[test]
fn a_row_that_is_not_there_is_no_number() {
    in_every_order(|device| {
        for n in [3, 4] {
            let (from, at) = (device.upload(&values(2 * n, 1)).unwrap(), device.upload(&[-1, 1, 2]).unwrap());
            let mut to = device.alloc(3 * n).unwrap();
            launch::gather_rows(device, to.all_mut(), from.all(), at.all(), n).unwrap();
            let y = device.read(to.all()).unwrap();
            let are_nan: Vec<bool> = y.iter().map(|y: &f32| y.is_nan()).collect();
            assert_eq!(are_nan, [vec![true; n], vec![false; n], vec![true; n]].concat(), "gather_rows");
        }
    });
}
