//! Dot products of floats: `ggml_vec_dot_f32`, `_f16` and `_bf16` (vec.cpp), and those of llamafile's `tinyBLAS` (sgemm.cpp).
//! What AVX-512 does with pairs of bf16 is in `dot_pairs.rs`.

use super::Isa;
use super::dot_pairs::dot_in_pairs;

/// Lanes of a register, of AVX2 and of AVX-512; and registers that a dot product keeps.
const AVX2: usize = 8;
const AVX512: usize = 16;
const REGISTERS: usize = 4;

/// `ggml_vec_dot_f32`. Scalar: products rounded to f32, added in f64. Else: four registers of fused sums, added as a tree; to that
/// the rest in order (`in_order`).
pub fn dot_f32(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    match in_registers(isa, x, y) {
        None => in_f64(0.0, x, y) as f32,
        Some((whole, x, y)) => in_order(isa, whole, x, y),
    }
}

/// The sum over a row of a state with one decay, in `ggml_compute_forward_ssm_scan_f32` (ops.cpp): whole registers as [`dot_f32`]
/// takes them, and to that the rest [one by one](dot_one_by_one).
pub fn dot_of_scan(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    let (whole, x, y) = in_registers(isa, x, y).unwrap_or((0.0, x, y));
    dot_one_by_one(isa, whole, x, y)
}

/// A sum in f32, in order, fused where the build has the instruction: an element of `simd_gemm` (simd-gemm.h), and a loop of which gcc
/// makes no registers as it stores something as well.
pub fn dot_one_by_one(isa: Isa, from: f32, x: &[f32], y: &[f32]) -> f32 {
    x.iter().zip(y).fold(from, |sum, (&x, &y)| isa.madd(x, y, sum))
}

/// `ggml_vec_dot_f16` of values of f16. Scalar: as f32; else as f32, but the rest is added in f64.
pub fn dot_f16(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    match in_registers(isa, x, y) {
        None => in_f64(0.0, x, y) as f32,
        Some((whole, x, y)) => in_f64(whole.into(), x, y) as f32,
    }
}

/// `ggml_vec_dot_bf16` of values of bf16, whose products are exact in f32. AVX2: as f16, with another tree. AVX-512: pair by pair.
pub fn dot_bf16(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    match isa {
        Isa::Sse2 => in_f64(0.0, x, y) as f32,
        Isa::Avx2 => {
            let (lanes, x, y) = by_lane::<AVX2>(x, y);
            in_f64(hsum(&lanes).into(), x, y) as f32
        }
        Isa::Avx512 => {
            let (whole, x, y) = dot_in_pairs(x, y);
            in_f64(whole, x, y) as f32
        }
    }
}

/// An element of `tinyBLAS::gemm_bloc`: one register of fused sums over the whole row, what is left of it filled up with zeros.
pub(super) fn dot_in_one_register(isa: Isa, x: &[f32], y: &[f32]) -> f32 {
    match isa {
        Isa::Avx512 => one_register::<AVX512>(x, y),
        _ => one_register::<AVX2>(x, y),
    }
}

fn one_register<const LANES: usize>(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let mut add = |x: &[f32], y: &[f32]| {
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (x, y))| *sum = x.mul_add(*y, *sum));
    };
    x.chunks(LANES).zip(y.chunks(LANES)).for_each(|(x, y)| add(x, y));
    hsum(&sums)
}

/// What gcc makes of `sum += x[i] * y[i]` in f32, which it may not reorder. Where one instruction takes several products, they are
/// rounded, and added one by one; only the last few, which fill no register, are fused. The smallest register that it takes holds
/// four with AVX2 and eight with AVX-512.
pub(super) fn in_order(isa: Isa, from: f32, x: &[f32], y: &[f32]) -> f32 {
    match isa {
        Isa::Avx512 => in_groups_of::<8>(isa, from, x, y),
        _ => in_groups_of::<4>(isa, from, x, y),
    }
}

/// The same where one of the rows is not contiguous: four at a time with AVX-512, too.
pub(super) fn in_order_strided(isa: Isa, from: f32, x: &[f32], y: &[f32]) -> f32 {
    in_groups_of::<4>(isa, from, x, y)
}

fn in_groups_of<const N: usize>(isa: Isa, from: f32, x: &[f32], y: &[f32]) -> f32 {
    let (x_whole, x_rest) = x.as_chunks::<N>();
    let (y_whole, y_rest) = y.as_chunks::<N>();
    let pairs = x_whole.as_flattened().iter().zip(y_whole.as_flattened());
    let sum = pairs.fold(from, |sum, (x, y)| sum + x * y);
    x_rest.iter().zip(y_rest).fold(sum, |sum, (&x, &y)| isa.madd(x, y, sum))
}

/// Products rounded to f32, added in f64 in order.
fn in_f64(from: f64, x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).fold(from, |sum, (x, y)| sum + f64::from(x * y))
}

/// The sum of all whole registers, and what is left of the rows; none of a scalar build.
fn in_registers<'a>(isa: Isa, x: &'a [f32], y: &'a [f32]) -> Option<(f32, &'a [f32], &'a [f32])> {
    match isa {
        Isa::Sse2 => None,
        Isa::Avx2 => {
            let (lanes, x, y) = by_lane::<AVX2>(x, y);
            Some((in_neighbours(&lanes), x, y))
        }
        Isa::Avx512 => {
            let (lanes, x, y) = by_lane::<AVX512>(x, y);
            Some((hsum(&lanes), x, y))
        }
    }
}

