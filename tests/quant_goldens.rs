//! Every block format against others' implementations: `scripts/quant-goldens.py` writes what the `gguf` package and
//! llama.cpp read from random blocks, and which blocks they write; ours must agree bit for bit.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use lockstep::quant::{self, FORMATS};
use lockstep::tensor::GgmlType;

/// Elements of a unit.
const UNIT: usize = 256;

/// Types whose decoding has no golden, and why.
const NOT_DECODED: &[(GgmlType, &str)] = &[
    (GgmlType::Q8_1, "neither gguf nor llama.cpp ever reads it back"),
    (GgmlType::F64, "neither gguf nor llama.cpp reads weights of it"),
    (GgmlType::PQ2_0, "a type of the PrismML fork"),
    (GgmlType::PTQ1_0, "a type of the PrismML fork"),
];

/// Types that we encode and whose encoding has no golden, and why.
const NOT_ENCODED: &[(GgmlType, &str)] = &[
    (GgmlType::F32, "the identity"),
    (GgmlType::Q4_K, "encoded by a rule of our own"),
    (GgmlType::Q6_K, "encoded by a rule of our own"),
    (GgmlType::PQ2_0, "a type of the PrismML fork"),
    (GgmlType::PTQ1_0, "a type of the PrismML fork"),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/quant")
}

fn decoding(ty: GgmlType) -> String {
    format!("{}.bin", ty.name().to_lowercase())
}

fn encoding(ty: GgmlType) -> String {
    format!("{}.encode.bin", ty.name().to_lowercase())
}

