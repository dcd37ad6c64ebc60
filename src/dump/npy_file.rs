//! A `.npy` file by itself, without a dump around it.

#![deny(clippy::indexing_slicing)]

use std::fs;
use std::path::Path;

use half::f16;

use super::error::{Defect, DumpError};
use super::npy;
use super::read::refused;

/// The extents of a `.npy` file, outermost first, and its values: of f32, or of f16 or f64, which are rounded to f32.
///
/// # Errors
/// If the file cannot be read, is no `.npy` of version 1.0 in C order, is of another type, or has another length than its header
/// says.
pub fn read_npy(path: &Path) -> Result<(Vec<usize>, Vec<f32>), DumpError> {
    let bytes = fs::read(path).map_err(|source| DumpError::Io { path: path.to_owned(), source })?;
    parse(&path.display().to_string(), &bytes).map_err(|defect| refused(path, defect))
}

fn parse(entry: &str, bytes: &[u8]) -> Result<(Vec<usize>, Vec<f32>), Defect> {
    let mut reader = npy::Reader::default();
    let header = reader.read(entry, 0, bytes)?;
    let bad = |detail: String| Defect::NpyHeader { entry: entry.to_owned(), offset: 0, detail };
    let payload = bytes.get(header.bytes..).unwrap_or_default();
    if payload.len() as u64 != header.payload_bytes {
        let (got, expected) = (payload.len(), header.payload_bytes);
        return Err(bad(format!("its header asks for {expected} bytes of values, it has {got}")));
    }
    let values = match header.descr.as_str() {
        "<f4" => payload.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
        "<f2" => payload.as_chunks().0.iter().map(|&b| f16::from_le_bytes(b).to_f32()).collect(),
        "<f8" => payload.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b) as f32).collect(),
        other => return Err(bad(format!("its type is {other}, expected <f4, <f2 or <f8"))),
    };
    let shape = header.shape.iter().map(|&extent| usize::try_from(extent));
    let shape = shape.collect::<Result<_, _>>().map_err(|_| bad("an extent is too large".to_owned()))?;
    Ok((shape, values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::GgmlType;

    fn npy(ty: GgmlType, ne: [u64; 4], payload: &[u8]) -> Vec<u8> {
        [&npy::header(ty, ne).unwrap()[..], payload].concat()
    }

    #[test]
    fn values_of_three_types() {
        let f32s: Vec<u8> = [1.0f32, 2.5].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(
            parse("a", &npy(GgmlType::F32, [1, 2, 1, 1], &f32s)).unwrap(),
            (vec![2, 1], vec![1.0, 2.5])
        );
        let f64s: Vec<u8> = [1.0f64, 2.5].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(parse("a", &npy(GgmlType::F64, [2, 1, 1, 1], &f64s)).unwrap(), (vec![2], vec![1.0, 2.5]));
        let f16s: Vec<u8> = [f16::ONE, f16::from_f32(2.5)].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(parse("a", &npy(GgmlType::F16, [2, 1, 1, 1], &f16s)).unwrap(), (vec![2], vec![1.0, 2.5]));
    }

    #[test]
    fn other_types_and_lengths_are_refused() {
        for bytes in [
            npy(GgmlType::I32, [2, 1, 1, 1], &[0; 8]),
            npy(GgmlType::F32, [2, 1, 1, 1], &[0; 7]),
            npy(GgmlType::F32, [2, 1, 1, 1], &[0; 9]),
            b"PK".to_vec(),
            Vec::new(),
        ] {
            assert!(matches!(parse("a", &bytes), Err(Defect::NpyHeader { .. })));
        }
    }
}