/// The registers added up lane by lane, and what is left of the rows.
fn by_lane<'a, const LANES: usize>(x: &'a [f32], y: &'a [f32]) -> ([f32; LANES], &'a [f32], &'a [f32]) {
    let mut sums = [[0f32; LANES]; REGISTERS];
    let (mut x_steps, mut y_steps) = (x.chunks_exact(LANES * REGISTERS), y.chunks_exact(LANES * REGISTERS));
    for (x, y) in x_steps.by_ref().zip(y_steps.by_ref()) {
        for (at, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
            *sum = x[at].mul_add(y[at], *sum);
        }
    }
    let lane = |lane: usize| (sums[0][lane] + sums[2][lane]) + (sums[1][lane] + sums[3][lane]);
    (std::array::from_fn(lane), x_steps.remainder(), y_steps.remainder())
}

/// `GGML_F32x8_REDUCE` (simd-mappings.h): the halves, then neighbours.
fn in_neighbours(sums: &[f32; AVX2]) -> f32 {
    let [a, b, c, d] = std::array::from_fn(|lane| sums[lane] + sums[lane + 4]);
    (a + b) + (c + d)
}

/// `hsum_float_8` (arch/x86/quants.c), `hsum` (sgemm.cpp), and what gcc makes of `_mm512_reduce_add_ps`: the halves, until four
/// are left; of those every other lane.
pub(super) fn hsum(sums: &[f32]) -> f32 {
    if let &[a, b, c, d] = sums {
        return (a + c) + (b + d);
    }
    let (low, high) = sums.split_at(sums.len() / 2);
    let mut halves = [0f32; AVX512 / 2];
    halves.iter_mut().zip(high.iter().zip(low)).for_each(|(half, (high, low))| *half = high + low);
    hsum(&halves[..low.len()])
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
    fn a_scan_fuses_what_fills_no_register() {
        let a = 1.0 + 2f32.powi(-12); // a^2 is no f32: 2^-24 is lost of it
        let rest = |isa| {
            let (mut x, mut y) = ([0f32; 36], [1f32; 36]);
            (x[0], x[35], y[35]) = (-(a * a), a, a);
            (dot_of_scan(isa, &x, &y), dot_one_by_one(isa, 0.0, &x, &y))
        };
        let lost = 2f32.powi(-24);
        assert_eq!((rest(Isa::Sse2), rest(Isa::Avx2)), ((0.0, 0.0), (lost, lost)));
        let mut x = [0f32; 32];
        (x[0], x[8], x[16]) = (BIG, 1.0, -BIG);
        let of = |isa| (dot_of_scan(isa, &x, &[1.0; 32]), dot_one_by_one(isa, 0.0, &x, &[1.0; 32]));
        assert_eq!((of(Isa::Sse2), of(Isa::Avx2)), ((0.0, 0.0), (1.0, 0.0)));
    }

    #[test]
    fn sixteen_lanes_have_steps_and_a_tree_of_their_own() {
        let of = |at: [usize; 3], n: usize| {
            let mut x = vec![0f32; n];
            (x[at[0]], x[at[1]], x[at[2]]) = (BIG, 1.0, -BIG);
            dot_f16(Isa::Avx512, &x, &vec![1.0; n])
        };
        // Registers 0 and 2 meet first, then their sum and that of 1 and 3; then the halves.
        assert_eq!((of([0, 16, 32], 64), of([0, 32, 16], 64)), (1.0, 0.0));
        assert_eq!((of([0, 4, 8], 64), of([0, 8, 4], 64)), (1.0, 0.0));
        assert_eq!((of([0, 1, 2], 64), of([0, 2, 1], 64)), (1.0, 0.0));
        // 32 are no step: in f64, in order.
        assert_eq!(of([0, 1, 16], 32), 1.0);
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
        assert_eq!([4, 7, 8, 12, 15, 16].map(|n| of(n, Isa::Avx512)), [lost, lost, 0.0, lost, lost, 0.0]);
        assert_eq!(of(3, Isa::Sse2), 0.0);
        let strided = |x: &[f32]| in_order_strided(Isa::Avx512, -(a * a), x, x);
        assert_eq!((strided(&[0.0, 0.0, 0.0, a]), strided(&[0.0, 0.0, a])), (0.0, lost));
    }

    #[test]
    fn the_trees_differ_in_which_lanes_meet() {
        let mut lanes = [0f32; AVX2];
        (lanes[0], lanes[1], lanes[2]) = (BIG, 1.0, -BIG);
        assert_eq!((in_neighbours(&lanes), hsum(&lanes)), (0.0, 1.0));
    }

    #[test]
    fn one_register_takes_the_rest_with_it() {
        let mut x = [0f32; 9];
        (x[0], x[1], x[8]) = (BIG, 1.0, -BIG);
        assert_eq!(dot_in_one_register(Isa::Avx2, &x, &[1.0; 9]), 1.0);
        // With sixteen lanes, 0 and 8 meet first, too; 0 and 1 last.
        assert_eq!(dot_in_one_register(Isa::Avx512, &x, &[1.0; 9]), 1.0);
        (x[1], x[8]) = (-BIG, 1.0);
        assert_eq!(dot_in_one_register(Isa::Avx512, &x, &[1.0; 9]), 0.0);
        assert_eq!(dot_in_one_register(Isa::Avx2, &x, &[1.0; 9]), 0.0);
    }
}
