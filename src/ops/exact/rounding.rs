//! What ggml-cpu rounds an activation to in front of a matrix product: the `vec_dot_type` of the weight's type
//! (`type_traits_cpu`, ggml-cpu.c). One function for each.

use half::{bf16, f16};

use crate::quant::amax;
use crate::tensor::GgmlType;

/// The type that activations are rounded to in front of weights of type `weight` on a CPU; none if ggml has no such product.
pub fn vec_dot_type(weight: GgmlType) -> Option<GgmlType> {
    use GgmlType::{
        BF16, F16, F32, IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_NL, IQ4_XS, MXFP4, NVFP4,
        PQ2_0, PTQ1_0, Q1_0, Q2_0, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, Q8_1, Q8_K,
        TQ1_0, TQ2_0,
    };
    Some(match weight {
        F32 => F32,
        F16 => F16,
        BF16 => BF16,
        Q1_0 | Q2_0 | Q4_0 | Q5_0 | Q8_0 | IQ4_NL | MXFP4 | NVFP4 | PQ2_0 | PTQ1_0 => Q8_0,
        Q4_1 | Q5_1 | Q8_1 => Q8_1,
        Q2_K | Q3_K | Q4_K | Q5_K | Q6_K | IQ1_S | IQ1_M | IQ2_XXS | IQ2_XS | IQ2_S | IQ3_XXS | IQ3_S
        | IQ4_XS | TQ1_0 | TQ2_0 => Q8_K,
        _ => return None,
    })
}

/// An activation as a product sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Rounded {
    /// The rounded values.
    pub values: Vec<f32>,
    /// For Q8_1, which stores the sum of a block for the weights' minimum: by how much that sum differs from the sum of the
    /// rounded values, per block of 32.
    pub sum_errors: Option<Vec<f32>>,
}

/// Elements that share a scale in Q8_0 and Q8_1.
const SMALL_BLOCK: usize = 32;
/// Elements that share a scale in Q8_K.
const LARGE_BLOCK: usize = 256;
/// The largest code of all three.
const LARGEST: f32 = 127.0;

/// Rounds one row to `ty`, one of the types that [`vec_dot_type`] gives.
pub fn round_activation(ty: GgmlType, row: &[f32]) -> Rounded {
    let each =
        |round: fn(f32) -> f32| Rounded { values: row.iter().map(|&x| round(x)).collect(), sum_errors: None };
    match ty {
        GgmlType::F16 => each(|x| f16::from_f32(x).to_f32()),
        GgmlType::BF16 => each(|x| bf16::from_f32(x).to_f32()),
        GgmlType::Q8_0 => Rounded { values: to_q8_0(row), sum_errors: None },
        GgmlType::Q8_1 => to_q8_1(row),
        GgmlType::Q8_K => Rounded { values: to_q8_k(row), sum_errors: None },
        _ => each(|x| x),
    }
}

/// Codes and f32 scale of a block: `d = amax / 127`, the quotient by `127 / amax`, rounded to nearest even, as the x86 kernels
/// do (`quantize_row_q8_0` in arch/x86/quants.c; the portable ones divide by d and round half away from zero).
fn codes(block: &[f32]) -> (Vec<f32>, f32) {
    let largest = amax(block);
    let inverse = if largest != 0.0 { LARGEST / largest } else { 0.0 };
    (block.iter().map(|x| (x * inverse).round_ties_even()).collect(), largest / LARGEST)
}

/// Signed bytes with one scale per 32, stored as f16.
fn to_q8_0(row: &[f32]) -> Vec<f32> {
    let blocks = row.chunks(SMALL_BLOCK).flat_map(|block| {
        let (codes, d) = codes(block);
        let stored = f16::from_f32(d).to_f32();
        codes.into_iter().map(move |code| code * stored)
    });
    blocks.collect()
}

/// As Q8_0, with `d * sum(codes)` stored as f16 beside it, d before it is rounded.
fn to_q8_1(row: &[f32]) -> Rounded {
    let mut values = Vec::with_capacity(row.len());
    let mut sum_errors = Vec::with_capacity(row.len().div_ceil(SMALL_BLOCK));
    for block in row.chunks(SMALL_BLOCK) {
        let (codes, d) = codes(block);
        let stored = f16::from_f32(d).to_f32();
        let sum: f32 = codes.iter().sum(); // of at most 32 * 127: exact
        sum_errors.push(f16::from_f32(d * sum).to_f32() - stored * sum);
        values.extend(codes.into_iter().map(|code| code * stored));
    }
    Rounded { values, sum_errors: Some(sum_errors) }
}

/// Signed bytes with one f32 scale per 256: `1 / d = -127 / x`, x the value of largest size with its sign
/// (`quantize_row_q8_K_ref`, ggml-quants.c).
fn to_q8_k(row: &[f32]) -> Vec<f32> {
    let blocks = row.chunks(LARGE_BLOCK).flat_map(|block| {
        let extreme =
            block.iter().fold(0.0f32, |extreme, &x| if x.abs() > extreme.abs() { x } else { extreme });
        let inverse = -LARGEST / extreme;
        block.iter().map(move |x| match extreme {
            0.0 => 0.0,
            _ => (x * inverse).round_ties_even().min(LARGEST) * (1.0 / inverse),
        })
    });
    blocks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(weight: GgmlType, row: &[f32]) -> Vec<f32> {
        round_activation(vec_dot_type(weight).unwrap(), row).values
    }

    #[test]
    fn each_type_has_its_partner() {
        assert_eq!(rounded(GgmlType::F32, &[2049.0]), [2049.0]);
        assert_eq!(rounded(GgmlType::F16, &[2049.0]), [2048.0]);
        assert_eq!(rounded(GgmlType::BF16, &[257.0]), [256.0]);
        // d = 2: 3.5 / 2 = 1.75 -> 2
        assert_eq!(rounded(GgmlType::Q4_0, &[3.5, 254.0]), [4.0, 254.0]);
        // the extreme is negative, so it becomes +127 codes of -2: 3.5 / -2 -> -2
        assert_eq!(rounded(GgmlType::Q4_K, &[3.5, -254.0]), [4.0, -254.0]);
        assert_eq!(vec_dot_type(GgmlType::I32), None);
    }

    #[test]
    fn q8_1_keeps_a_rounded_sum() {
        // d = 1 exactly: codes 127 and 1, sum 128, which f16 holds; with d = 0.1 the sum 25.7 is rounded
        assert_eq!(round_activation(GgmlType::Q8_1, &[127.0, 1.0]).sum_errors, Some(vec![0.0]));
        let rounded = round_activation(GgmlType::Q8_1, &[12.7, 12.7, 0.3]);
        let d = 12.7f32 / 127.0;
        let expected = f16::from_f32(d * 257.0).to_f32() - f16::from_f32(d).to_f32() * 257.0;
        assert_eq!(rounded.sum_errors, Some(vec![expected]));
        assert_ne!(expected, 0.0);
    }
}
