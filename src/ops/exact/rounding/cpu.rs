//! ggml-cpu's activations: signed bytes with a scale, by the kernels of several processors.
//!
//! No code is in doubt. Each step is one correctly rounded f32 operation on the reference's own f32 values: a quotient, a
//! product, a rounding to an integer. ggml is compiled without `-ffast-math`, so no compiler takes an approximate reciprocal,
//! and a product that is rounded to an integer by an instruction cannot be fused with anything. The one place where a compiler
//! may fuse is the addition by which Q8_K rounds: that is a rule of its own, [`q8_k_fused`].
//!
//! The kernels that repack weights round their activations four rows at a time (`ggml_quantize_mat_q8_0_4x8` and its like, in
//! repack.cpp and arch/*/repack.cpp), by the same rule as the rows of their processor. In Q8_K the x86 one takes a positive
//! value for the extreme where one of each sign is largest; codes and scale then both change sign, and no value does.
//!
//! A block so small that its scale is stored as 0 gives zeros, whatever its codes are. Infinite and NaN activations are not
//! rounded as ggml's instructions do it.
//!
//! Not here: WebAssembly's kernels, which truncate the quotient (arch/wasm/quants.c), KleidiAI and AMX.

use half::f16;

use super::{Rounded, Sums};
use crate::ops::exact::CpuKernel;
use crate::quant::amax;

/// Elements that share a scale in Q8_0 and Q8_1.
const SMALL_BLOCK: usize = 32;
/// Elements that share a scale in Q8_K.
const LARGE_BLOCK: usize = 256;
/// The largest code of all three.
const LARGEST: f32 = 127.0;

/// The codes of a block of 32 and its scale, before it is stored as f16.
struct Codes {
    codes: Vec<f32>,
    d: f32,
}

/// `quantize_row_q8_0` and `_q8_1` in arch/x86/quants.c with AVX or AVX2, and in arch/loongarch: `d = amax / 127`, codes
/// `x (127 / amax)` to nearest, ties to even. Compared with dumps and with the function.
fn x86_codes(block: &[f32]) -> Codes {
    let largest = amax(block);
    let inverse = if largest != 0.0 { LARGEST / largest } else { 0.0 };
    Codes { codes: block.iter().map(|x| (x * inverse).round_ties_even()).collect(), d: largest / LARGEST }
}

/// `quantize_row_q8_0_ref` and `_q8_1_ref` in ggml-quants.c, on processors without a kernel of their own, and the kernels of
/// POWER and s390 (read from source): `d = amax / 127`, codes `x (1 / d)` to nearest, ties away from zero. Compared with the
/// function.
fn portable_codes(block: &[f32]) -> Codes {
    let d = amax(block) / LARGEST;
    let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
    Codes { codes: block.iter().map(|x| (x * inverse).round()).collect(), d }
}

/// `quantize_row_q8_0` and `_q8_1` in arch/arm/quants.c with NEON (`vcvtnq_s32_f32`), and in arch/riscv with its vectors:
/// `d = amax / 127`, codes `x (1 / d)` to nearest, ties to even. Read from source, not compared with a dump.
fn neon_codes(block: &[f32]) -> Codes {
    let d = amax(block) / LARGEST;
    let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
    Codes { codes: block.iter().map(|x| (x * inverse).round_ties_even()).collect(), d }
}

fn codes(kernel: CpuKernel, block: &[f32]) -> Codes {
    match kernel {
        CpuKernel::X86 => x86_codes(block),
        CpuKernel::Portable => portable_codes(block),
        CpuKernel::Neon => neon_codes(block),
    }
}

impl Codes {
    /// The values, with the scale as f16 stores it.
    fn values(&self) -> impl Iterator<Item = f32> {
        let stored = f16::from_f32(self.d).to_f32();
        self.codes.iter().map(move |code| if stored == 0.0 { 0.0 } else { code * stored })
    }

