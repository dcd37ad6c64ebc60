//! The steps of ggml-cpu's FLASH_ATTN_EXT (`ggml_compute_forward_flash_attn_ext_f16` and what it calls, ops.cpp): which of its
//! kernels is taken, a logit, and the sum of weighted values that goes from key to key, or from tile to tile.

use half::f16;

use super::exp::exp_row;
use super::{Ggml, Isa, mad, scale};
use crate::tensor::GgmlType;

/// Tokens from which on the tiled kernel is taken, and keys of a tile (`ggml_fa_tile_config`, common.h).
const Q_TILE: u64 = 64;
/// Keys that a tile holds.
pub const KV_TILE: usize = 64;
/// Keys from which on those of a single token are divided among the threads.
const SPLIT_FROM: u64 = 512;

/// An attention, as far as it decides how it is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashShape {
    /// The types of queries, keys and values.
    pub types: [GgmlType; 3],
    /// Tokens, of each head and batch.
    pub tokens: u64,
    /// Batches.
    pub batches: u64,
    /// Keys, masked ones too.
    pub n_kv: u64,
}

/// The code that attends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlashKernel {
    /// `ggml_compute_forward_flash_attn_ext_f16_one_chunk`, key by key.
    OneChunk,
    /// The same over as many parts of the keys as there are threads, whose results are joined (`ggml_flash_attn_ext_reduce_partials`).
    Split,
    /// `ggml_compute_forward_flash_attn_ext_tiled`: all in f32, 64 keys at once.
    Tiled,
}

impl FlashKernel {
    /// The one that ggml-cpu takes.
    pub fn of(reference_kernels: bool, shape: FlashShape) -> FlashKernel {
        let FlashShape { types: [q, k, v], tokens, batches, n_kv } = shape;
        let is_plain = q == GgmlType::F32 && k == v && matches!(k, GgmlType::F32 | GgmlType::F16);
        match is_plain && !reference_kernels {
            true if tokens == 1 && batches == 1 && n_kv >= SPLIT_FROM => FlashKernel::Split,
            true if tokens >= Q_TILE => FlashKernel::Tiled,
            _ => FlashKernel::OneChunk,
        }
    }
}

/// What becomes of the product of a query with a key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlashLogit {
    /// The scale, divided by the softcap if there is one.
    pub scale: f32,
    /// The softcap; 0 if there is none.
    pub softcap: f32,
    /// What the mask is multiplied by.
    pub slope: f32,
}

impl FlashLogit {
    /// The logit. Each step is rounded: no two of them are fused.
    pub fn of(&self, dot: f32, mask: f32) -> f32 {
        let scaled = dot * self.scale;
        let capped = if self.softcap == 0.0 { scaled } else { scaled.tanh() * self.softcap };
        capped + self.slope * mask
    }
}

/// The weighted values of the keys so far, with weights relative to the largest logit so far.
#[derive(Clone, PartialEq, Debug)]
pub struct FlashSum {
    max: f32,
    weights: f32,
    /// `[dv]`
    values: Vec<f32>,
}

impl FlashSum {
    /// That of no key, for values of `dv` elements.
    pub fn new(dv: usize) -> FlashSum {
        FlashSum { max: f32::NEG_INFINITY, weights: 0.0, values: vec![0.0; dv] }
    }

    /// One more key. With values of f16 the sum is rounded to f16 whenever it changes (`ggml_vec_scale_f16`, `ggml_vec_mad_f16`).
    pub fn add_key(&mut self, isa: Isa, logit: f32, v: &[f32], in_f16: bool) {
        let round = |x: f32| if in_f16 { f16::from_f32(x).to_f32() } else { x };
        let (mut rescale, mut weight) = (1.0, 1.0);
        if logit > self.max {
            rescale = (self.max - logit).exp();
            self.max = logit;
            self.values.iter_mut().for_each(|sum| *sum = round(*sum * rescale));
        } else {
            weight = (logit - self.max).exp();
        }
        self.values.iter_mut().zip(v).for_each(|(sum, &v)| *sum = round(isa.madd(v, weight, *sum)));
        self.weights = isa.madd(self.weights, rescale, weight);
    }

    /// A tile of keys, -inf as the logit of one that is not there or masked; `v` gives those that are, with their place in it. The
    /// sum of the weights of a tile is formed in f64.
    pub fn add_tile<'v>(
        &mut self,
        ggml: Ggml,
        mut logits: [f32; KV_TILE],
        v: impl Iterator<Item = (usize, &'v [f32])>,
    ) {
        let max = logits.iter().fold(f32::NEG_INFINITY, |max, &logit| if max > logit { max } else { logit });
        if max == f32::NEG_INFINITY {
            return;
        }
        let max = self.max.max(max);
        if max > self.max {
            let rescale = (self.max - max).exp();
            scale(&mut self.values, rescale);
            self.weights *= rescale;
        }
        self.max = max;
        self.weights = (f64::from(self.weights) + exp_row(ggml, &mut logits, max)) as f32;
        v.for_each(|(at, v)| mad(ggml.isa, &mut self.values, v, logits[at]));
    }

    /// A sink: a logit without a value. The compiler fuses its product in the tiled kernel, and does not in the others.
    pub fn add_sink(&mut self, isa: Isa, kernel: FlashKernel, sink: f32) {
        let (mut rescale, mut weight) = (1.0, 1.0);
        if sink > self.max {
            rescale = (self.max - sink).exp();
            self.max = sink;
            scale(&mut self.values, rescale);
        } else {
            weight = (sink - self.max).exp();
        }
        self.weights = match kernel {
            FlashKernel::Tiled => isa.madd(self.weights, rescale, weight),
            FlashKernel::OneChunk | FlashKernel::Split => self.weights * rescale + weight,
        };
    }

