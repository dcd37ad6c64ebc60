//! f32 in the order of operations of a build of ggml-cpu: operators that are run in this type give its bits.

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Rem, Sub};

use bytemuck::{Pod, Zeroable};

use super::{Number, Real};
use crate::arithmetic::{self, Ggml, Isa, Product, RopeAngles};
use crate::ops::{Rope, Turn};
use crate::tensor::Values;

/// A single-precision number of a build whose vector code takes this many at a time: 4 is a scalar build's, 8 that
/// of AVX2, 16 that of AVX-512.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Single<const LANES: usize>(f32);

impl<const LANES: usize> Single<LANES> {
    /// The build.
    pub const ISA: Isa = match LANES {
        4 => Isa::Sse2,
        8 => Isa::Avx2,
        16 => Isa::Avx512,
        _ => panic!("no build has registers of that many lanes"),
    };

    fn ggml() -> Ggml {
        Ggml { isa: Self::ISA, llamafile: false, reference_kernels: false, repack: false, n_threads: 1 }
    }

    fn plain(row: &[Self]) -> &[f32] {
        bytemuck::cast_slice(row)
    }

    fn plain_mut(row: &mut [Self]) -> &mut [f32] {
        bytemuck::cast_slice_mut(row)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:tt) => {
        impl<const LANES: usize> $trait for Single<LANES> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Single(self.0 $op other.0)
            }
        }
    };
}

operator!(Add, add, +);
operator!(Sub, sub, -);
operator!(Mul, mul, *);
operator!(Div, div, /);
operator!(Rem, rem, %);

impl<const LANES: usize> Neg for Single<LANES> {
    type Output = Self;
    fn neg(self) -> Self {
        Single(-self.0)
    }
}

impl<const LANES: usize> AddAssign for Single<LANES> {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl<const LANES: usize> Sum for Single<LANES> {
    fn sum<I: Iterator<Item = Self>>(numbers: I) -> Self {
        numbers.fold(Self::ZERO, Add::add)
    }
}

impl<const LANES: usize> PartialOrd for Single<LANES> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl<const LANES: usize> num_traits::Zero for Single<LANES> {
    fn zero() -> Self {
        Self::ZERO
    }
    fn is_zero(&self) -> bool {
        self.0 == 0.0
    }
}

impl<const LANES: usize> num_traits::One for Single<LANES> {
    fn one() -> Self {
        Self::ONE
    }
}

impl<const LANES: usize> Number for Single<LANES> {
    const ZERO: Self = Single(0.0);
    const ONE: Self = Single(1.0);

    fn from_f32(x: f32) -> Self {
        Single(x)
    }

    fn from_f64(x: f64) -> Self {
        Single(x as f32)
    }

    fn to_f64(self) -> f64 {
        self.0.into()
    }

    fn exp(self) -> Self {
        Single(self.0.exp())
    }

    fn ln(self) -> Self {
        Single(self.0.ln())
    }

    fn sqrt(self) -> Self {
        Single(self.0.sqrt())
    }

    fn cast_row<'a>(row: &'a [f32], _: &'a mut Vec<Self>) -> &'a [Self] {
        bytemuck::cast_slice(row)
    }

    fn inverse_sqrt(n: usize) -> Self {
        Single(1.0 / (n as f32).sqrt())
    }

    fn dot(x: &[Self], y: &[Self]) -> Self {
        Single(arithmetic::dot_f32(Self::ISA, Self::plain(x), Self::plain(y)))
    }

    fn product(how: Product, x: &[Self], y: &[Self]) -> Self {
        Single(how.dot(Self::ISA, Self::plain(x), Self::plain(y)))
    }

    /// As a product of the values, transposed, with the weights: what is not seen weighs nothing.
    fn weighted_sum<'r>(
        how: Product,
        weights: &[Self],
        _: &[usize],
        row: impl Fn(usize) -> &'r [Self],
        sum: &mut [Self],
    ) {
        let mut values = vec![Self::ZERO; weights.len()];
        for (d, sum) in sum.iter_mut().enumerate() {
            values.iter_mut().enumerate().for_each(|(cell, value)| *value = row(cell)[d]);
            *sum = Self::product(how, &values, weights);
        }
    }

