//! The two factors of a matrix product as ggml-cpu takes them: a row of weights, and an activation in the type that goes with it
//! (`vec_dot_type`, ggml-cpu.c).

use half::{bf16, f16};

use super::Isa;
use crate::quant::{self, Integers, MOST_ELEMENTS, amax};
use crate::tensor::GgmlType;

/// A row of weights.
#[derive(Clone, PartialEq, Debug)]
pub enum Factor {
    /// F32, F16 or BF16, by their values.
    Floats(GgmlType, Vec<f32>),
    /// Blocks of integers.
    Blocks(GgmlType, Vec<Integers>),
}

/// A block of 32 signed codes: Q8_0, Q8_1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Block32 {
    /// The scale, as f16 stores it.
    pub d: f32,
    /// Scale times sum of the codes, as f16 stores it; of Q8_1.
    pub s: f32,
    /// The codes.
    pub codes: [i8; 32],
}

/// A block of 256 signed codes: Q8_K.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Block256 {
    /// The scale.
    pub d: f32,
    /// The codes.
    pub codes: [i8; 256],
    /// The sum of 16 codes each.
    pub sums: [i32; 16],
}

/// An activation in front of a product.
#[derive(Clone, PartialEq, Debug)]
pub enum Activation {
    /// F32, or rounded to F16 or BF16.
    Floats(Vec<f32>),
    /// Q8_0 or Q8_1.
    Blocks32(Vec<Block32>),
    /// Q8_K.
    Blocks256(Vec<Block256>),
}

impl Factor {
    /// The blocks of a row as integers; none for a type that is not multiplied so.
    pub fn of_blocks(ty: GgmlType, row: &[u8]) -> Option<Factor> {
        let integers = quant::format(ty).ok()?.integers()?;
        let blocks = row.chunks_exact(ty.block_bytes()).map(integers).collect();
        Some(Factor::Blocks(ty, blocks))
    }
}

impl Activation {
    /// A row of f32 in the type that goes with weights of type `weight`; none if that is not known.
    pub fn of(isa: Isa, weight: GgmlType, row: &[f32]) -> Option<Activation> {
        use GgmlType::{
            BF16, F16, F32, Q1_0, Q2_0, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, TQ1_0,
            TQ2_0,
        };
        Some(match weight {
            F32 => Activation::Floats(row.to_vec()),
            F16 => Activation::Floats(row.iter().map(|&x| f16::from_f32(x).to_f32()).collect()),
            BF16 => Activation::Floats(row.iter().map(|&x| bf16::from_f32(x).to_f32()).collect()),
            Q1_0 | Q2_0 | Q4_0 | Q5_0 | Q8_0 | Q4_1 | Q5_1 => {
                let (blocks, rest) = row.as_chunks::<32>();
                if !rest.is_empty() {
                    return None;
                }
                Activation::Blocks32(blocks.iter().map(|block| block_32(isa, block)).collect())
            }
            Q2_K | Q3_K | Q4_K | Q5_K | Q6_K | TQ1_0 | TQ2_0 => {
                let (blocks, rest) = row.as_chunks::<MOST_ELEMENTS>();
                if !rest.is_empty() {
                    return None;
                }
                Activation::Blocks256(blocks.iter().map(block_256).collect())
            }
            _ => return None,
        })
    }
}

/// `quantize_row_q8_0` and `_q8_1`: in ggml-quants.c on a scalar build (`x (1 / d)`, ties away from zero), in arch/x86/quants.c
/// with AVX (`x (127 / amax)`, ties to even). The sum of Q8_1 is of the codes, times d before it is rounded to f16.
fn block_32(isa: Isa, block: &[f32; 32]) -> Block32 {
    let largest = amax(block);
    let d = largest / 127.0;
    let codes = match isa {
        Isa::Sse2 => {
            let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
            block.map(|x| (x * inverse).round() as i8)
        }
        Isa::Avx2 | Isa::Avx512 => {
            let inverse = if largest != 0.0 { 127.0 / largest } else { 0.0 };
            block.map(|x| (x * inverse).round_ties_even() as i8)
        }
    };
    let sum: i32 = codes.iter().map(|&code| i32::from(code)).sum();
    Block32 { d: f16::from_f32(d).to_f32(), s: f16::from_f32(sum as f32 * d).to_f32(), codes }
}

/// `quantize_row_q8_K_ref` (ggml-quants.c, which is compiled without vector code in every build).
fn block_256(block: &[f32; 256]) -> Block256 {
    let larger = |so_far: f32, &x: &f32| if x.abs() > so_far.abs() { x } else { so_far };
    let extreme = block.iter().fold(0.0, larger);
    if extreme == 0.0 {
        return Block256 { d: 0.0, codes: [0; 256], sums: [0; 16] };
    }
    let inverse = -127.0 / extreme;
    let codes = block.map(|x| (inverse * x).round_ties_even().min(127.0) as i8);
    let sum = |part: usize| codes[16 * part..][..16].iter().map(|&code| i32::from(code)).sum();
    Block256 { d: 1.0 / inverse, codes, sums: std::array::from_fn(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_one_way_or_the_other() {
        let mut row = [0f32; 32];
        (row[0], row[1], row[2]) = (127.0, 0.5, -0.5);
        assert_eq!(block_32(Isa::Sse2, &row).codes[..3], [127, 1, -1]);
        assert_eq!(block_32(Isa::Avx2, &row).codes[..3], [127, 0, 0]);
        assert_eq!((block_32(Isa::Avx2, &row).d, block_32(Isa::Avx2, &row).s), (1.0, 127.0));
    }

    #[test]
    fn the_extreme_becomes_minus_127() {
        let mut row = [0f32; 256];
        (row[0], row[17]) = (254.0, -128.0);
        let Block256 { d, codes, sums } = block_256(&row);
        assert_eq!((d, codes[0], codes[17], sums[0], sums[1]), (-2.0, -127, 64, -127, 64));
    }

    #[test]
    fn zeros_stay_zeros() {
        assert_eq!(block_32(Isa::Sse2, &[0.0; 32]), Block32 { d: 0.0, s: 0.0, codes: [0; 32] });
        assert_eq!(block_256(&[0.0; 256]).d, 0.0);
    }

    #[test]
    fn a_row_that_is_no_whole_number_of_blocks_is_refused() {
        assert_eq!(Activation::of(Isa::Sse2, GgmlType::Q8_0, &[0.0; 33]), None);
        assert_eq!(Activation::of(Isa::Sse2, GgmlType::Q4_K, &[0.0; 32]), None);
        assert_eq!(Activation::of(Isa::Sse2, GgmlType::IQ4_NL, &[0.0; 32]), None);
    }
}
