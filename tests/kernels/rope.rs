//! kernels/rope.cu.

use lockstep::engine::gpu::Device;
use lockstep::engine::gpu::launch::{self, RopeShape, rope_table};
use lockstep::ops::{Number, Rope, RopePairing, RopeSections, rms_norm};
use ndarray::Array3;

use crate::support::{assert_rounded, assert_same_bits, given, in_every_order, values};

const EPS: f32 = 1e-6;

/// The table's first position; a context is not longer.
const FAR_OUT: i64 = 262_100;

struct Case {
    shape: RopeShape,
    rope: Rope,
    x: Vec<f32>,
    positions: Vec<i32>, // rows of the table
    weight: Vec<f32>,
}

impl Case {
    fn new(shape: RopeShape) -> Case {
        let RopeShape { n_tokens, n_head, head_dim, n_rot, token_stride, head_stride } = shape;
        let n = (n_tokens - 1) * token_stride + (n_head - 1) * head_stride + head_dim;
        Case {
            shape,
            rope: Rope {
                n_dims: n_rot,
                freq_base: 1e7,
                sections: [11, 11, 10, 0],
                layout: RopeSections::Interleaved,
                pairing: RopePairing::Half,
            },
            x: values(n, 1),
            positions: (0..n_tokens as i32).map(|t| (7 * t + 3) % 40).collect(),
            weight: values(head_dim, 2),
        }
    }

    fn heads<T: Number>(&self, of: impl Fn(f32) -> T) -> Array3<T> {
        let RopeShape { n_tokens, n_head, head_dim, token_stride, head_stride, .. } = self.shape;
        Array3::from_shape_fn((n_tokens, n_head, head_dim), |(t, h, i)| {
            of(self.x[t * token_stride + h * head_stride + i])
        })
    }

    fn rotate<T: Number>(&self, heads: &mut Array3<T>) {
        let at = |&row: &i32| FAR_OUT + i64::from(row);
        let positions: Vec<[i64; 4]> = self.positions.iter().map(at).map(|p| [p, p, p, 0]).collect();
        self.rope.rotate(heads.view_mut(), &positions);
    }

    /// What is rotated, and what is normed and rotated.
    fn run(&self, device: &Device) -> [Vec<f32>; 2] {
        let RopeShape { n_tokens, n_head, head_dim, .. } = self.shape;
        let x = device.upload(&self.x).unwrap();
        let weight = device.upload(&self.weight).unwrap();
        let positions = device.upload(&self.positions).unwrap();
        let table = device.upload(&rope_table(&self.rope, FAR_OUT..FAR_OUT + 40)).unwrap();
        let mut y = device.alloc(n_tokens * n_head * head_dim).unwrap();
        launch::rope(device, y.all_mut(), x.all(), positions.all(), table.all(), &self.shape).unwrap();
        let rotated = device.read(y.all()).unwrap();
        let mut y = device.alloc(n_tokens * n_head * head_dim).unwrap();
        launch::qk_norm_rope(
            device,
            y.all_mut(),
            x.all(),
            weight.all(),
            positions.all(),
            table.all(),
            &self.shape,
            EPS,
        )
        .unwrap();
        [rotated, device.read(y.all()).unwrap()]
    }

    fn check(&self, device: &Device) {
        let what = format!("{:?}", self.shape);
        let [rotated, normed] = self.run(device);
        let mut expected = self.heads(|x| x);
        self.rotate(&mut expected);
        assert_same_bits(&format!("rope of {what}"), &rotated, expected.as_slice().unwrap());
        let mut exact = self.heads(|x| given(&[x])[0]);
        rms_norm(&mut exact, f64::from(EPS));
        for mut head in exact.rows_mut() {
            head.iter_mut().zip(given(&self.weight)).for_each(|(x, weight)| *x = *x * weight);
        }
        self.rotate(&mut exact);
        assert_rounded(&format!("qk_norm_rope of {what}"), &normed, exact.as_slice().unwrap());
    }
}

#[test]
fn heads_of_every_shape() {
    in_every_order(|device| {
        for (n_tokens, n_head, head_dim, n_rot) in
            [(1, 1, 8, 8), (2, 3, 33, 10), (3, 2, 128, 128), (5, 1, 64, 2), (1, 5, 256, 64)]
        {
            Case::new(RopeShape::packed(n_tokens, n_head, head_dim, n_rot)).check(device);
        }
    });
}

#[test]
fn heads_may_lie_apart() {
    in_every_order(|device| {
        // A query and its gate for each head.
        let packed = RopeShape::packed(3, 2, 64, 16);
        Case::new(RopeShape { token_stride: 4 * 64, head_stride: 2 * 64, ..packed }).check(device);
    });
}

/// The bits of the norm, the weight and the rotation one after the other.
#[test]
fn a_norm_in_the_same_launch_changes_no_bit() {
    in_every_order(|device| {
        for (n_head, head_dim, n_rot) in [(3, 256, 64), (2, 33, 10), (1, 128, 128)] {
            let case = Case::new(RopeShape::packed(2, n_head, head_dim, n_rot));
            let x = device.upload(&case.x).unwrap();
            let weight = device.upload(&case.weight).unwrap();
            let mut normed = device.alloc(case.x.len()).unwrap();
            launch::rms_norm_weighted(
                device,
                normed.all_mut(),
                x.all(),
                weight.all(),
                [2 * n_head, head_dim],
                EPS,
            )
            .unwrap();
            let apart = Case { x: device.read(normed.all()).unwrap(), ..Case::new(case.shape) };
            let ([expected, _], [_, actual]) = (apart.run(device), case.run(device));
            assert_same_bits(&format!("qk_norm_rope of {:?}", case.shape), &actual, &expected);
        }
    });
}
