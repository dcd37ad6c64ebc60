//! Block formats: how ggml stores weights, decoded to and encoded from f32. One format per file.
//!
//! Adding a format: a file here that implements [`Format`], and one line in [`FORMATS`].

use thiserror::Error;

use crate::tensor::GgmlType;

mod bf16;
mod f16;
mod f32;
mod pq2_0;
mod ptq1_0;
mod q2_0;
mod q8_0;
mod two_bit;

pub use bf16::round_to_bf16;

/// Decodes and encodes rows of one ggml type.
pub trait Format: Sync {
    /// The type that this format stores.
    fn ty(&self) -> GgmlType;

    /// Decodes whole blocks: `values.len()` is `blocks.len() / block_bytes * block_elements`.
    fn decode(&self, blocks: &[u8], values: &mut [f32]);

    /// Encodes whole blocks with ggml's reference rule: sizes as for [`Format::decode`].
    fn encode(&self, values: &[f32], blocks: &mut [u8]);
}

/// Every format, in order of id. `tests/registries.rs` compares this table with the folder.
pub const FORMATS: &[&dyn Format] =
    &[&f32::F32, &f16::F16, &q8_0::Q8_0, &bf16::Bf16, &q2_0::Q2_0, &pq2_0::Pq2_0, &ptq1_0::Ptq1_0];

/// Why a row could not be decoded or encoded.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum QuantError {
    /// There is no format for the type (yet).
    #[error("no decoder for type {0}; known types: {known}", known = known_names())]
    Unknown(GgmlType),
    /// The sizes of blocks and values do not belong together.
    #[error("{ty} data of {bytes} bytes does not hold {elements} elements")]
    Size {
        /// The type of the data.
        ty: GgmlType,
        /// Bytes of blocks.
        bytes: usize,
        /// Elements that were asked for.
        elements: usize,
    },
}

fn known_names() -> String {
    FORMATS.iter().map(|f| f.ty().name()).collect::<Vec<_>>().join(", ")
}

/// The format that stores `ty`.
///
/// # Errors
/// [`QuantError::Unknown`] if no file here implements it.
pub fn format(ty: GgmlType) -> Result<&'static dyn Format, QuantError> {
    FORMATS.iter().copied().find(|f| f.ty() == ty).ok_or(QuantError::Unknown(ty))
}

/// Decodes `blocks` of type `ty` into as many f32 as `values` holds.
///
/// # Errors
/// If the type is unknown or the sizes do not belong together.
pub fn decode(ty: GgmlType, blocks: &[u8], values: &mut [f32]) -> Result<(), QuantError> {
    check_sizes(ty, blocks.len(), values.len())?;
    format(ty)?.decode(blocks, values);
    Ok(())
}

/// Encodes `values` as type `ty` with ggml's reference rule.
///
/// # Errors
/// If the type is unknown or `values` does not consist of whole blocks.
pub fn encode(ty: GgmlType, values: &[f32]) -> Result<Vec<u8>, QuantError> {
    let bytes = ty.row_bytes(values.len() as u64).and_then(|b| usize::try_from(b).ok());
    let bytes = bytes.ok_or(QuantError::Size { ty, bytes: 0, elements: values.len() })?;
    let mut blocks = vec![0; bytes];
    format(ty)?.encode(values, &mut blocks);
    Ok(blocks)
}

fn check_sizes(ty: GgmlType, bytes: usize, elements: usize) -> Result<(), QuantError> {
    match ty.row_bytes(elements as u64) {
        Some(expected) if expected == bytes as u64 => Ok(()),
        _ => Err(QuantError::Size { ty, bytes, elements }),
    }
}

/// The largest absolute value, as ggml's quantisers find it (NaN is passed over).
pub(crate) fn amax(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, v| if v.abs() > largest { v.abs() } else { largest })
}

/// `1 / d`, or 0 for a block of zeros.
pub(crate) fn inverse_or_zero(d: f32) -> f32 {
    if d > 0.0 { 1.0 / d } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_must_belong_together() {
        let mut values = [0.0; 128];
        let short = decode(GgmlType::PQ2_0, &[0; 33], &mut values);
        assert_eq!(short, Err(QuantError::Size { ty: GgmlType::PQ2_0, bytes: 33, elements: 128 }));
        assert!(matches!(encode(GgmlType::Q8_0, &[0.0; 31]), Err(QuantError::Size { .. })));
        assert_eq!(
            decode(GgmlType::Q4_K, &[0; 144], &mut [0.0; 256]),
            Err(QuantError::Unknown(GgmlType::Q4_K))
        );
    }

    /// Ternary values with one scale per 128: what the folded models hold.
    fn ternary() -> impl Strategy<Value = Vec<f32>> {
        (prop::collection::vec(-1i8..=1, 128), 1u16..0x7bff).prop_map(|(mut digits, bits)| {
            digits[0] = 1; // the scale is found as the largest absolute value
            let d = half::f16::from_bits(bits).to_f32();
            digits.iter().map(|&digit| f32::from(digit) * d).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ternary_weights_are_kept_by_every_ternary_format(values in ternary()) {
            for ty in [GgmlType::PQ2_0, GgmlType::PTQ1_0, GgmlType::Q2_0] {
                let blocks = encode(ty, &values).unwrap();
                let mut back = vec![0.0; 128];
                decode(ty, &blocks, &mut back).unwrap();
                // A group of 64 zeros has the scale 0 in Q2_0 and gives zeros of either sign.
                prop_assert!(values.iter().zip(&back).all(|(x, y)| x == y), "{ty}");
            }
        }
    }
}
