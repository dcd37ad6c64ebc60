//! Products with weights that were repacked: eight rows interleaved (repack.cpp, arch/x86/repack.cpp). A lane belongs to one row, so
//! the sum of a run of codes is one integer, whatever the order in it; multiplied with both scales it is added to the lane, fused.
//!
//! Columns are taken four at a time, and what is left one at a time. The two differ for Q4_K: in how long a run is, and in how the
//! activation is rounded.

use super::factors::{Block32, Block256};
use super::{Activation, Ggml, Isa};
use crate::quant::{Integers, MOST_ELEMENTS, amax};
use crate::tensor::GgmlType;

/// Columns that are multiplied together.
const GROUP: usize = 4;
/// Rows that are interleaved.
const ROWS: usize = 8;
/// Elements of a run of a Q4_K row in front of four columns, and in front of one.
const RUN_OF_GROUP: usize = 64;
const RUN_OF_COLUMN: usize = MOST_ELEMENTS;
/// Elements that share a scale and a minimum in Q4_K.
const PART: usize = 32;

/// Whether ggml-cpu repacks a weight of so many rows (`ggml_repack_get_optimal_repack_type`, repack.cpp).
pub(super) fn is_repacked(ggml: Ggml, ty: GgmlType, rows: usize) -> bool {
    use GgmlType::{IQ4_NL, MXFP4, Q2_K, Q4_0, Q4_K};
    let has = match ty {
        Q4_0 | Q4_K | IQ4_NL | MXFP4 => ggml.isa >= Isa::Avx2,
        Q2_K => ggml.isa > Isa::Avx2,
        _ => false,
    };
    ggml.repack && has && rows.is_multiple_of(ROWS)
}

/// Whether the order of operations with such weights is known, if they are repacked.
pub(super) fn is_known(isa: Isa, ty: GgmlType) -> bool {
    isa == Isa::Avx2 && matches!(ty, GgmlType::Q4_0 | GgmlType::Q4_K)
}

/// Whether a column is multiplied with three others (`forward_mul_mat_one_chunk`, repack.cpp).
pub(super) fn is_in_group(columns: usize, column: usize) -> bool {
    column < columns / GROUP * GROUP
}

/// An activation of a group. In front of Q4_0 it is as elsewhere (`ggml_quantize_mat_q8_0_4x8`, arch/x86/repack.cpp).
pub(super) fn in_group(isa: Isa, ty: GgmlType, row: &[f32]) -> Option<Activation> {
    if ty != GgmlType::Q4_K {
        return Activation::of(isa, ty, row);
    }
    let (blocks, rest) = row.as_chunks::<MOST_ELEMENTS>();
    rest.is_empty().then(|| Activation::Blocks256(blocks.iter().map(block_of_group).collect()))
}

/// `ggml_quantize_mat_q8_K_4x8` (arch/x86/repack.cpp): as `quantize_row_q8_K_ref`, but where the largest absolute value occurs with
/// both signs the positive one becomes -127, and not the first.
fn block_of_group(block: &[f32; MOST_ELEMENTS]) -> Block256 {
    let largest = amax(block);
    if largest == 0.0 {
        return Block256 { d: 0.0, codes: [0; MOST_ELEMENTS], sums: [0; 16] };
    }
    let inverse = if block.contains(&largest) { -127.0 / largest } else { 127.0 / largest };
    let codes = block.map(|x| (x * inverse).round_ties_even() as i8);
    let sum = |part: usize| codes[16 * part..][..16].iter().map(|&code| i32::from(code)).sum();
    Block256 { d: 1.0 / inverse, codes, sums: std::array::from_fn(sum) }
}

/// An element of `ggml_gemm_*_8x8_*` in a group, else of `ggml_gemv_*_8x8_*`; none if its order is not known.
pub(super) fn dot_repacked(
    isa: Isa,
    ty: GgmlType,
    row: &[Integers],
    x: &Activation,
    in_group: bool,
) -> Option<f32> {
    match (ty, x) {
        _ if !is_known(isa, ty) => None,
        (GgmlType::Q4_0, Activation::Blocks32(x)) => Some(of_32(row, x)),
        (GgmlType::Q4_K, Activation::Blocks256(x)) => {
            Some(of_256(row, x, if in_group { RUN_OF_GROUP } else { RUN_OF_COLUMN }))
        }
        _ => None,
    }
}

