//! Products of pairs of bf16: what AVX-512 BF16 has one instruction for (`vdpbf16ps`).

use super::dot::hsum;

/// Lanes of a register; each takes two neighbours.
const LANES: usize = 16;
const PAIR: usize = 2;
const ELEMENTS: usize = LANES * PAIR;
/// Registers of `ggml_vec_dot_bf16`.
const REGISTERS: usize = 2;

/// The whole steps of `ggml_vec_dot_bf16` (vec.cpp), and what is left of the rows: two registers, each added up in f32, their sums
/// in f64.
pub(super) fn dot_in_pairs<'a>(x: &'a [f32], y: &'a [f32]) -> (f64, &'a [f32], &'a [f32]) {
    let mut sums = [[0f32; LANES]; REGISTERS];
    let (x_steps, x_rest) = x.as_chunks::<{ ELEMENTS * REGISTERS }>();
    let (y_steps, y_rest) = y.as_chunks::<{ ELEMENTS * REGISTERS }>();
    for (x, y) in x_steps.iter().zip(y_steps) {
        for (register, sums) in sums.iter_mut().enumerate() {
            let of = |row: &[f32]| std::array::from_fn(|at| row[register * ELEMENTS + at]);
            add_pairs(sums, &of(x), &of(y));
        }
    }
    (sums.iter().fold(0.0, |sum, register| sum + f64::from(hsum(register))), x_rest, y_rest)
}

/// An element of `tinyBLAS::gemm_bloc` (sgemm.cpp) of bf16: one register, what is left of it filled up with zeros.
pub(super) fn dot_in_one_register_of_pairs(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    for (x, y) in x.chunks(ELEMENTS).zip(y.chunks(ELEMENTS)) {
        let of = |row: &[f32]| std::array::from_fn(|at| row.get(at).copied().unwrap_or(0.0));
        add_pairs(&mut sums, &of(x), &of(y));
    }
    hsum(&sums)
}

/// The instruction: to each lane the second product of its pair is added first, then the first, each fused and rounded to the
/// nearest even; numbers below the normal ones are zeros, whatever the rounding mode says.
fn add_pairs(sums: &mut [f32; LANES], x: &[f32; ELEMENTS], y: &[f32; ELEMENTS]) {
    let fused = |a: f32, b: f32, c: f32| flushed(flushed(a).mul_add(flushed(b), flushed(c)));
    for (lane, sum) in sums.iter_mut().enumerate() {
        let at = PAIR * lane;
        *sum = fused(x[at], y[at], fused(x[at + 1], y[at + 1], *sum));
    }
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: f32 = 16_777_216.0; // 2^24: with 1 more it is no f32

    #[test]
    fn the_second_of_a_pair_comes_first() {
        let mut row = [0f32; ELEMENTS];
        (row[0], row[1], row[32 - 1]) = (-BIG, BIG, 0.0);
        let mut sums = [1f32; LANES];
        add_pairs(&mut sums, &row, &[1.0; ELEMENTS]);
        // 1 + 2^24 rounds to 2^24
        assert_eq!(sums[0], 0.0);
        (row[0], row[1]) = (1.0, BIG);
        sums[0] = -BIG;
        add_pairs(&mut sums, &row, &[1.0; ELEMENTS]);
        assert_eq!((sums[0], sums[1]), (1.0, 1.0));
    }

    #[test]
    fn every_product_is_rounded_into_the_sum() {
        // 2^24 + 1 is a tie to even, so it stays 2^24, twice: a sum of both products would be 2^24 + 2.
        let mut sums = [BIG; LANES];
        add_pairs(&mut sums, &[1.0; ELEMENTS], &[1.0; ELEMENTS]);
        assert_eq!(sums, [BIG; LANES]);
    }

    #[test]
    fn what_is_below_the_normal_numbers_is_zero() {
        let (least, half) = (f32::MIN_POSITIVE, f32::MIN_POSITIVE / 2.0);
        let mut sums = [0f32; LANES];
        add_pairs(&mut sums, &[half; ELEMENTS], &[2.0; ELEMENTS]);
        assert_eq!(sums, [0.0; LANES]);
        add_pairs(&mut sums, &[least; ELEMENTS], &[0.25; ELEMENTS]);
        assert_eq!(sums, [0.0; LANES]);
        add_pairs(&mut sums, &[least; ELEMENTS], &[1.0; ELEMENTS]);
        assert_eq!(sums, [2.0 * least; LANES]);
    }

    #[test]
    fn registers_are_added_in_f64_and_the_rest_is_handed_back() {
        let mut x = [0f32; 65];
        (x[0], x[32]) = (BIG, 1.0);
        let (sum, x_rest, y_rest) = dot_in_pairs(&x, &[1.0; 65]);
        assert_eq!((sum, x_rest, y_rest), (f64::from(BIG) + 1.0, &[0.0][..], &[1.0][..]));
        // One register: 0 and 32 share a lane.
        assert_eq!(dot_in_one_register_of_pairs(&x, &[1.0; 65]), BIG);
        (x[0], x[32], x[64]) = (1.0, 2.0, 4.0);
        assert_eq!(dot_in_one_register_of_pairs(&x, &[1.0; 65]), 7.0);
    }
}
