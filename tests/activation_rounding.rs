//! The roundings of activations against llama.cpp's own functions: `scripts/rounding-goldens.py` calls them on the values that
//! are rounded here. A product computed with the wrong one is far over its budget.

use std::fs;
use std::path::PathBuf;

use lockstep::compare::budget;
use lockstep::ops::Rows;
use lockstep::ops::exact::{
    ActivationRounding, CpuKernel, Data, Invocation, Operand, Rounding, oracle, round_activation,
};
use lockstep::quant;
use lockstep::tensor::GgmlType;

const X86: CpuKernel = CpuKernel::X86;
const PORTABLE: CpuKernel = CpuKernel::Portable;

/// Files, what they hold, and the rounding that must give it.
const GOLDENS: [(&str, GgmlType, ActivationRounding); 6] = [
    ("q8_0.x86", GgmlType::Q8_0, ActivationRounding::Q8_0(X86)),
    ("q8_0.portable", GgmlType::Q8_0, ActivationRounding::Q8_0(PORTABLE)),
    ("q8_1.x86", GgmlType::Q8_1, ActivationRounding::Q8_1(X86)),
    ("q8_1.portable", GgmlType::Q8_1, ActivationRounding::Q8_1(PORTABLE)),
    ("q8_k.x86", GgmlType::Q8_K, ActivationRounding::Q8K),
    ("q8_k.portable", GgmlType::Q8_K, ActivationRounding::Q8K),
];

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/rounding");
    fs::read(folder.join(format!("{name}.bin"))).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn values() -> Vec<f32> {
    golden("values").as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// How many values, or sums, are other than those in `blocks`.
fn differing(ty: GgmlType, blocks: &[u8], rounding: ActivationRounding) -> usize {
    let values = values();
    let mut expected = vec![0.0; values.len()];
    quant::decode(ty, blocks, &mut expected).unwrap();
    let rounded = round_activation(rounding, &values);
    assert_eq!(rounded.values.len(), expected.len());
    let of_values = rounded.values.iter().zip(&expected).filter(|(ours, theirs)| ours != theirs).count();
    let Some(sums) = rounded.sums else { return of_values };
    // Q8_1: d, the sum, the codes
    let stored = blocks.chunks(36).map(|block| half::f16::from_le_bytes([block[2], block[3]]).to_f64());
    assert_eq!((sums.width, sums.values.len()), (32, blocks.len() / 36));
    of_values + stored.zip(&sums.values).filter(|(theirs, ours)| theirs != *ours).count()
}

#[test]
fn each_rounding_is_that_of_llama_cpp() {
    for (name, ty, rounding) in GOLDENS {
        assert_eq!(differing(ty, &golden(name), rounding), 0, "{name}");
    }
}

#[test]
fn the_other_kernel_is_told_apart() {
    for (name, ty, rounding) in GOLDENS {
        let other = match rounding {
            ActivationRounding::Q8_0(X86) => ActivationRounding::Q8_0(PORTABLE),
            ActivationRounding::Q8_0(_) => ActivationRounding::Q8_0(X86),
            ActivationRounding::Q8_1(X86) => ActivationRounding::Q8_1(PORTABLE),
            ActivationRounding::Q8_1(_) => ActivationRounding::Q8_1(X86),
            _ => ActivationRounding::Q8KFused,
        };
        assert!(differing(ty, &golden(name), other) > 0, "{name}");
        if other != ActivationRounding::Q8KFused {
            let neon = match rounding {
                ActivationRounding::Q8_0(_) => ActivationRounding::Q8_0(CpuKernel::Neon),
                _ => ActivationRounding::Q8_1(CpuKernel::Neon),
            };
            assert!(differing(ty, &golden(name), neon) > 0, "{name}");
        }
    }
}

#[test]
fn a_flipped_bit_is_found() {
    let mut blocks = golden("q8_0.x86");
    blocks[2] ^= 1;
    assert_eq!(differing(GgmlType::Q8_0, &blocks, ActivationRounding::Q8_0(X86)), 1);
    let mut blocks = golden("q8_1.x86");
    blocks[2] ^= 1;
    assert_eq!(differing(GgmlType::Q8_1, &blocks, ActivationRounding::Q8_1(X86)), 1);
}

/// The product of a row of 32 ones of type Q8_0 with an activation that is rounded one way: its value, and its budget.
fn product(activation: &[f32; 32], rounding: Rounding) -> (f64, f64) {
    let row = quant::encode(GgmlType::Q8_0, &[1.0; 32]).unwrap();
    let ne = [32, 1, 1, 1];
    let weights = Operand { ne, data: Data::Weight(Rows::new(GgmlType::Q8_0, &row, 32, 1).unwrap()) };
    let sources = [Some(weights), Some(Operand { ne, data: Data::Float(activation.to_vec()) })];
    let node = Invocation { op: "MUL_MAT", variant: None, params: &[], ne: [1; 4], sources: &sources };
    let exact = oracle(&node).unwrap().exact_with(&node, rounding).unwrap();
    (exact.values[0], budget(exact.terms[0], exact.additions))
}

#[test]
fn a_product_by_the_wrong_kernel_is_over_its_budget() {
    let q8_0 = |kernel| Rounding::Activation(ActivationRounding::Q8_0(kernel));
    let of_127 = |x: f32| std::array::from_fn(|i| if i == 0 { 127.0 } else { x });
    // half steps of 127 tell ties apart, and half steps of 11 reciprocals
    let of_11 = std::array::from_fn(|i| if i == 0 { 11.0 } else { 0.04330709 });
    for (activation, one, other) in [
        (of_127(0.5), q8_0(X86), q8_0(PORTABLE)),
        (of_127(0.5), q8_0(PORTABLE), q8_0(CpuKernel::Neon)),
        (of_11, q8_0(X86), q8_0(CpuKernel::Neon)),
        (of_127(0.4), q8_0(X86), Rounding::None),
    ] {
        let ((value, budget), (wrong, _)) = (product(&activation, one), product(&activation, other));
        assert!((value - wrong).abs() > 100.0 * budget, "{one} {value}, {other} {wrong}, budget {budget}");
    }
}
