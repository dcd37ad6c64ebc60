//! Validates the whole tensor table of a file before any tensor is handed out.
#![deny(clippy::indexing_slicing)]

use super::GgufError;
use super::header::{Header, RawTensor};
use crate::tensor::GgmlType;

/// A tensor's place in a file, validated: its rows are whole blocks, and its bytes lie inside the file
/// and in no other tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorInfo {
    /// llama.cpp's name: `blk.0.attn_norm.weight`.
    pub name: String,
    /// Elements along each dimension, dimension 0 fastest; 1 from `n_dims` on.
    pub ne: [u64; 4],
    /// How many dimensions the file stores, 1 to 4.
    pub n_dims: u32,
    /// Type of the elements.
    pub ty: GgmlType,
    /// Which of [`paths`](super::Gguf::paths) holds the data, from 0.
    pub part: usize,
    /// Where the data starts, in bytes from the start of that file.
    pub offset: u64,
    /// Length of the data in bytes, padding excluded.
    pub bytes: u64,
}

impl TensorInfo {
    /// The stored dimensions: the first `n_dims` of `ne`.
    pub fn dims(&self) -> &[u64] {
        self.ne.get(..self.n_dims as usize).unwrap_or(&self.ne)
    }
}

/// The size in bytes of a tensor, from its extents and type.
pub(super) fn tensor_bytes(name: &str, ne: [u64; 4], ty: GgmlType) -> Result<u64, GgufError> {
    let name = || name.to_owned();
    if let Some(dimension) = (0u32..).zip(ne).find_map(|(d, n)| (n == 0).then_some(d)) {
        return Err(GgufError::ZeroDimension { name: name(), dimension });
    }
    let [row, rows @ ..] = ne;
    let block = ty.block_elements() as u64;
    if !row.is_multiple_of(block) {
        return Err(GgufError::PartialBlock { name: name(), ty, expected: block, got: row });
    }
    let bytes = ty.row_bytes(row);
    rows.iter()
        .try_fold(bytes, |bytes, &n| Some(bytes?.checked_mul(n)))
        .flatten()
        .ok_or_else(|| GgufError::SizeOverflow { name: name(), ne })
}

/// Validates the table of one file. `id42` is what type id 42 means in this model.
pub(super) fn validate(
    header: &Header,
    file_bytes: u64,
    part: usize,
    id42: GgmlType,
) -> Result<Vec<TensorInfo>, GgufError> {
    let tensors = header
        .tensors
        .iter()
        .map(|raw| place(raw, header, file_bytes, part, id42))
        .collect::<Result<Vec<_>, _>>()?;

    let mut by_offset: Vec<&TensorInfo> = tensors.iter().collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    for (first, second) in by_offset.iter().zip(by_offset.iter().skip(1)) {
        let end = first.offset + first.bytes; // inside the file, so it cannot overflow
        if end > second.offset {
            return Err(GgufError::Overlap {
                first: first.name.clone(),
                end,
                second: second.name.clone(),
                start: second.offset,
            });
        }
    }
    Ok(tensors)
}

fn place(
    raw: &RawTensor,
    header: &Header,
    file_bytes: u64,
    part: usize,
    id42: GgmlType,
) -> Result<TensorInfo, GgufError> {
    let RawTensor { ref name, n_dims, ne, type_id, offset } = *raw;
    let ty = match GgmlType::from_id(type_id) {
        Some(GgmlType::Q2_0) => id42,
        Some(ty) => ty,
        None => return Err(GgufError::UnknownType { name: name.clone(), got: type_id }),
    };
    let bytes = tensor_bytes(name, ne, ty)?;
    if !offset.is_multiple_of(header.alignment) {
        let alignment = header.alignment;
        return Err(GgufError::Misaligned { name: name.clone(), offset, alignment });
    }
    let start = header.data_start.checked_add(offset);
    let Some((start, end)) = start.and_then(|start| Some((start, start.checked_add(bytes)?))) else {
        return Err(GgufError::OffsetOverflow { name: name.clone(), offset });
    };
    if end > file_bytes {
        return Err(GgufError::BeyondFile { name: name.clone(), end, file_bytes });
    }
    Ok(TensorInfo { name: name.clone(), ne, n_dims, ty, part, offset: start, bytes })
}