    fn in_order(x: &[Self], y: &[Self]) -> Self {
        Single(arithmetic::conv(Self::ISA, Self::plain(x), Self::plain(y)))
    }

    fn mad(row: &mut [Self], x: &[Self], factor: Self) {
        arithmetic::mad(Self::ISA, Self::plain_mut(row), Self::plain(x), factor.0);
    }

    fn rms_norm(row: &mut [Self], eps: f64) {
        arithmetic::rms_norm(Self::plain_mut(row), eps as f32);
    }

    fn l2_norm(row: &mut [Self], eps: f64) {
        arithmetic::l2_norm(Self::plain_mut(row), eps as f32);
    }

    fn silu(row: &mut [Self]) {
        arithmetic::silu_row(Self::ggml(), Self::plain_mut(row));
    }

    fn soft_max(row: &mut [Self], scale: Self, visible: impl Fn(usize) -> bool) {
        let mask = (0..row.len()).map(|j| if visible(j) { 0.0 } else { f32::NEG_INFINITY });
        let mask: Vec<f32> = mask.collect();
        arithmetic::soft_max(Self::ggml(), Self::plain_mut(row), scale.0, Some((1.0, &mask)), None);
    }

    fn turn(rope: &Rope, turn: &Turn) -> (Self, Self) {
        let angles = RopeAngles {
            n_dims: rope.n_dims,
            freq_base: rope.freq_base as f32,
            freq_scale: 1.0,
            ext_factor: 0.0,
            attn_factor: 1.0,
            ramp: [0.0, 0.0],
            factors: None,
        };
        let (cos, sin) = angles.turn(Self::ISA, turn.power, turn.position as f32, turn.power);
        (Single(cos), Single(sin))
    }

    fn rotate((a, b): (Self, Self), (cos, sin): (Self, Self)) -> (Self, Self) {
        let (a, b) = arithmetic::rotate(Self::ISA, (a.0, b.0), (cos.0, sin.0));
        (Single(a), Single(b))
    }
}

impl<const LANES: usize> Real for Single<LANES> {
    fn values(packed: &[Self]) -> Values<'_> {
        Values::F32(Self::plain(packed))
    }

    const NAME: &'static str = match LANES {
        4 => "ggml scalar",
        8 => "ggml AVX2",
        _ => "ggml AVX-512",
    };

    const ISA: Option<Isa> = Some(Self::ISA);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_run_in_the_order_of_the_build() {
        let a = 1.0 + 2f32.powi(-12);
        fn in_order<const LANES: usize>(a: f32) -> f64 {
            Single::<LANES>::in_order(&[Single(-1.0), Single(a)], &[Single(1.0), Single(a)]).to_f64()
        }
        assert_eq!(in_order::<4>(a), 2f64.powi(-11));
        assert_eq!(in_order::<8>(a), 2f64.powi(-11) + 2f64.powi(-24));
        assert_eq!(in_order::<16>(a), 2f64.powi(-11) + 2f64.powi(-24));
        let mut row = [Single::<8>(3.0), Single(4.0)];
        Single::l2_norm(&mut row, 0.0);
        assert_eq!(row, [Single(3.0 * 0.2), Single(4.0 * 0.2)]);
    }

    #[test]
    fn what_is_not_visible_has_no_share_and_is_not_added() {
        let mut row = [Single::<8>(1.0); 3];
        Single::soft_max(&mut row, Single(2.0), |j| j < 2);
        assert_eq!(row.map(Number::to_f64), [0.5, 0.5, 0.0]);
        let rows = [[Single(1.0)], [Single(2.0)], [Single(9.0)]];
        let mut sum = [Single(0.0)];
        Single::weighted_sum(Product::default(), &row, &[0, 1], |cell| &rows[cell], &mut sum);
        assert_eq!(sum[0].to_f64(), 1.5);
    }
}
