//! Block formats: how ggml stores weights, decoded to and encoded from f32. One format per file.
//!
//! Adding a format: a file here that implements [`Format`], and one line in [`FORMATS`].

pub use codes::Codes;
pub use integers::{Integers, MOST_ELEMENTS, MOST_PARTS};

use thiserror::Error;

use crate::tensor::GgmlType;

mod bf16;
mod blocks;
mod codes;
mod e2m1;
mod f16;
mod f32;
mod f64;
mod five_bit;
mod integers;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod lattice;
mod mxfp4;
mod nvfp4;
mod pq2_0;
mod ptq1_0;
mod q1_0;
mod q2_0;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod q8_1;
mod q8_k;
mod six_bit_scales;
mod super_block;
mod tables;
mod tq1_0;
mod tq2_0;
mod trits;
mod two_bit;

/// Decodes and encodes rows of one ggml type.
pub trait Format: Sync {
    /// The type that this format stores.
    fn ty(&self) -> GgmlType;

    /// Decodes whole blocks: `values.len()` is `blocks.len() / block_bytes * block_elements`.
    fn decode(&self, blocks: &[u8], values: &mut [f32]);

    /// For a format whose values are `scale * code + min`: the min of each element, as a product adds it up apart from the
    /// codes. False, and nothing written, for a format without one.
    fn minima(&self, _blocks: &[u8], _minima: &mut [f32]) -> bool {
        false
    }

    /// For a format whose codes count from 0 and stand for values around zero: what code 0 stands for, of each element. A product
    /// may add up the codes and take that off apart. False, and nothing written, for a format of which none does so.
    fn code_zero(&self, _blocks: &[u8], _values: &mut [f32]) -> bool {
        false
    }

    /// How the codes of a block lie, for a format whose values are a code times one scale for the whole block.
    fn codes(&self) -> Option<Codes> {
        None
    }

    /// Takes a block apart into integers, for a format that ggml multiplies so with rounded activations.
    fn integers(&self) -> Option<IntegersOf> {
        None
    }

    /// Encodes whole blocks, sizes as for [`Format::decode`]; `None` if this crate never writes the format.
    fn encoder(&self) -> Option<Encoder> {
        None
    }
}

/// Encodes values into whole blocks. The file of the format says by which rule.
pub type Encoder = fn(&[f32], &mut [u8]);

/// Takes one block apart, of exactly its number of bytes.
pub type IntegersOf = fn(&[u8]) -> Integers;

/// Every format, in order of id. `tests/registries.rs` compares this table with the folder.
pub const FORMATS: &[&dyn Format] = &[
    &f32::F32,
    &f16::F16,
    &q4_0::Q4_0,
    &q4_1::Q4_1,
    &q5_0::Q5_0,
    &q5_1::Q5_1,
    &q8_0::Q8_0,
    &q8_1::Q8_1,
    &q2_k::Q2K,
    &q3_k::Q3K,
    &q4_k::Q4K,
    &q5_k::Q5K,
    &q6_k::Q6K,
    &q8_k::Q8K,
    &iq2_xxs::Iq2Xxs,
    &iq2_xs::Iq2Xs,
    &iq3_xxs::Iq3Xxs,
    &iq1_s::Iq1S,
    &iq4_nl::Iq4Nl,
    &iq3_s::Iq3S,
    &iq2_s::Iq2S,
    &iq4_xs::Iq4Xs,
    &f64::F64,
    &iq1_m::Iq1M,
    &bf16::Bf16,
    &tq1_0::Tq1_0,
    &tq2_0::Tq2_0,
    &mxfp4::Mxfp4,
    &nvfp4::Nvfp4,
    &q1_0::Q1_0,
    &q2_0::Q2_0,
    &pq2_0::Pq2_0,
    &ptq1_0::Ptq1_0,
];

/// Why a row could not be decoded or encoded.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum QuantError {
    /// There is no format for the type: it does not hold weights.
    #[error("no decoder for type {0}; known types: {known}", known = known_names())]
    Unknown(GgmlType),
    /// The format is only read.
    #[error("no encoder for type {0}; types with one: {encodable}", encodable = encodable_names())]
    NoEncoder(GgmlType),
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

fn encodable_names() -> String {
    let encodable = FORMATS.iter().filter(|f| f.encoder().is_some());
    encodable.map(|f| f.ty().name()).collect::<Vec<_>>().join(", ")
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

/// Encodes `values` as type `ty`.
///
/// # Errors
/// If the type is unknown or has no encoder, or `values` does not consist of whole blocks.
pub fn encode(ty: GgmlType, values: &[f32]) -> Result<Vec<u8>, QuantError> {
    let bytes = ty.row_bytes(values.len() as u64).and_then(|b| usize::try_from(b).ok());
    let bytes = bytes.ok_or(QuantError::Size { ty, bytes: 0, elements: values.len() })?;
    let mut blocks = vec![0; bytes];
    let encode = format(ty)?.encoder().ok_or(QuantError::NoEncoder(ty))?;
    encode(values, &mut blocks);
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
fn inverse_or_zero(d: f32) -> f32 {
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
        assert_eq!(decode(GgmlType::I32, &[0; 8], &mut [0.0; 2]), Err(QuantError::Unknown(GgmlType::I32)));
    }

    #[test]
    fn every_type_but_the_integers_has_a_format() {
        use GgmlType::{I8, I16, I32, I64};
        let weights = GgmlType::ALL.iter().filter(|ty| ![I8, I16, I32, I64].contains(ty));
        assert!(FORMATS.iter().map(|format| format.ty()).eq(weights.copied()));
    }

    #[test]
    fn a_format_that_is_only_read_says_so() {
        assert_eq!(encode(GgmlType::Q8_K, &[0.0; 256]), Err(QuantError::NoEncoder(GgmlType::Q8_K)));
        let message = QuantError::NoEncoder(GgmlType::Q8_K).to_string();
        assert!(message.starts_with("no encoder for type q8_K; types with one: f32, f16, q4_0"), "{message}");
    }

    /// Ternary values with one scale per 128: what the folded models hold.
    fn ternary() -> impl Strategy<Value = Vec<f32>> {
        (prop::collection::vec(-1i8..=1, 256), 1u16..0x7bff).prop_map(|(mut digits, bits)| {
            (digits[0], digits[128]) = (1, 1); // the scale is found as the largest absolute value
            let d = half::f16::from_bits(bits).to_f32();
            digits.iter().map(|&digit| f32::from(digit) * d).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn ternary_weights_are_kept_by_every_ternary_format(values in ternary()) {
            use GgmlType::{PQ2_0, PTQ1_0, Q2_0, TQ1_0, TQ2_0};
            for ty in [PQ2_0, PTQ1_0, Q2_0, TQ1_0, TQ2_0] {
                let blocks = encode(ty, &values).unwrap();
                let mut back = vec![0.0; 256];
                decode(ty, &blocks, &mut back).unwrap();
                // A group of 64 zeros has the scale 0 in Q2_0 and gives zeros of either sign.
                prop_assert!(values.iter().zip(&back).all(|(x, y)| x == y), "{ty}");
            }
        }
    }
}