    /// `d * sum(codes)` as f16 stores it, d before it is rounded.
    fn sum(&self) -> f64 {
        let sum: f32 = self.codes.iter().sum(); // of at most 32 * 127: exact
        if sum.is_finite() { f16::from_f32(self.d * sum).to_f64() } else { 0.0 }
    }
}

/// Q8_0: signed bytes with one scale per 32.
pub(super) fn q8_0(kernel: CpuKernel, row: &[f32]) -> Vec<f32> {
    let mut values = Vec::with_capacity(row.len());
    for block in row.chunks(SMALL_BLOCK) {
        values.extend(codes(kernel, block).values());
    }
    values
}

/// Q8_1: as Q8_0, with the sum of the block beside it.
pub(super) fn q8_1(kernel: CpuKernel, row: &[f32]) -> Rounded {
    let mut rounded = Rounded::default();
    let mut sums = Sums { width: SMALL_BLOCK, ..Sums::default() };
    for block in row.chunks(SMALL_BLOCK) {
        let codes = codes(kernel, block);
        rounded.values.extend(codes.values());
        sums.values.push(codes.sum());
        sums.steps.push(0.0);
    }
    Rounded { sums: Some(sums), ..rounded }
}

/// Q8_K: signed bytes with one f32 scale per 256: `1 / d = -127 / x`, x the value of largest size with its sign
/// (`quantize_row_q8_K_ref`, ggml-quants.c, which every processor but RISC-V and WebAssembly calls; RISC-V's own differs in
/// the sign of d alone). Codes are rounded by adding 1.5 * 2^23 (`nearest_int`): ties to even. Its partial sums are integers
/// of these codes, so they are exact. Compared with dumps and with the function.
pub(super) fn q8_k(row: &[f32]) -> Vec<f32> {
    q8_k_by(row, |x, inverse| (x * inverse).round_ties_even())
}

/// Q8_K where the compiler fuses `x / d` into the addition that rounds it, so that the exact product is rounded once: gcc on
/// processors that have the instruction whatever they are built for (`-ffp-contract=fast`, AArch64). Read from source, not
/// compared with a dump.
pub(super) fn q8_k_fused(row: &[f32]) -> Vec<f32> {
    const ROUNDER: f32 = 12_582_912.0; // 1.5 * 2^23: f32 has no fractions there
    q8_k_by(row, |x, inverse| x.mul_add(inverse, ROUNDER) - ROUNDER)
}

