//! One node, to the bit: what the reference computed against what its arithmetic gives.

use super::ReplayError;
use super::judge::{NodeResult, Outcome};
use super::stored;
use crate::dump::{Dump, Manifest};
use crate::ops::exact::CpuKernel;
use crate::quant;
use crate::tensor::GgmlType;

use crate::arithmetic::{Ggml, UnknownBuild};

/// How the bits of a node compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bits {
    /// Elements.
    pub elements: u64,
    /// Of those, with other bits.
    pub differing: u64,
    /// The greatest distance in units in the last place of the result's type; of blocks, in steps of their bytes.
    pub ulps: u64,
}

/// The arithmetic of the build that made a dump.
///
/// # Errors
/// If it is not known.
pub fn arithmetic_of(dump: &Dump) -> Result<Ggml, ReplayError> {
    of_manifest(dump.manifest())
        .map_err(|source| ReplayError::Arithmetic { dump: dump.path().to_owned(), source })
}

fn of_manifest(manifest: &Manifest) -> Result<Ggml, UnknownBuild> {
    let (producer, run) = (&manifest.producer, &manifest.run);
    if producer.backend != "CPU" {
        let system_info = format!("backend {}, {}", producer.backend, producer.system_info);
        return Err(UnknownBuild { system_info });
    }
    Ok(Ggml {
        n_threads: run.n_threads,
        reference_kernels: run.reference_kernels,
        // What is not said is llama.cpp's default.
        repack: run.repack.unwrap_or(true),
        ..Ggml::of(&producer.system_info)?
    })
}

/// Compares what the dump holds with computed values, bit by bit. An element of which nothing was computed (NaN where the
/// reference has a number) differs; NaN of the reference is not finite, whatever was computed.
pub(super) fn judge(
    about: NodeResult,
    ty: GgmlType,
    held: &[u8],
    values: &[f64],
    kernel: CpuKernel,
) -> NodeResult {
    let Some(computed) = stored::bytes(ty, values, kernel).filter(|bytes| bytes.len() == held.len()) else {
        let reason = format!("a result of type {ty} is not evaluated");
        return NodeResult { outcome: Outcome::Skipped(reason), ..about };
    };
    let element = ty.block_bytes();
    let mut bits = Bits { elements: (held.len() / element) as u64, ..Bits::default() };
    let mut worst = 0;
    for (i, (own, other)) in held.chunks_exact(element).zip(computed.chunks_exact(element)).enumerate() {
        if own == other || is_zeros(ty, own) && is_zeros(ty, other) {
            continue;
        }
        bits.differing += 1;
        let distance = distance(ty, own, other);
        if distance > bits.ulps || bits.differing == 1 {
            (bits.ulps, worst) = (distance, i);
        }
    }
    let per_block = ty.block_elements();
    let reference = match stored::held(ty, held, values.len()) {
        Ok(reference) => reference,
        Err(reason) => return NodeResult { outcome: Outcome::Skipped(reason), ..about },
    };
    let is_zero = reference.iter().all(|&value| value == 0.0) && values.iter().all(|&value| value == 0.0);
    let first = |of: &dyn Fn(usize) -> f64| if values.is_empty() { 0.0 } else { of(worst * per_block) };
    let outcome = match bits.differing {
        _ if reference.iter().any(|value| value.is_nan()) => Outcome::NonFinite,
        0 => Outcome::Within,
        _ => Outcome::Over,
    };
    NodeResult {
        is_zero,
        worst_index: (worst * per_block) as u64,
        reference: first(&|at| reference[at]),
        exact: first(&|at| values[at]),
        share: if outcome == Outcome::Within { 0.0 } else { f64::INFINITY },
        outcome,
        bits: Some(bits),
        ..about
    }
}

/// Whether a block holds nothing but zeros. There are many such blocks, whatever their codes; which of them lies in a row of a cache that
/// nothing was written to yet, no operator decides.
fn is_zeros(ty: GgmlType, block: &[u8]) -> bool {
    let mut values = vec![f32::NAN; ty.block_elements()];
    ty.block_elements() > 1
        && quant::decode(ty, block, &mut values).is_ok()
        && values.iter().all(|&value| value == 0.0)
}

