//! kernels/ssm_conv.cu.

use lockstep::engine::gpu::Device;
use lockstep::engine::gpu::launch::{self, ConvShape};
use lockstep::ops::{TapOrder, Tracked, silu, ssm_conv};
use ndarray::{Array2, Array3, ArrayView2, s};

use crate::support::{assert_rounded, assert_same_bits, given, in_every_order, values};

const N_SLOTS: usize = 4;

/// Slots of up to three sequences, in no order.
const SLOTS: [i32; 3] = [2, 0, 3];

struct Case {
    shape: ConvShape,
    states: Vec<f32>, // [N_SLOTS, channels, d_conv - 1]
    qkv: Vec<f32>,
    kernel: Vec<f32>,
}

impl Case {
    fn new(n_seqs: usize, n_tokens: usize, channels: usize, d_conv: usize) -> Case {
        let shape = ConvShape { n_seqs, n_tokens, channels, d_conv };
        Case {
            shape,
            states: values(N_SLOTS * shape.n_state(), 1),
            qkv: values(shape.n_values(), 2),
            kernel: values(channels * d_conv, 3),
        }
    }

    /// `conv_input` `[n_seqs, channels, d_conv - 1 + n_tokens]`.
    fn input(&self) -> Array3<f32> {
        let ConvShape { n_seqs, n_tokens, channels, d_conv } = self.shape;
        Array3::from_shape_fn((n_seqs, channels, d_conv - 1 + n_tokens), |(s, c, i)| {
            match i.checked_sub(d_conv - 1) {
                None => self.states[(SLOTS[s] as usize * channels + c) * (d_conv - 1) + i],
                Some(t) => self.qkv[(s * n_tokens + t) * channels + c],
            }
        })
    }

    /// What the convolution of each sequence gives, one after the other.
    fn exact<T: lockstep::ops::Number>(&self, of: impl Fn(f32) -> T + Copy) -> Vec<T> {
        let ConvShape { channels, d_conv, .. } = self.shape;
        let kernel: Vec<T> = self.kernel.iter().map(|&x| of(x)).collect();
        let kernel = ArrayView2::from_shape((channels, d_conv), &kernel).unwrap();
        let convolved = |window: ArrayView2<'_, f32>| -> Array2<T> {
            ssm_conv(window.mapv(of).t(), kernel, TapOrder::OldestFirst)
        };
        self.input()
            .outer_iter()
            .flat_map(|window| convolved(window).into_iter().collect::<Vec<_>>())
            .collect()
    }

    /// All states, those of the sequences as they are behind `n` tokens in `slots`.
    fn states_behind(&self, n: usize, slots: &[i32]) -> Vec<f32> {
        let mut states = self.states.clone();
        let n_state = self.shape.n_state();
        for (window, &slot) in self.input().outer_iter().zip(slots) {
            let left = window.slice(s![.., n..n + self.shape.d_conv - 1]);
            let to = &mut states[slot as usize * n_state..][..n_state];
            to.iter_mut().zip(left).for_each(|(to, &x)| *to = x);
        }
        states
    }

    fn check_apart(&self, device: &Device, what: &str) {
        let shape = &self.shape;
        let slots = device.upload(&SLOTS[..shape.n_seqs]).unwrap();
        let mut states = device.upload(&self.states).unwrap();
        let (qkv, kernel) = (device.upload(&self.qkv).unwrap(), device.upload(&self.kernel).unwrap());
        let mut input = device.alloc(shape.n_input()).unwrap();
        let mut y = device.alloc(shape.n_values()).unwrap();
        launch::conv_input(device, input.all_mut(), states.all(), slots.all(), qkv.all(), shape).unwrap();
        launch::ssm_conv(device, y.all_mut(), input.all(), kernel.all(), shape).unwrap();
        let expected: Vec<f32> = self.input().into_iter().collect();
        assert_same_bits(&format!("conv_input of {what}"), &device.read(input.all()).unwrap(), &expected);
        assert_same_bits(&format!("ssm_conv of {what}"), &device.read(y.all()).unwrap(), &self.exact(|x| x));
        for n in [0, shape.n_tokens] {
            launch::conv_state(device, states.all_mut(), slots.all(), input.all(), n, shape).unwrap();
            let expected = self.states_behind(n, &SLOTS[..shape.n_seqs]);
            assert_same_bits(
                &format!("conv_state of {what}"),
                &device.read(states.all()).unwrap(),
                &expected,
            );
        }
    }

    /// The fused kernel: the bits of the plain ones, up to the silu.
    fn check_fused(&self, device: &Device, what: &str, to: &[i32]) {
        let what = &format!("ssm_conv_silu of {what}");
        let shape = &self.shape;
        let from = device.upload(&SLOTS[..shape.n_seqs]).unwrap();
        let to_slots = device.upload(&to[..shape.n_seqs]).unwrap();
        let mut states = device.upload(&self.states).unwrap();
        let (qkv, kernel) = (device.upload(&self.qkv).unwrap(), device.upload(&self.kernel).unwrap());
        let mut y = device.alloc(shape.n_values()).unwrap();
        launch::ssm_conv_silu(
            device,
            y.all_mut(),
            states.all_mut(),
            from.all(),
            to_slots.all(),
            qkv.all(),
            kernel.all(),
            shape,
        )
        .unwrap();
        let plain = device.upload(&self.exact(|x| x)).unwrap();
        let mut expected = device.alloc(shape.n_values()).unwrap();
        launch::silu(device, expected.all_mut(), plain.all()).unwrap();
        let y = device.read(y.all()).unwrap();
        assert_same_bits(what, &y, &device.read(expected.all()).unwrap());
        let exact: Vec<Tracked> = self.exact(|x| given(&[x])[0]).into_iter().map(silu).collect();
        assert_rounded(what, &y, &exact);
        let expected = self.states_behind(shape.n_tokens, &to[..shape.n_seqs]);
        assert_same_bits(what, &device.read(states.all()).unwrap(), &expected);
    }
}

#[test]
fn a_convolution_of_every_size() {
    in_every_order(|device| {
        for d_conv in 2..=8 {
            for (n_seqs, n_tokens, channels) in [(1, 1, 33), (3, 2, 5), (2, 33, 7)] {
                let case = Case::new(n_seqs, n_tokens, channels, d_conv);
                case.check_apart(device, &format!("{:?}", case.shape));
                case.check_fused(device, &format!("{:?}", case.shape), &SLOTS);
            }
        }
        for (n_seqs, n_tokens, channels) in [(1, 3, 257), (3, 31, 3), (1, 65, 31), (2, 32, 2)] {
            let case = Case::new(n_seqs, n_tokens, channels, 4);
            case.check_apart(device, &format!("{:?}", case.shape));
            case.check_fused(device, &format!("{:?}", case.shape), &SLOTS);
        }
    });
}

#[test]
fn a_state_may_go_to_another_slot() {
    in_every_order(|device| {
        for n_tokens in [1, 2, 3, 33] {
            let case = Case::new(1, n_tokens, 40, 4);
            case.check_fused(device, &format!("{:?}", case.shape), &[1]);
        }
    });
}

#[test]
#[should_panic(expected = "9 taps")]
fn nine_taps_are_refused() {
    in_every_order(|device| Case::new(1, 1, 1, 9).check_apart(device, "nine taps"));
}
