//! Exponentials, and what is made of them: `ggml_v_expf` (vec.h), the polynomial of ggml's vector code, and the platform's `expf`
//! for what is left of a row behind its last whole register.

use super::dot::hsum;
use super::{Ggml, Isa};

/// 1.5 * 2^23: added, it leaves the nearest integer in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;
const LOG2_E: f32 = f32::from_bits(0x3fb8_aa3b);
const LN2_HIGH: f32 = f32::from_bits(0x3f31_7200);
const LN2_LOW: f32 = f32::from_bits(0x35bf_be8e);
/// The polynomial's coefficients, from the highest power down.
const POLYNOMIAL: [f32; 5] = [
    f32::from_bits(0x3c07_2010),
    f32::from_bits(0x3d2b_9f17),
    f32::from_bits(0x3e2a_af33),
    f32::from_bits(0x3eff_fedb),
    f32::from_bits(0x3f7f_fff6),
];
/// From this power of two on a result is scaled in two steps, from the second on it is 0 or infinite.
const IN_TWO_STEPS: f32 = 126.0;
const OUT_OF_RANGE: f32 = 192.0;

/// One lane of `ggml_v_expf`.
#[inline]
pub fn v_expf(isa: Isa, x: f32) -> f32 {
    let z = isa.madd(x, LOG2_E, ROUNDER);
    let n = z - ROUNDER; // an integer
    let b = isa.madd(-n, LN2_LOW, isa.madd(-n, LN2_HIGH, x));
    let u = b * b;
    let [c6, c5, c4, c3, c2] = POLYNOMIAL;
    let high = isa.madd(c6, b, c5);
    let low = isa.madd(c4, b, c3);
    let of_u = isa.madd(high, u, low);
    if isa == Isa::Avx512 {
        return scaled(isa.madd(of_u, u, isa.madd(c2, b, 1.0)), n);
    }
    let j = isa.madd(of_u, u, c2 * b);
    let e = z.to_bits() << 23;
    let k = f32::from_bits(e.wrapping_add(1f32.to_bits()));
    // The instruction says of NaN that it is not above.
    if n.abs() <= IN_TWO_STEPS || n.is_nan() {
        return isa.madd(j, k, k);
    }
    let g = if n <= 0.0 { 0x8200_0000u32 } else { 0 };
    let s1 = f32::from_bits(g.wrapping_add(0x7f00_0000));
    if n.abs() > OUT_OF_RANGE {
        return s1 * s1;
    }
    let s2 = f32::from_bits(e.wrapping_sub(g));
    isa.madd(s2, j, s2) * s1
}

/// `x 2^n`, rounded once, as AVX-512 has an instruction for it; 0 or infinite where n is out of range.
fn scaled(x: f32, n: f32) -> f32 {
    match n.abs() > OUT_OF_RANGE {
        true if n <= 0.0 => 0.0,
        true => f32::INFINITY,
        // The product is exact in f64.
        false => (f64::from(x) * f64::from(n).exp2()) as f32,
    }
}

/// `ggml_vec_silu_f32` (vec.cpp) of a row, in place.
pub fn silu_row(ggml: Ggml, row: &mut [f32]) {
    by_register(ggml.isa, row, |x| x / (1.0 + v_expf(ggml.isa, 0.0 - x)), |x| x / (1.0 + (-x).exp()));
}

/// `ggml_vec_swiglu_f32` (vec.cpp): `gate`, in place, becomes `silu(gate) * up`.
pub fn swiglu_row(ggml: Ggml, gate: &mut [f32], up: &[f32]) {
    silu_row(ggml, gate);
    gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= up);
}

/// `ggml_vec_soft_max_f32` (vec.cpp): the row, in place, becomes `exp(row - max)`; returns the sum, of sums of registers.
pub fn exp_row(ggml: Ggml, row: &mut [f32], max: f32) -> f64 {
    let isa = ggml.isa;
    by_register(isa, row, |x| v_expf(isa, x - max), |x| (x - max).exp());
    let lanes = isa.lanes();
    let mut registers = row.chunks_exact(lanes);
    let sum = registers.by_ref().fold(0.0, |sum, register| sum + f64::from(sum_of_register(isa, register)));
    registers.remainder().iter().fold(sum, |sum, &x| sum + f64::from(x))
}