/// Units in the last place between two elements of different bits: at least 1.
fn distance(ty: GgmlType, a: &[u8], b: &[u8]) -> u64 {
    let ordered = |bytes: &[u8]| -> i64 {
        let magnitude = bytes.iter().rev().fold(0i64, |all, &byte| all << 8 | i64::from(byte));
        let sign = 1i64 << (8 * bytes.len() - 1);
        if magnitude & sign != 0 { -(magnitude & !sign) } else { magnitude }
    };
    match ty {
        GgmlType::I32 | GgmlType::I64 => {
            let [a, b] = [a, b].map(|bytes| stored::integers(ty, bytes).unwrap_or_default());
            a.iter().zip(b).map(|(a, b)| a.abs_diff(b)).max().unwrap_or(0).max(1)
        }
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => ordered(a).abs_diff(ordered(b)).max(1),
        _ => a.iter().zip(b).map(|(&a, &b)| u64::from(a.abs_diff(b))).max().unwrap_or(0).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::judge::{About, skipped};
    use crate::tensor::TensorId;

    fn judged(ty: GgmlType, held: &[u8], values: &[f64]) -> NodeResult {
        let id = TensorId { step: 0, name: "x".into(), occurrence: 0 };
        let about = About { id, op: "ADD".into(), types: String::new(), ty };
        judge(skipped(about, String::new()), ty, held, values, CpuKernel::X86)
    }

    #[test]
    fn blocks_of_zeros_are_equal_whatever_their_codes() {
        let block = |scale: u8, code: u8| [vec![0, scale], vec![code; 16]].concat();
        let differing = |held: &[u8]| judged(GgmlType::Q4_0, held, &[0.0; 32]).bits.unwrap().differing;
        assert_eq!([block(0, 0), block(0, 0x88), block(0x3c, 0x88)].map(|held| differing(&held)), [0, 0, 0]);
        assert_eq!(differing(&block(0x3c, 0)), 1);
    }

    fn single(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn every_bit_counts() {
        let held = single(&[1.0, -2.0, 0.0]);
        let equal = judged(GgmlType::F32, &held, &[1.0, -2.0, 0.0]);
        assert_eq!(equal.outcome, Outcome::Within);
        assert_eq!(equal.bits, Some(Bits { elements: 3, differing: 0, ulps: 0 }));
        let beside = judged(GgmlType::F32, &held, &[1.0, f64::from((-2f32).next_up().next_up()), 0.0]);
        assert_eq!((beside.outcome, beside.worst_index), (Outcome::Over, 1));
        assert_eq!(beside.bits, Some(Bits { elements: 3, differing: 1, ulps: 2 }));
        // The two zeros are equal numbers, one unit apart.
        let zero = judged(GgmlType::F32, &held, &[1.0, -2.0, -0.0]);
        assert_eq!(zero.bits, Some(Bits { elements: 3, differing: 1, ulps: 1 }));
        let none = judged(GgmlType::F32, &held, &[f64::NAN, -2.0, 0.0]);
        assert_eq!(none.outcome, Outcome::Over);
    }

    #[test]
    fn equal_infinities_are_a_mask_and_nan_is_not_finite() {
        let mask = judged(GgmlType::F32, &single(&[f32::NEG_INFINITY, 1.0]), &[f64::NEG_INFINITY, 1.0]);
        assert_eq!(mask.outcome, Outcome::Within);
        let nan = judged(GgmlType::F32, &single(&[f32::NAN, 1.0]), &[f64::NAN, 1.0]);
        assert_eq!((nan.outcome, nan.share), (Outcome::NonFinite, f64::INFINITY));
    }

    #[test]
    fn a_result_of_another_size_or_type_is_not_equal() {
        assert!(matches!(judged(GgmlType::F32, &[0; 4], &[0.0, 0.0]).outcome, Outcome::Skipped(_)));
        assert!(matches!(judged(GgmlType::Q5_0, &[0; 22], &[0.0; 32]).outcome, Outcome::Skipped(_)));
        let half = half::f16::from_f32(2050.0).to_le_bytes();
        assert_eq!(judged(GgmlType::F16, &half, &[2049.0]).bits.unwrap().ulps, 1);
        assert_eq!(judged(GgmlType::F16, &half, &[2050.0]).outcome, Outcome::Within);
    }
}