fn q8_k_by(row: &[f32], code: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    let mut values = Vec::with_capacity(row.len());
    for block in row.chunks(LARGE_BLOCK) {
        let larger = |so_far: f32, &x: &f32| if x.abs() > so_far.abs() { x } else { so_far };
        let inverse = -LARGEST / block.iter().fold(0.0, larger);
        let d = 1.0 / inverse; // 0 for a block of zeros, and where the inverse overflows
        values.extend(block.iter().map(|&x| if d == 0.0 { 0.0 } else { code(x, inverse).min(LARGEST) * d }));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [CpuKernel; 3] = [CpuKernel::X86, CpuKernel::Portable, CpuKernel::Neon];

    #[test]
    fn ties_tell_the_kernels_apart() {
        // d = 1: 0.5, 1.5, -2.5 and 2.4 are their own quotients
        let row = [127.0, 0.5, 1.5, -2.5, 2.4];
        assert_eq!(q8_0(CpuKernel::X86, &row), [127.0, 0.0, 2.0, -2.0, 2.0]);
        assert_eq!(q8_0(CpuKernel::Portable, &row), [127.0, 1.0, 2.0, -3.0, 2.0]);
        assert_eq!(q8_0(CpuKernel::Neon, &row), [127.0, 0.0, 2.0, -2.0, 2.0]);
    }

    #[test]
    fn so_do_their_reciprocals() {
        // Of 11: 127 / 11 = 11.545455, and 11 / 127 has the reciprocal 11.545454. 0.04330709 times them is 0.50000006 and 0.5;
        // 0.47637793 times them is 5.5 and 5.4999995.
        let row = [11.0, 0.04330709, 0.47637793];
        let d = f16::from_f32(11.0 / 127.0).to_f32();
        let codes = |kernel| q8_0(kernel, &row).iter().map(|value| value / d).collect::<Vec<f32>>();
        assert_eq!(codes(CpuKernel::X86), [127.0, 1.0, 6.0]);
        assert_eq!(codes(CpuKernel::Portable), [127.0, 1.0, 5.0]);
        assert_eq!(codes(CpuKernel::Neon), [127.0, 0.0, 5.0]);
    }

    #[test]
    fn the_scale_is_stored_as_f16() {
        // d = 0.1 is stored as 0.099975586; 12.7 / 0.1 = 127
        for kernel in ALL {
            let stored = f16::from_f32(12.7 / 127.0).to_f32();
            assert_eq!(q8_0(kernel, &[12.7, 0.3]), [127.0 * stored, 3.0 * stored]);
        }
    }

    #[test]
    fn every_32_elements_have_a_scale() {
        let mut row = [0.0; 64];
        (row[0], row[1], row[32], row[33]) = (127.0, 0.4, 12_700.0, 60.0);
        for kernel in ALL {
            let values = q8_0(kernel, &row);
            assert_eq!((values[1], values[33], values[34]), (0.0, 100.0, 0.0));
        }
    }

    #[test]
    fn q8_1_keeps_a_rounded_sum() {
        for kernel in ALL {
            // d = 1 exactly: codes 127 and 1, sum 128, which f16 holds
            let rounded = q8_1(kernel, &[127.0, 1.0]);
            assert_eq!((rounded.values, rounded.sums.unwrap().values), (vec![127.0, 1.0], vec![128.0]));
            // codes 127, 127, 3: with d = 0.1 the sum 25.7 is rounded
            let sums = q8_1(kernel, &[12.7, 12.7, 0.3]).sums.unwrap();
            assert_eq!((sums.width, sums.values), (32, vec![f16::from_f32(12.7 / 127.0 * 257.0).to_f64()]));
        }
    }

    #[test]
    fn the_extreme_of_q8_k_is_code_minus_127() {
        // d = -127 / -127 = 1: 3.5 is a tie; d = -1: so is -3.5
        assert_eq!(q8_k(&[3.5, 2.5, -127.0]), [4.0, 2.0, -127.0]);
        assert_eq!(q8_k(&[3.5, 2.5, 127.0]), [4.0, 2.0, 127.0]);
        assert_eq!(q8_k_fused(&[3.5, 2.5, -127.0]), [4.0, 2.0, -127.0]);
    }

    #[test]
    fn q8_k_rounded_twice_and_once() {
        // Of -3: 1 / d = 42.333332, whose product with 0.17716536 is 7.49999998, and 7.5 once it is rounded to f32.
        let d = 1.0 / (127.0 / 3.0f32);
        assert_eq!(q8_k(&[-3.0, 0.17716536])[1], 8.0 * d);
        assert_eq!(q8_k_fused(&[-3.0, 0.17716536])[1], 7.0 * d);
    }

    #[test]
    fn zeros_and_what_is_too_small_for_a_scale_are_zeros() {
        for row in [[0.0, 0.0], [1e-40, -1e-41], [1e-37, 1e-39]] {
            for kernel in ALL {
                assert_eq!(q8_0(kernel, &row), [0.0, 0.0]);
                assert_eq!(q8_1(kernel, &row).sums.unwrap().values, [0.0]);
            }
        }
        assert_eq!(q8_k(&[0.0, 0.0]), [0.0, 0.0]);
        assert_eq!(q8_k_fused(&[1e-40, 1e-41]), [0.0, 0.0]);
    }
}
