//! What ggml-cpu rounds an activation to in front of a matrix product: the `vec_dot_type` of the weight's type
//! (`type_traits_cpu`, ggml-cpu.c).

use half::{bf16, f16};
use thiserror::Error;

use crate::quant::{amax, inverse_or_zero};
use crate::tensor::GgmlType;

/// The rounding of activations in front of weights of this type is not known.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
#[error("activations in front of {0} weights")]
pub struct UnknownRounding(pub GgmlType);

/// Elements that share a scale in Q8_0.
const Q8_0_GROUP: usize = GgmlType::Q8_0.block_elements();

/// Rounds one row in place, as ggml-cpu does in front of weights of type `weight`.
///
/// # Errors
/// If the rounding for this type is not known.
pub fn round_activation(weight: GgmlType, row: &mut [f32]) -> Result<(), UnknownRounding> {
    use GgmlType::{BF16, F16, F32, IQ4_NL, MXFP4, NVFP4, Q1_0, Q2_0, Q4_0, Q5_0, Q8_0};
    match weight {
        F32 => {}
        F16 => row.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
        BF16 => row.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32()),
        Q1_0 | Q2_0 | Q4_0 | Q5_0 | Q8_0 | IQ4_NL | MXFP4 | NVFP4 => to_q8_0(row),
        _ => return Err(UnknownRounding(weight)),
    }
    Ok(())
}

/// To signed bytes with one scale per 32: `d = amax / 127`, stored as f16; the quotient uses the f32 inverse of d
/// (`quantize_row_q8_0`, arch-specific versions round to nearest even where the reference rounds half away).
fn to_q8_0(row: &mut [f32]) {
    for group in row.chunks_mut(Q8_0_GROUP) {
        let d = amax(group) / 127.0;
        let inverse = inverse_or_zero(d);
        let stored = f16::from_f32(d).to_f32();
        group.iter_mut().for_each(|x| *x = (*x * inverse).round_ties_even() * stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_rounding() {
        let rounded = |ty, x: f32| {
            let mut row = [x, 254.0];
            round_activation(ty, &mut row).map(|()| row[0])
        };
        assert_eq!(rounded(GgmlType::F32, 2049.0), Ok(2049.0));
        assert_eq!(rounded(GgmlType::F16, 2049.0), Ok(2048.0));
        assert_eq!(rounded(GgmlType::BF16, 257.0), Ok(256.0));
        assert_eq!(rounded(GgmlType::Q8_0, 3.5), Ok(4.0)); // d = 2: 1.75 -> 2
        assert_eq!(rounded(GgmlType::F64, 1.0), Err(UnknownRounding(GgmlType::F64)));
    }
}