/// The sum of a register's lanes, as `ggml_vec_soft_max_f32` and `ggml_vec_cvar_f32` (vec.cpp) form it.
pub(super) fn sum_of_register(isa: Isa, x: &[f32]) -> f32 {
    match isa {
        Isa::Sse2 => (x[0] + x[1]) + (x[2] + x[3]),
        Isa::Avx2 | Isa::Avx512 => hsum(x),
    }
}

/// Changes whole registers one way and what is left behind them another.
fn by_register(isa: Isa, row: &mut [f32], whole: impl Fn(f32) -> f32, rest: impl Fn(f32) -> f32) {
    let (registers, left) = row.split_at_mut(row.len() / isa.lanes() * isa.lanes());
    registers.iter_mut().for_each(|x| *x = whole(*x));
    left.iter_mut().for_each(|x| *x = rest(*x));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two units in the last place at most, as ggml says of it; exact at the ends.
    #[test]
    fn the_polynomial_is_an_exponential() {
        for isa in [Isa::Sse2, Isa::Avx2, Isa::Avx512] {
            for i in -2_060..1_760 {
                let x = i as f32 * 0.05 + 0.003;
                let (exact, got) = (f64::from(x).exp(), f64::from(v_expf(isa, x)));
                // Below the normal numbers the last place is fixed.
                let ulp = (exact * 2f64.powi(-23)).max(2f64.powi(-149));
                assert!((got - exact).abs() <= 2.0 * ulp, "{isa} {x}: {got} for {exact}");
            }
            assert_eq!(v_expf(isa, 0.0), 1.0);
            assert_eq!((v_expf(isa, 100.0), v_expf(isa, -110.0)), (f32::INFINITY, 0.0));
            assert_eq!((v_expf(isa, f32::INFINITY), v_expf(isa, f32::NEG_INFINITY)), (f32::INFINITY, 0.0));
            assert!(v_expf(isa, f32::NAN).is_nan());
        }
    }

    #[test]
    fn a_number_is_scaled_with_one_rounding() {
        let least = f32::from_bits(1); // 2^-149
        assert_eq!([1.25, 1.5, 1.75].map(|x| scaled(x, -149.0)), [least, 2.0 * least, 2.0 * least]);
        assert_eq!((scaled(0.75, 128.0), scaled(1.0, 128.0)), (0.75 * 2f32.powi(127) * 2.0, f32::INFINITY));
        assert_eq!((scaled(1.0, 193.0), scaled(1.0, -193.0)), (f32::INFINITY, 0.0));
        assert!(scaled(f32::NAN, f32::NAN).is_nan());
    }

    #[test]
    fn the_last_bit_tells_the_polynomials_apart() {
        let differ = |i: &i32| v_expf(Isa::Avx2, *i as f32 / 64.0) != v_expf(Isa::Avx512, *i as f32 / 64.0);
        let differing = (-640..640).filter(differ).count();
        assert!((100..900).contains(&differing), "{differing}");
    }

    #[test]
    fn a_register_of_sixteen_is_added_by_halves() {
        const BIG: f32 = 16_777_216.0; // 2^24: with 1 more it is no f32
        let ggml = Ggml { isa: Isa::Avx512, ..Ggml::of("CPU : ").unwrap() };
        let sum_with = |at: [usize; 3]| {
            let mut row = [0f32; 16];
            (row[at[0]], row[at[1]], row[at[2]]) = (BIG, 1.0, -BIG);
            sum_of_register(ggml.isa, &row)
        };
        assert_eq!((sum_with([0, 4, 8]), sum_with([0, 8, 4])), (1.0, 0.0));
        // Seventeen equal shares: one register, and one behind it.
        let mut row = [0f32; 17];
        assert_eq!((exp_row(ggml, &mut row, 0.0), row), (17.0, [1.0; 17]));
    }
}