    /// The sum over other keys behind these (`ggml_flash_attn_ext_reduce_partials`).
    pub fn join(&mut self, isa: Isa, other: &FlashSum) {
        if other.weights == 0.0 {
            return;
        }
        let max = self.max.max(other.max);
        let (own, others) = ((self.max - max).exp(), (other.max - max).exp());
        let pairs = self.values.iter_mut().zip(&other.values);
        pairs.for_each(|(sum, &value)| *sum = isa.madd(*sum, own, value * others));
        self.weights = isa.madd(self.weights, own, other.weights * others);
        self.max = max;
    }

    /// The values over the sum of the weights; zeros if there was no key.
    pub fn finish(mut self) -> Vec<f32> {
        scale(&mut self.values, if self.weights == 0.0 { 0.0 } else { 1.0 / self.weights });
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 + 2^-12, the square of which is no f32: 2^-24 is lost of it.
    const A: f32 = 1.0 + 1.0 / 4096.0;

    #[test]
    fn the_kernel_follows_from_types_and_sizes() {
        use GgmlType::{BF16, F16, F32};
        let of = |reference, k, v, tokens, n_kv| {
            FlashKernel::of(reference, FlashShape { types: [F32, k, v], tokens, batches: 1, n_kv })
        };
        assert_eq!(
            [63, 64].map(|n| of(false, F16, F16, n, 512)),
            [FlashKernel::OneChunk, FlashKernel::Tiled]
        );
        assert_eq!(
            [511, 512].map(|n| of(false, F32, F32, 1, n)),
            [FlashKernel::OneChunk, FlashKernel::Split]
        );
        for tokens in [1, 64] {
            assert_eq!(of(true, F16, F16, tokens, 512), FlashKernel::OneChunk);
            assert_eq!(of(false, F16, F32, tokens, 512), FlashKernel::OneChunk);
            assert_eq!(of(false, BF16, BF16, tokens, 512), FlashKernel::OneChunk);
        }
    }

    #[test]
    fn a_logit_rounds_each_step() {
        // A A - 1 is 2^-11 where the product is rounded first.
        assert_eq!(FlashLogit { scale: A, softcap: 0.0, slope: 1.0 }.of(A, -1.0), 2f32.powi(-11));
        assert_eq!(FlashLogit { scale: 0.0, softcap: 2.0, slope: A }.of(1.0, A), 1.0 + 2f32.powi(-11));
    }

    #[test]
    fn the_sum_is_kept_in_the_type_of_the_values() {
        let sum = |in_f16: bool| {
            let mut sum = FlashSum::new(1);
            [1.0, 2f32.powi(-12), 2f32.powi(-12)]
                .iter()
                .for_each(|v| sum.add_key(Isa::Sse2, 0.0, &[*v], in_f16));
            sum
        };
        assert_eq!((sum(true).values[0], sum(false).values[0]), (1.0, 1.0 + 2f32.powi(-11)));
        assert_eq!(sum(true).weights, 3.0);
    }

    #[test]
    fn a_product_is_fused_with_avx2() {
        // A weight of 1 makes products exact: the weights' sum is e^-x w + 1.
        let of = |isa, kernel| {
            let mut sum = FlashSum { max: 0.0, weights: A, values: Vec::new() };
            sum.add_sink(isa, kernel, 0.3);
            sum.weights
        };
        let factor = (-0.3f32).exp();
        let (once, twice) = (factor.mul_add(A, 1.0), factor * A + 1.0);
        assert_ne!(once, twice);
        assert_eq!(of(Isa::Avx2, FlashKernel::Tiled), once);
        assert_eq!(of(Isa::Avx2, FlashKernel::OneChunk), twice);
        assert_eq!(of(Isa::Sse2, FlashKernel::Tiled), twice);
    }

    #[test]
    fn parts_are_joined_by_one_rounded_and_one_fused_product() {
        let part = |value: f32| FlashSum { max: 0.0, weights: 1.0, values: vec![value] };
        let of = |isa, logit: f32| {
            let (mut one, mut other) = (part(A), part(1.0));
            other.max = logit;
            one.join(isa, &other);
            one.values[0]
        };
        let factor = (-0.7f32).exp();
        assert_ne!(factor.mul_add(A, 1.0), factor * A + 1.0);
        assert_eq!(of(Isa::Avx2, 0.7), factor.mul_add(A, 1.0));
        assert_eq!(of(Isa::Sse2, 0.7), factor * A + 1.0);
        let mut one = part(A);
        one.join(Isa::Avx2, &FlashSum::new(1));
        assert_eq!(one, part(A));
    }

    #[test]
    fn a_tile_gives_what_its_keys_give() {
        let ggml = Ggml::of("CPU : ").unwrap();
        let mut logits = [f32::NEG_INFINITY; KV_TILE];
        let mut tile = FlashSum::new(1);
        tile.add_tile(ggml, logits, std::iter::empty());
        assert_eq!(tile, FlashSum::new(1));
        (logits[3], logits[63]) = (1.0, 1.0);
        tile.add_tile(ggml, logits, [(3, &[2.0][..]), (63, &[6.0][..])].into_iter());
        assert_eq!((tile.max, tile.weights, tile.clone().finish()), (1.0, 2.0, vec![4.0]));
        assert_eq!(FlashSum::new(2).finish(), [0.0; 2]);
    }
}
