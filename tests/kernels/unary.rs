//! kernels/unary.cu.

use lockstep::engine::gpu::launch;
use lockstep::ops::silu;

use crate::support::{assert_rounded, given, in_every_order, values};

#[test]
fn silu_of_every_size() {
    in_every_order(|device| {
        for n in [1, 31, 33, 1025] {
            let x: Vec<f32> = values(n, 1).iter().map(|x| x * 30.0).collect();
            let from = device.upload(&x).unwrap();
            let mut to = device.alloc(n).unwrap();
            launch::silu(device, to.all_mut(), from.all()).unwrap();
            let exact: Vec<_> = given(&x).into_iter().map(silu).collect();
            assert_rounded(&format!("silu of {n}"), &device.read(to.all()).unwrap(), &exact);
        }
    });
}
