//! Dot products of blocks of integers: `ggml_vec_dot_*` of quants.c (scalar) and arch/x86/quants.c (AVX2).
//!
//! Products of integers are exact. What rounds is how the sums of a block become floats, are multiplied with the scales, and are
//! added up. A scalar build has one sum for a block, or eight (elements modulo 8) where the formats have parts; an AVX2 build
//! always has eight, of four neighbours each, which it multiplies and adds with one rounding.

use super::dot::hsum;
use super::factors::{Block32, Block256};
use super::{Activation, Isa};
use crate::quant::Integers;
use crate::tensor::GgmlType;

/// Sums that are kept side by side.
const LANES: usize = 8;

/// The product of a row of blocks of type `ty` with an activation; none if they do not go together.
pub(super) fn dot_blocks(isa: Isa, ty: GgmlType, row: &[Integers], x: &Activation) -> Option<f32> {
    Some(match (x, isa) {
        (Activation::Blocks32(x), Isa::Sse2) => of_32(ty, row, x)?,
        (Activation::Blocks32(x), Isa::Avx2 | Isa::Avx512) => of_32_avx2(ty, row, x)?,
        (Activation::Blocks256(x), Isa::Sse2) => of_256(ty, row, x)?,
        (Activation::Blocks256(x), Isa::Avx2 | Isa::Avx512) => of_256_avx2(ty, row, x)?,
        (Activation::Floats(_), _) => return None,
    })
}

