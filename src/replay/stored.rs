//! The values of a result of any type; and values that were moved and not computed, as the type of the result holds them: what
//! writes into a cache of fewer digits rounds on the way, to the bit.

use std::fmt::Display;

use crate::ops::exact::{ActivationRounding, CpuKernel, round_activation};
use crate::quant;
use crate::tensor::GgmlType;

/// The values that packed bytes hold; an error if a type cannot be decoded, or not into so many elements.
pub(super) fn held(ty: GgmlType, bytes: &[u8], elements: usize) -> Result<Vec<f64>, String> {
    let unknown = |error: &dyn Display| format!("a result of type {ty} is not evaluated: {error}");
    let Some(ints) = integers(ty, bytes) else {
        let mut values = vec![0.0; elements];
        quant::decode(ty, bytes, &mut values).map_err(|error| unknown(&error))?;
        return Ok(values.into_iter().map(f64::from).collect());
    };
    let values: Vec<f64> = ints.into_iter().map(|int| int as f64).collect();
    if values.len() == elements {
        Ok(values)
    } else {
        Err(unknown(&format_args!("{} elements for {elements}", values.len())))
    }
}

/// The integers that packed bytes hold; none if they are of another type.
pub(super) fn integers(ty: GgmlType, bytes: &[u8]) -> Option<Vec<i64>> {
    match ty {
        GgmlType::I32 => {
            Some(bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect())
        }
        GgmlType::I64 => Some(bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()),
        _ => None,
    }
}

/// The values rounded to `ty`, as ggml-cpu's `from_float` does with such a kernel; an error if that is not known of this type.
pub(super) fn stored(ty: GgmlType, values: &[f64], kernel: CpuKernel) -> Result<Vec<f64>, String> {
    if ty == GgmlType::I32 {
        // C has no result for a number that does not fit.
        let fits = |value: &f64| f64::from(i32::MIN) <= *value && *value <= f64::from(i32::MAX);
        let whole = |value: &f64| Some(value.trunc()).filter(fits);
        return values
            .iter()
            .map(whole)
            .collect::<Option<_>>()
            .ok_or_else(|| "a number does not fit into i32".to_owned());
    }
    Ok(singles(ty, values, kernel)?.into_iter().map(f64::from).collect())
}

/// The bytes of values that [`stored`] gives: encoding them again changes nothing.
pub(super) fn bytes(ty: GgmlType, values: &[f64], kernel: CpuKernel) -> Option<Vec<u8>> {
    if ty == GgmlType::I32 {
        let ints = stored(ty, values, kernel).ok()?;
        return Some(ints.into_iter().flat_map(|int| (int as i32).to_le_bytes()).collect());
    }
    quant::encode(ty, &singles(ty, values, kernel).ok()?).ok()
}

fn singles(ty: GgmlType, values: &[f64], kernel: CpuKernel) -> Result<Vec<f32>, String> {
    // What is moved was an f32 or less.
    let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    match ty {
        // The kernels differ in ties; `quant` has the portable one.
        GgmlType::Q8_0 => Ok(round_activation(ActivationRounding::Q8_0(kernel), &values).values),
        _ => {
            let unknown = |error| format!("a result of type {ty} is not evaluated: {error}");
            let blocks = quant::encode(ty, &values).map_err(unknown)?;
            let mut rounded = vec![0.0; values.len()];
            quant::decode(ty, &blocks, &mut rounded).map_err(unknown)?;
            Ok(rounded)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: CpuKernel = CpuKernel::X86;

    /// A block of 32 with these values first.
    fn block(first: &[f64]) -> Vec<f64> {
        let mut values = vec![0.0; 32];
        values[..first.len()].copy_from_slice(first);
        values
    }

    #[test]
    fn each_type_rounds_its_own_way() {
        assert_eq!(stored(GgmlType::F32, &[2049.0], X86).unwrap(), [2049.0]);
        assert_eq!(stored(GgmlType::F16, &[2049.0], X86).unwrap(), [2048.0]);
        assert_eq!(stored(GgmlType::BF16, &[257.0], X86).unwrap(), [256.0]);
        // d = 2: 5 / 2 = 2.5, a tie, goes to 2
        assert_eq!(stored(GgmlType::Q8_0, &block(&[254.0, 5.0]), X86).unwrap()[..2], [254.0, 4.0]);
        // d = -8 / -8 = 1: 3.4 goes to 3
        assert_eq!(stored(GgmlType::Q4_0, &block(&[-8.0, 3.4]), X86).unwrap()[..2], [-8.0, 3.0]);
        assert!(stored(GgmlType::Q5_0, &block(&[1.0]), X86).is_err());
    }

    #[test]
    fn what_is_stored_is_stored_as_it_is() {
        for ty in [GgmlType::F16, GgmlType::BF16, GgmlType::Q8_0, GgmlType::Q4_0] {
            let values: Vec<f64> = (0..64).map(|i| f64::from((i * 37 % 64) as f32 * 0.013 - 0.4)).collect();
            let once = stored(ty, &values, CpuKernel::X86).unwrap();
            let mut read = vec![0.0; 64];
            quant::decode(ty, &bytes(ty, &values, CpuKernel::X86).unwrap(), &mut read).unwrap();
            assert!(read.into_iter().map(f64::from).eq(once.iter().copied()), "{ty}");
            assert_eq!(stored(ty, &once, CpuKernel::X86).unwrap(), once, "{ty}");
        }
    }

    #[test]
    fn integers_are_whole_and_fit() {
        let minus_two_and_big = [(-2i32).to_le_bytes(), 16_777_217i32.to_le_bytes()].concat();
        assert_eq!(held(GgmlType::I32, &minus_two_and_big, 2).unwrap(), [-2.0, 16_777_217.0]);
        assert_eq!(held(GgmlType::I64, &5i64.to_le_bytes(), 1).unwrap(), [5.0]);
        assert!(held(GgmlType::I32, &minus_two_and_big, 3).is_err());
        assert!(held(GgmlType::F32, &[0; 4], 2).is_err());
        assert_eq!(stored(GgmlType::I32, &[-2.9, 16_777_217.0], X86).unwrap(), [-2.0, 16_777_217.0]);
        assert_eq!(bytes(GgmlType::I32, &[-2.0, 16_777_217.0], X86).unwrap(), minus_two_and_big);
        for wrong in [f64::NAN, f64::INFINITY, 2_147_483_648.0] {
            assert!(stored(GgmlType::I32, &[wrong], X86).is_err(), "{wrong}");
        }
    }
}
