//! The arithmetic as a value: one function for each primitive that operators are made of.
//!
//! Operators take it as a parameter, so that what an operator means stands once, and how it rounds can be changed function by
//! function: a replay with one of these in another order shows at exactly the operators that use it.

use super::{
    Activation, DeltaToken, Factor, FlashSum, Ggml, Isa, Kernel, Mask, Pair, RopeAngles, conv, cumsum,
    delta_token, fwht, gelu, gelu_quick, l2_norm, norm, rms_norm, rotate, scale_and_bias, silu_row, soft_max,
    solve_tri, sum, swiglu_row,
};
use crate::tensor::GgmlType;

/// One function for each primitive; the functions of those names say what they compute.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the fields are the functions of those names
pub struct Primitives {
    /// An activation in the type that goes with weights: [`Kernel::take`].
    pub activation: fn(Kernel, Isa, GgmlType, &[f32]) -> Option<Activation>,
    /// A dot product, by kernel and pair of types: [`Kernel::dot`].
    pub dot: fn(Kernel, Isa, &Factor, &Activation) -> Option<f32>,
    pub fwht: fn(&mut [f32]),
    pub silu_row: fn(Ggml, &mut [f32]),
    pub swiglu_row: fn(Ggml, &mut [f32], &[f32]),
    pub gelu: fn(Ggml, f32) -> f32,
    pub gelu_quick: fn(f32) -> f32,
    pub soft_max: fn(Ggml, &mut [f32], f32, Mask<'_>, Option<f32>),
    pub rms_norm: fn(&mut [f32], f32),
    pub l2_norm: fn(&mut [f32], f32),
    pub norm: fn(Ggml, &mut [f32], f32),
    pub scale_and_bias: fn(Ggml, &mut [f32], f32, f32),
    pub sum: fn(&[f32]) -> f32,
    pub cumsum: fn(&mut [f32]),
    /// Cosine and sine of a pair: [`RopeAngles::turn`].
    pub turn: fn(&RopeAngles, Isa, usize, f32, usize) -> Pair,
    pub rotate: fn(Isa, Pair, Pair) -> Pair,
    pub conv: fn(Isa, &[f32], &[f32]) -> f32,
    /// One more key of an attention: [`FlashSum::add_key`].
    pub flash_key: fn(&mut FlashSum, Isa, f32, &[f32], bool),
    pub delta_token: for<'a> fn(Ggml, &mut [f32], DeltaToken<'a>) -> Vec<f32>,
    pub solve_tri: fn(Isa, &[f32], &[f32], usize) -> Vec<f32>,
}

/// ggml-cpu's.
pub const GGML_CPU: Primitives = Primitives {
    activation: Kernel::take,
    dot: Kernel::dot,
    fwht,
    silu_row,
    swiglu_row,
    gelu,
    gelu_quick,
    soft_max,
    rms_norm,
    l2_norm,
    norm,
    scale_and_bias,
    sum,
    cumsum,
    turn: RopeAngles::turn,
    rotate,
    conv,
    flash_key: FlashSum::add_key,
    delta_token,
    solve_tri,
};