/// The sum of the products of codes.
fn sum(codes: &[i8], x: &[i8]) -> i32 {
    codes.iter().zip(x).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

/// Scalar, Q8_0 and Q8_1.
fn of_32(ty: GgmlType, row: &[Integers], x: &[Block32]) -> Option<f32> {
    use GgmlType::{Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
    if matches!(ty, Q1_0 | Q2_0) {
        return Some(of_larger_blocks(Isa::Sse2, row, x, ty.block_elements()));
    }
    let mut total = 0f32;
    for (w, x) in row.iter().zip(x) {
        let sum = sum(&w.codes[..32], &x.codes) as f32;
        total += match ty {
            Q4_0 => sum * w.d * x.d,
            Q5_0 | Q8_0 => (w.d * x.d) * sum,
            Q4_1 | Q5_1 => (w.d * x.d) * sum + w.dmin * x.s,
            _ => return None,
        };
    }
    Some(total)
}

/// `ggml_vec_dot_q1_0_q8_0_generic` and `_q2_0_`: several blocks of the activation meet one of weights, whose scale comes last.
/// Q2_0 has no other code with AVX2, but there the compiler fuses.
fn of_larger_blocks(isa: Isa, row: &[Integers], x: &[Block32], elements: usize) -> f32 {
    let mut total = 0f32;
    for (w, x) in row.iter().zip(x.chunks_exact(elements / 32)) {
        let mut own = 0f32;
        for (codes, x) in w.codes.chunks_exact(32).zip(x) {
            own = isa.madd(x.d, sum(codes, &x.codes) as f32, own);
        }
        total = isa.madd(w.d, own, total);
    }
    total
}

/// Eight sums of four neighbours in each 32 elements, each 32 with its own factor.
fn lanes_of_four(codes: &[i8], x: &[i8], factor: impl Fn(usize) -> i32) -> [i32; LANES] {
    let mut lanes = [0; LANES];
    for (at, (a, b)) in codes.chunks_exact(4).zip(x.chunks_exact(4)).enumerate() {
        lanes[at % LANES] += factor(4 * at) * sum(a, b);
    }
    lanes
}

/// `acc += d * lanes`, fused.
fn add_lanes(acc: &mut [f32; LANES], d: f32, lanes: [i32; LANES]) {
    acc.iter_mut().zip(lanes).for_each(|(acc, lane)| *acc = d.mul_add(lane as f32, *acc));
}

/// AVX2 and AVX-512, Q8_0 and Q8_1.
fn of_32_avx2(ty: GgmlType, row: &[Integers], x: &[Block32]) -> Option<f32> {
    use GgmlType::{Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
    let mut acc = [0f32; LANES];
    match ty {
        Q2_0 => return Some(of_larger_blocks(Isa::Avx2, row, x, ty.block_elements())),
        Q1_0 => {
            for (w, x) in row.iter().zip(x.chunks_exact(ty.block_elements() / 32)) {
                let mut own = [0f32; LANES];
                for (codes, x) in w.codes.chunks_exact(32).zip(x) {
                    add_lanes(&mut own, x.d, lanes_of_four(codes, &x.codes, |_| 1));
                }
                acc.iter_mut().zip(own).for_each(|(acc, own)| *acc = w.d.mul_add(own, *acc));
            }
            return Some(hsum(&acc));
        }
        Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 => {}
        _ => return None,
    }
    let mut of_minima = 0f32;
    for (w, x) in row.iter().zip(x) {
        add_lanes(&mut acc, w.d * x.d, lanes_of_four(&w.codes[..32], &x.codes, |_| 1));
        of_minima = w.dmin.mul_add(x.s, of_minima);
    }
    Some(match ty {
        Q4_1 | Q5_1 => hsum(&acc) + of_minima,
        _ => hsum(&acc),
    })
}

/// The parts of a block with a scale of their own.
fn parts(ty: GgmlType) -> usize {
    match ty {
        GgmlType::Q4_K | GgmlType::Q5_K => 8,
        _ => 16,
    }
}

/// The sum of the activation's codes times the minima, of one part.
fn of_minimum(w: &Integers, x: &Block256, parts: usize, part: usize) -> i32 {
    let width = x.sums.len() / parts;
    i32::from(w.mins[part]) * x.sums[part * width..][..width].iter().sum::<i32>()
}

/// Scalar, Q8_K.
fn of_256(ty: GgmlType, row: &[Integers], x: &[Block256]) -> Option<f32> {
    use GgmlType::{Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, TQ1_0, TQ2_0};
    let mut total = 0f32;
    let mut sums = [0f32; LANES];
    let parts = parts(ty);
    for (w, x) in row.iter().zip(x) {
        let scale = |e: usize| i32::from(w.scales[e * parts / w.codes.len()]);
        let products = w.codes.iter().zip(&x.codes).map(|(&a, &b)| i32::from(a) * i32::from(b));
        match ty {
            TQ1_0 | TQ2_0 => total += sum(&w.codes, &x.codes) as f32 * (x.d * w.d),
            Q2_K => {
                let sum: i32 = products.enumerate().map(|(e, product)| scale(e) * product).sum();
                let of_minima: i32 = (0..parts).map(|part| of_minimum(w, x, parts, part)).sum();
                total += (x.d * w.d) * sum as f32 - (x.d * w.dmin) * of_minima as f32;
            }
            Q3_K | Q4_K | Q5_K | Q6_K => {
                let mut lanes = [0i32; LANES];
                products.enumerate().for_each(|(e, product)| lanes[e % LANES] += scale(e) * product);
                let d = w.d * x.d;
                sums.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += d * lane as f32);
                if matches!(ty, Q4_K | Q5_K) {
                    let of_minima: i32 = (0..parts).map(|part| of_minimum(w, x, parts, part)).sum();
                    total -= (w.dmin * x.d) * of_minima as f32;
                }
            }
            _ => return None,
        }
    }
    Some(sums.iter().fold(total, |total, sum| total + sum))
}

/// AVX2 and AVX-512, Q8_K.
fn of_256_avx2(ty: GgmlType, row: &[Integers], x: &[Block256]) -> Option<f32> {
    use GgmlType::{Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, TQ1_0, TQ2_0};
    let mut acc = [0f32; LANES];
    let mut lanes_of_minima = [0f32; 4];
    let mut of_minima = 0f32;
    let parts = parts(ty);
    for (w, x) in row.iter().zip(x) {
        let minimum = |part: usize| of_minimum(w, x, parts, part);
        let dmin = -x.d * w.dmin;
        match ty {
            Q4_K => {
                let pairs = lanes_of_minima.iter_mut().enumerate();
                pairs.for_each(|(lane, acc)| {
                    *acc = dmin.mul_add((minimum(2 * lane) + minimum(2 * lane + 1)) as f32, *acc);
                });
            }
            Q5_K => of_minima = dmin.mul_add((0..parts).map(minimum).sum::<i32>() as f32, of_minima),
            Q2_K => {
                let lanes = std::array::from_fn(|lane| minimum(2 * lane) + minimum(2 * lane + 1));
                add_lanes(&mut acc, dmin, lanes);
            }
            Q3_K | Q6_K | TQ1_0 | TQ2_0 => {}
            _ => return None,
        }
        let scale = |e: usize| i32::from(w.scales[e * parts / w.codes.len()]);
        let lanes = match ty {
            // Codes from 0 up meet the activation; what 0 stands for is taken off by the sums of 16, two of them in a lane.
            Q6_K | TQ1_0 | TQ2_0 => {
                let (middle, scale): (i8, &dyn Fn(usize) -> i32) =
                    if ty == Q6_K { (32, &scale) } else { (1, &|_| 1) };
                let codes = w.codes.map(|code| code + middle);
                let mut lanes = lanes_of_four(&codes, &x.codes, scale);
                for (part, sum) in x.sums.iter().enumerate() {
                    lanes[part / 2] -= i32::from(middle) * scale(16 * part) * sum;
                }
                lanes
            }
            _ => lanes_of_four(&w.codes, &x.codes, scale),
        };
        add_lanes(&mut acc, x.d * w.d, lanes);
    }
    let [a, b, c, d] = lanes_of_minima;
    Some(match ty {
        Q4_K => hsum(&acc) + ((a + c) + (b + d)),
        Q5_K => hsum(&acc) + of_minima,
        _ => hsum(&acc),
    })
}

/// An element of `tinyBLAS_Q0_AVX` (sgemm.cpp): as the AVX2 product of the row.
pub(super) fn dot_of_llamafile(ty: GgmlType, row: &[Integers], x: &Activation) -> Option<f32> {
    dot_blocks(Isa::Avx2, ty, row, x)
}

/// An element of `tiled_run_microtile_avx2` and `tiled_run_micro_vnni_8x16` (tiled-kernel.cpp): the sum of a block is one integer;
/// products and sums are fused.
pub(super) fn dot_of_tile(ty: GgmlType, row: &[Integers], x: &Activation) -> Option<f32> {
    let Activation::Blocks256(x) = x else { return None };
    let parts = parts(ty);
    let mut total = 0f32;
    for (w, x) in row.iter().zip(x) {
        let scale = |e: usize| i32::from(w.scales[e * parts / w.codes.len()]);
        let sum: i32 = lanes_of_four(&w.codes, &x.codes, scale).iter().sum();
        let mut own = w.d * sum as f32;
        if matches!(ty, GgmlType::Q2_K | GgmlType::Q4_K | GgmlType::Q5_K) {
            let of_minima: i32 = (0..parts).map(|part| of_minimum(w, x, parts, part)).sum();
            own = (-w.dmin).mul_add(of_minima as f32, own);
        }
        total = x.d.mul_add(own, total);
    }
    Some(total)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::arithmetic::Factor;

    /// A row of blocks, and an activation.
    pub(in crate::arithmetic) fn operands(ty: GgmlType) -> (Vec<Integers>, Vec<f32>) {
        let values: Vec<f32> = (0..512).map(|i: i32| ((i * 37 % 101) as f32 - 50.0) / 64.0).collect();
        let row = crate::quant::encode(ty, &values).unwrap();
        let Some(Factor::Blocks(_, blocks)) = Factor::of_blocks(ty, &row) else { panic!("{ty}") };
        (blocks, (0..512).map(|i: i32| ((i * 53 % 89) as f32 - 44.0) / 32.0).collect())
    }

    /// Every order of operations gives the same number but for rounding.
    #[test]
    fn all_orders_agree_but_for_rounding() {
        use GgmlType::{Q1_0, Q2_0, Q4_0, Q4_K, Q6_K, Q8_0, TQ1_0, TQ2_0};
        for ty in [Q1_0, Q2_0, Q4_0, Q8_0, Q4_K, Q6_K, TQ1_0, TQ2_0] {
            let (row, x) = operands(ty);
            let of = |isa| dot_blocks(isa, ty, &row, &Activation::of(isa, ty, &x).unwrap()).unwrap();
            let (scalar, avx2) = (of(Isa::Sse2), of(Isa::Avx2));
            let size: f32 = x.iter().map(|x| x.abs()).sum();
            assert!((scalar - avx2).abs() <= size * 1e-2, "{ty}: {scalar} {avx2}"); // the codes differ at ties
            if let x @ Activation::Blocks256(_) = Activation::of(Isa::Avx2, ty, &x).unwrap() {
                let tile = dot_of_tile(ty, &row, &x).unwrap();
                let own = dot_blocks(Isa::Avx2, ty, &row, &x).unwrap();
                assert!((tile - own).abs() <= size * 2f32.powi(-20), "{ty}: {tile} {own}");
            }
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let (row, x) = operands(GgmlType::Q4_K);
        let x = Activation::of(Isa::Sse2, GgmlType::Q8_0, &x).unwrap();
        assert_eq!(dot_blocks(Isa::Sse2, GgmlType::Q4_K, &row, &x), None);
        assert_eq!(dot_blocks(Isa::Avx2, GgmlType::Q4_K, &row, &Activation::Floats(Vec::new())), None);
        assert_eq!(dot_of_tile(GgmlType::Q4_K, &row, &x), None);
    }
}
