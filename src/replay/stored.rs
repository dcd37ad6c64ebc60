//! Values that were moved and not computed, as the type of the result holds them: what writes into a cache of fewer digits
//! rounds on the way, to the bit.

use crate::ops::exact::{ActivationRounding, CpuKernel, round_activation};
use crate::quant;
use crate::tensor::GgmlType;

/// The values rounded to `ty`, as ggml-cpu's `from_float` does with such a kernel; an error if that is not known of this type.
pub(super) fn stored(ty: GgmlType, values: &[f64], kernel: CpuKernel) -> Result<Vec<f32>, String> {
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

/// The bytes of values that [`stored`] gives: encoding them again changes nothing.
pub(super) fn bytes(ty: GgmlType, values: &[f64], kernel: CpuKernel) -> Option<Vec<u8>> {
    quant::encode(ty, &stored(ty, values, kernel).ok()?).ok()
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
            assert_eq!(read, once, "{ty}");
            let again: Vec<f64> = once.iter().map(|&value| value.into()).collect();
            assert_eq!(stored(ty, &again, CpuKernel::X86).unwrap(), once, "{ty}");
        }
    }
}