fn golden(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Takes `count` items of `N` bytes off the front.
fn take<const N: usize>(rest: &mut &[u8], count: usize) -> Result<Vec<[u8; N]>, String> {
    let (items, after) = rest.split_at_checked(count * N).ok_or("the golden is too short")?;
    *rest = after;
    Ok(items.as_chunks().0.to_vec())
}

fn take_counts<const N: usize>(rest: &mut &[u8]) -> Result<[usize; N], String> {
    let counts: Vec<usize> = take(rest, N)?.into_iter().map(|n| u32::from_le_bytes(n) as usize).collect();
    counts.try_into().map_err(|_| "no counts".to_owned())
}

fn bits(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Decodes the blocks of a golden; says which unit differs, and counts the units that agree.
fn check_decoding(ty: GgmlType, mut rest: &[u8]) -> Result<usize, String> {
    let unit_bytes = UNIT / ty.block_elements() * ty.block_bytes();
    let [whole, sums] = take_counts(&mut rest)?;
    let units = take::<1>(&mut rest, (whole + sums) * unit_bytes)?.concat();
    let expected = take::<4>(&mut rest, whole * UNIT)?;
    let sums = take::<4>(&mut rest, sums)?;
    if !rest.is_empty() {
        return Err(format!("{} bytes too many", rest.len()));
    }
    let mut compared = 0;
    for (i, blocks) in units.chunks(unit_bytes).enumerate() {
        let mut values = [0.0; UNIT];
        quant::decode(ty, blocks, &mut values).map_err(|error| error.to_string())?;
        if i < whole {
            for (e, (value, bytes)) in values.iter().zip(&expected[i * UNIT..]).enumerate() {
                let expected = f32::from_le_bytes(*bytes);
                if value.to_bits() != expected.to_bits() {
                    return Err(format!("unit {i} element {e}: expected {expected:e}, got {value:e}"));
                }
            }
        } else if crc32fast::hash(&bits(&values)) != u32::from_le_bytes(sums[i - whole]) {
            return Err(format!("unit {i}: sums differ; values begin {:?}", &values[..8]));
        }
        compared += 1;
    }
    Ok(compared)
}

/// Encodes the values of a golden; says which block differs, and counts the blocks that agree.
fn check_encoding(ty: GgmlType, mut rest: &[u8]) -> Result<usize, String> {
    let [units] = take_counts(&mut rest)?;
    let values: Vec<f32> = take(&mut rest, units * UNIT)?.into_iter().map(f32::from_le_bytes).collect();
    let blocks = quant::encode(ty, &values).map_err(|error| error.to_string())?;
    if blocks.len() != rest.len() {
        return Err(format!("expected {} bytes, got {}", rest.len(), blocks.len()));
    }
    let pairs = rest.chunks(ty.block_bytes()).zip(blocks.chunks(ty.block_bytes()));
    for (i, (expected, block)) in pairs.enumerate() {
        if expected != block {
            return Err(format!("block {i}: expected {expected:?}, got {block:?}"));
        }
    }
    Ok(blocks.len() / ty.block_bytes())
}

fn excepted(list: &[(GgmlType, &str)], ty: GgmlType) -> bool {
    list.iter().any(|(excepted, _)| *excepted == ty)
}

#[test]
fn every_type_decodes_as_theirs() {
    let mut types = 0;
    for ty in FORMATS.iter().map(|format| format.ty()).filter(|ty| !excepted(NOT_DECODED, *ty)) {
        let units =
            check_decoding(ty, &golden(&decoding(ty))).unwrap_or_else(|error| panic!("{ty}: {error}"));
        assert!(units >= 8, "{ty}: {units} units");
        types += 1;
    }
    assert_eq!(types + NOT_DECODED.len(), FORMATS.len());
}

#[test]
fn every_encoder_agrees_with_theirs() {
    let encodable: Vec<_> = FORMATS.iter().filter(|f| f.encoder().is_some()).map(|f| f.ty()).collect();
    let mut types = 0;
    for &ty in encodable.iter().filter(|ty| !excepted(NOT_ENCODED, **ty)) {
        let blocks =
            check_encoding(ty, &golden(&encoding(ty))).unwrap_or_else(|error| panic!("{ty}: {error}"));
        assert!(blocks >= 4, "{ty}: {blocks} blocks");
        types += 1;
    }
    assert_eq!(types + NOT_ENCODED.len(), encodable.len());
}

#[test]
fn every_golden_is_compared() {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let types = FORMATS.iter().map(|format| format.ty());
    let decoded = types.clone().filter(|ty| !excepted(NOT_DECODED, *ty)).map(decoding);
    let encodable = FORMATS.iter().filter(|format| format.encoder().is_some()).map(|format| format.ty());
    let encoded = encodable.filter(|ty| !excepted(NOT_ENCODED, *ty)).map(encoding);
    assert_eq!(files.collect::<BTreeSet<_>>(), decoded.chain(encoded).collect::<BTreeSet<_>>());
}

#[test]
fn one_flipped_bit_is_found() {
    let ty = GgmlType::Q6_K;
    let intact = golden(&decoding(ty));
    let flipped = |byte: usize| {
        let mut bytes = intact.clone();
        bytes[byte] ^= 1;
        check_decoding(ty, &bytes).unwrap_err()
    };
    let [whole, sums] = take_counts(&mut &intact[..]).unwrap();
    let blocks = 8 + (whole + sums) * ty.block_bytes();
    assert!(flipped(blocks).starts_with("unit 0 element 0: expected"));
    assert!(flipped(blocks + 4 * UNIT * whole - 1).starts_with("unit 1 element 255: expected"));
    assert_eq!(
        flipped(intact.len() - 1).split(';').next(),
        Some(&*format!("unit {}: sums differ", whole + sums - 1))
    );
    assert!(flipped(8).starts_with("unit 0 element"));
    assert!(flipped(0).contains("too short") || flipped(0).contains("too many"));
    assert!(check_decoding(ty, &intact[..intact.len() - 1]).is_err());
    assert!(check_decoding(ty, &[&intact[..], &[0]].concat()).is_err());

    let mut encoded = golden(&encoding(GgmlType::Q4_0));
    *encoded.last_mut().unwrap() ^= 1;
    assert!(check_encoding(GgmlType::Q4_0, &encoded).unwrap_err().starts_with("block 31: expected"));
}