/// The sum of the products of codes.
fn sum(codes: &[i8], x: &[i8]) -> i32 {
    codes.iter().zip(x).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

/// `gemv_q4_b32_8x8_q8_0_lut_avx`, and the same of gemm.
fn of_32(row: &[Integers], x: &[Block32]) -> f32 {
    let add = |total: f32, (w, x): (&Integers, &Block32)| {
        (sum(&w.codes[..x.codes.len()], &x.codes) as f32).mul_add(w.d * x.d, total)
    };
    row.iter().zip(x).fold(0.0, add)
}

/// `ggml_gemv_q4_K_8x8_q8_K`, and the same of gemm: the minima have a sum of their own, which is taken off at the end.
fn of_256(row: &[Integers], x: &[Block256], run: usize) -> f32 {
    let (mut total, mut of_minima) = (0f32, 0f32);
    for (w, x) in row.iter().zip(x) {
        for parts in (0..MOST_ELEMENTS / PART).collect::<Vec<_>>().chunks(run / PART) {
            let products = parts.iter().map(|&part| {
                let at = part * PART;
                i32::from(w.scales[part]) * sum(&w.codes[at..][..PART], &x.codes[at..][..PART])
            });
            let minima =
                parts.iter().map(|&part| i32::from(w.mins[part]) * (x.sums[2 * part] + x.sums[2 * part + 1]));
            total = (products.sum::<i32>() as f32).mul_add(w.d * x.d, total);
            of_minima = (minima.sum::<i32>() as f32).mul_add(w.dmin * x.d, of_minima);
        }
    }
    total - of_minima
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::quantised::tests::operands;

    #[test]
    fn weights_of_whole_groups_of_rows_are_repacked() {
        let avx2 = Ggml { isa: Isa::Avx2, repack: true, ..Ggml::of("CPU : ").unwrap() };
        use GgmlType::{IQ4_NL, Q2_K, Q4_0, Q4_K, Q6_K, Q8_0};
        let of = |ty| is_repacked(avx2, ty, 64);
        assert_eq!([Q4_0, Q4_K, IQ4_NL, Q2_K, Q6_K, Q8_0].map(of), [true, true, true, false, false, false]);
        assert!(!is_repacked(avx2, Q4_0, 60));
        assert!(!is_repacked(Ggml { repack: false, ..avx2 }, Q4_0, 64));
        assert!(!is_repacked(Ggml { isa: Isa::Sse2, ..avx2 }, Q4_0, 64));
        assert!(!is_known(Isa::Avx2, IQ4_NL) && !is_known(Isa::Sse2, Q4_0));
    }

    #[test]
    fn what_is_left_of_the_columns_is_taken_alone() {
        assert_eq!([0, 3, 4, 6].map(|column| is_in_group(7, column)), [true, true, false, false]);
        assert!(!is_in_group(3, 0) && is_in_group(8, 7));
    }

    #[test]
    fn of_two_extremes_the_positive_one_counts() {
        let mut row = [0f32; 256];
        (row[0], row[1], row[2]) = (-254.0, 254.0, 1.0);
        let block = block_of_group(&row);
        assert_eq!((block.d, &block.codes[..3]), (-2.0, &[127, -127, 0][..]));
        row[1] = 253.0;
        assert_eq!((block_of_group(&row).d, block_of_group(&row).codes[0]), (2.0, -127));
        assert_eq!(block_of_group(&[0.0; 256]).d, 0.0);
    }

    /// The orders are those of a sum in f64 but for rounding, and differ from each other.
    #[test]
    fn the_length_of_a_run_decides_where_it_is_rounded() {
        let (row, x) = operands(GgmlType::Q4_K);
        let taken = in_group(Isa::Avx2, GgmlType::Q4_K, &x).unwrap();
        let of = |in_group| dot_repacked(Isa::Avx2, GgmlType::Q4_K, &row, &taken, in_group).unwrap();
        let Activation::Blocks256(x) = &taken else { panic!() };
        let exact: f64 = row
            .iter()
            .zip(x)
            .map(|(w, x)| {
                let part = |part: usize| {
                    let at = part * PART;
                    let product =
                        i32::from(w.scales[part]) * sum(&w.codes[at..][..PART], &x.codes[at..][..PART]);
                    let minimum = i32::from(w.mins[part]) * (x.sums[2 * part] + x.sums[2 * part + 1]);
                    f64::from(w.d) * f64::from(product) - f64::from(w.dmin) * f64::from(minimum)
                };
                f64::from(x.d) * (0..8).map(part).sum::<f64>()
            })
            .sum();
        assert!((f64::from(of(true)) - exact).abs() < 1e-3 && (f64::from(of(false)) - exact).abs() < 1e-3);
        assert_ne!(of(true), of(false));
    }

    #[test]
    fn a_block_of_q4_0_is_fused_with_the_sum() {
        let (row, x) = operands(GgmlType::Q4_0);
        let taken = in_group(Isa::Avx2, GgmlType::Q4_0, &x).unwrap();
        let Activation::Blocks32(blocks) = &taken else { panic!() };
        let term =
            |at: usize| (sum(&row[at].codes[..32], &blocks[at].codes) as f32, row[at].d * blocks[at].d);
        let (first, second) = (term(0), term(1));
        let two = dot_repacked(Isa::Avx2, GgmlType::Q4_0, &row[..2], &taken, true).unwrap();
        assert_eq!(two, second.0.mul_add(second.1, first.0 * first.1));
        assert_eq!(dot_repacked(Isa::Sse2, GgmlType::Q4_0, &row, &taken, true), None);
    }
}
