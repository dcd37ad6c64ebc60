//! Dot products of floats: `ggml_vec_dot_f32`, `_f16` and `_bf16` (vec.cpp), and those of llamafile's `tinyBLAS` (sgemm.cpp).

use super::Isa;

/// Lanes of an AVX2 register, and registers that a dot product keeps.
const LANES: usize = 8;
const REGISTERS: usize = 4;
const STEP: usize = LANES * REGISTERS;

/// `ggml_vec_dot_f32`. Scalar: products rounded to f32, added in f64. AVX2: four registers of fused sums, added as a tree; to that
/// the rest [in order](in_order).
pub fn dot_f32(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    match isa {
        Isa::Sse2 => in_f64(0.0, x, y) as f32,
        Isa::Avx2 => {
            let (whole, x, y) = in_registers(x, y);
            in_order(isa, in_neighbours(&whole), x, y)
        }
    }
}

/// `ggml_vec_dot_f16` of values of f16. AVX2: as f32, but the rest is added in f64.
pub fn dot_f16(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    match isa {
        Isa::Sse2 => in_f64(0.0, x, y) as f32,
        Isa::Avx2 => {
            let (whole, x, y) = in_registers(x, y);
            in_f64(in_neighbours(&whole).into(), x, y) as f32
        }
    }
}

/// `ggml_vec_dot_bf16` of values of bf16, whose products are exact in f32. AVX2: as f16, with another tree.
pub fn dot_bf16(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    match isa {
        Isa::Sse2 => in_f64(0.0, x, y) as f32,
        Isa::Avx2 => {
            let (whole, x, y) = in_registers(x, y);
            in_f64(hsum(&whole).into(), x, y) as f32
        }
    }
}

/// An element of `tinyBLAS::gemm_bloc`: one register of fused sums over the whole row, what is left of it filled up with zeros.
pub(super) fn dot_in_one_register(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let mut add = |x: &[f32], y: &[f32]| {
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (x, y))| *sum = x.mul_add(*y, *sum));
    };
    x.chunks(LANES).zip(y.chunks(LANES)).for_each(|(x, y)| add(x, y));
    hsum(&sums)
}

/// What gcc makes of `sum += x[i] * y[i]` in f32, which it may not reorder. AVX2: products of four or eight are taken by one
/// instruction, so they are rounded, and added one by one; only the last three, which fill no register, are fused.
pub(super) fn in_order(isa: Isa, from: f32, x: &[f32], y: &[f32]) -> f32 {
    let (x_fours, x_rest) = x.as_chunks::<4>();
    let (y_fours, y_rest) = y.as_chunks::<4>();
    let pairs = x_fours.as_flattened().iter().zip(y_fours.as_flattened());
    let sum = pairs.fold(from, |sum, (x, y)| sum + x * y);
    x_rest.iter().zip(y_rest).fold(sum, |sum, (&x, &y)| isa.madd(x, y, sum))
}

/// Products rounded to f32, added in f64 in order.
fn in_f64(from: f64, x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).fold(from, |sum, (x, y)| sum + f64::from(x * y))
}

/// The registers added up lane by lane, and what is left of the rows.
fn in_registers<'a>(x: &'a [f32], y: &'a [f32]) -> ([f32; LANES], &'a [f32], &'a [f32]) {
    let mut sums = [[0f32; LANES]; REGISTERS];
    let (x_steps, x_rest) = x.as_chunks::<STEP>();
    let (y_steps, y_rest) = y.as_chunks::<STEP>();
    for (x, y) in x_steps.iter().zip(y_steps) {
        for (at, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
            *sum = x[at].mul_add(y[at], *sum);
        }
    }
    let lane = |lane: usize| (sums[0][lane] + sums[2][lane]) + (sums[1][lane] + sums[3][lane]);
    (std::array::from_fn(lane), x_rest, y_rest)
}

/// `GGML_F32x8_REDUCE` (simd-mappings.h): the halves, then neighbours.
fn in_neighbours(sums: &[f32; LANES]) -> f32 {
    let [a, b, c, d] = std::array::from_fn(|lane| sums[lane] + sums[lane + 4]);
    (a + b) + (c + d)
}

/// `hsum_float_8` (arch/x86/quants.c), `hsum` (sgemm.cpp): the halves, then every other lane.
pub(super) fn hsum(sums: &[f32; LANES]) -> f32 {
    let [a, b, c, d] = std::array::from_fn(|lane| sums[lane + 4] + sums[lane]);
    (a + c) + (b + d)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: f32 = 16_777_216.0; // 2^24: with 1 more it is no f32

    #[test]
    fn a_scalar_build_adds_in_f64() {
        let x = [BIG, 1.0, -BIG];
        assert_eq!(dot_f32(Isa::Sse2, &x, &[1.0; 3]), 1.0);
        assert_eq!(dot_f16(Isa::Sse2, &x, &[1.0; 3]), 1.0);
        assert_eq!(dot_bf16(Isa::Sse2, &x, &[1.0; 3]), 1.0);
    }

    #[test]
    fn lanes_are_added_as_a_tree_and_the_rest_in_order() {
        let mut x = [0f32; 34];
        // Lanes 0 and 8 are in the first two registers, lanes 0 and 16 meet first.
        (x[0], x[8], x[16]) = (BIG, 1.0, -BIG);
        assert_eq!(dot_f16(Isa::Avx2, &x, &[1.0; 34]), 1.0);
        (x[0], x[8], x[16]) = (BIG, -BIG, 1.0);
        assert_eq!(dot_f16(Isa::Avx2, &x, &[1.0; 34]), 0.0);
        // The rest: in f64 of f16, in f32 of f32.
        (x[0], x[8], x[16], x[32], x[33]) = (BIG, 0.0, 0.0, 1.0, 1.0);
        assert_eq!(dot_f16(Isa::Avx2, &x, &[1.0; 34]), BIG + 2.0);
        assert_eq!(dot_f32(Isa::Avx2, &x, &[1.0; 34]), BIG);
    }

    #[test]
    fn only_what_fills_no_register_is_fused() {
        let a = 1.0 + 2f32.powi(-12); // a^2 is no f32: 2^-24 is lost of it
        let lost = 2f32.powi(-24);
        let of = |n: usize, isa| {
            let (mut x, mut y) = (vec![0.0; n], vec![1.0; n]);
            (x[n - 1], y[n - 1]) = (a, a);
            in_order(isa, -(a * a), &x, &y)
        };
        assert_eq!([3, 4, 7, 8, 16].map(|n| of(n, Isa::Avx2)), [lost, 0.0, lost, 0.0, 0.0]);
        assert_eq!(of(3, Isa::Sse2), 0.0);
    }

    #[test]
    fn the_trees_differ_in_which_lanes_meet() {
        let mut lanes = [0f32; LANES];
        (lanes[0], lanes[1], lanes[2]) = (BIG, 1.0, -BIG);
        assert_eq!((in_neighbours(&lanes), hsum(&lanes)), (0.0, 1.0));
    }

    #[test]
    fn one_register_takes_the_rest_with_it() {
        let mut x = [0f32; 9];
        (x[0], x[1], x[8]) = (BIG, 1.0, -BIG);
        assert_eq!(dot_in_one_register(&x, &[1.0; 9]), 1.0);
    }
}
