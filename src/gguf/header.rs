//! Reads what stands before the tensor data: counts, metadata, the raw tensor table.
#![deny(clippy::indexing_slicing)]

use super::cursor::Cursor;
use super::metadata::MAX_KEY;
use super::{GgufError, Metadata, Value};

pub(super) const MAGIC: [u8; 4] = *b"GGUF";
/// `GGUF_KEY_GENERAL_ALIGNMENT`.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";
/// `GGUF_DEFAULT_ALIGNMENT`, in bytes.
pub(super) const DEFAULT_ALIGNMENT: u32 = 32;
/// The specification asks for a multiple of 8, so that every element type lies aligned in memory.
const MIN_ALIGNMENT: u32 = 8;
/// A huge page; nothing gains from more, and padding stays bounded.
const MAX_ALIGNMENT: u32 = 2 << 20;
/// Models have tens to hundreds of keys.
const MAX_KEYS: u64 = 1 << 16;
/// Models have hundreds to tens of thousands of tensors.
const MAX_TENSORS: u64 = 1 << 20;
/// llama.cpp's names end in a zero byte within `GGML_MAX_NAME` = 64.
pub(super) const MAX_TENSOR_NAME: u64 = 63;
/// A key of one byte (8 + 1), its type (4), a value of one byte.
const MIN_KEY_BYTES: u64 = 14;
/// A name of one byte (8 + 1), `n_dims` (4), one extent (8), a type (4), an offset (8).
const MIN_TENSOR_BYTES: u64 = 33;

/// What stands before the tensor data of one file, not yet validated as a table.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) metadata: Metadata,
    pub(super) alignment: u64,
    pub(super) tensors: Vec<RawTensor>,
    /// Where tensor data starts, in bytes from the start of the file.
    pub(super) data_start: u64,
}

/// One line of the tensor table as the file has it.
#[derive(Debug)]
pub(super) struct RawTensor {
    pub(super) name: String,
    pub(super) n_dims: u32,
    pub(super) ne: [u64; 4],
    pub(super) type_id: u32,
    /// From the start of the data.
    pub(super) offset: u64,
}

impl Header {
    /// Reads the header of a file.
    pub(super) fn read(bytes: &[u8]) -> Result<Header, GgufError> {
        let mut cursor = Cursor::new(bytes);
        let version = read_version(&mut cursor)?;
        let n_tensors = cursor.u64("tensor count")?;
        let n_keys = cursor.u64("key count")?;
        let n_keys = cursor.check_count("metadata keys", n_keys, MAX_KEYS, MIN_KEY_BYTES)?;
        cursor.check_count("tensors", n_tensors, MAX_TENSORS, MIN_TENSOR_BYTES)?;

        let mut metadata = Metadata::new();
        for _ in 0..n_keys {
            let key = cursor.string("metadata key", MAX_KEY)?;
            let value = Value::read(&mut cursor, &key)?;
            metadata.insert(key, value)?;
        }
        let alignment = alignment(&metadata)?;

        let n_tensors = cursor.check_count("tensors", n_tensors, MAX_TENSORS, MIN_TENSOR_BYTES)?;
        let tensors = (0..n_tensors).map(|_| RawTensor::read(&mut cursor)).collect::<Result<Vec<_>, _>>()?;
        // A file is never so long that this overflows: its bytes are in memory.
        let data_start = cursor.offset().next_multiple_of(alignment);
        Ok(Header { version, metadata, alignment, tensors, data_start })
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let magic = cursor.array("magic")?;
    if magic == *b"FUGG" {
        return Err(GgufError::BigEndian);
    }
    if magic != MAGIC {
        return Err(GgufError::Magic { got: magic });
    }
    match cursor.u32("version")? {
        1 => Err(GgufError::Version1),
        version @ (2 | 3) => Ok(version),
        // Versions are small, so a number with empty low bytes was stored the other way round.
        got if got != 0 && got.trailing_zeros() >= 16 => Err(GgufError::BigEndian),
        got => Err(GgufError::Version { got }),
    }
}

/// The alignment of tensor data in bytes: `general.alignment` or 32.
pub(super) fn alignment(metadata: &Metadata) -> Result<u64, GgufError> {
    match metadata.get(ALIGNMENT_KEY) {
        None => Ok(DEFAULT_ALIGNMENT.into()),
        Some(&Value::U32(got)) => {
            if !got.is_power_of_two() || !(MIN_ALIGNMENT..=MAX_ALIGNMENT).contains(&got) {
                return Err(GgufError::Alignment { got });
            }
            Ok(got.into())
        }
        // llama.cpp refuses every type but this one.
        Some(other) => Err(GgufError::KeyType {
            key: ALIGNMENT_KEY.to_owned(),
            expected: "u32",
            got: other.type_name().to_owned(),
        }),
    }
}

impl RawTensor {
    fn read(cursor: &mut Cursor<'_>) -> Result<RawTensor, GgufError> {
        let name = cursor.string("tensor name", MAX_TENSOR_NAME)?;
        if name.is_empty() {
            return Err(GgufError::EmptyTensorName);
        }
        let n_dims = cursor.u32("dimension count")?;
        if !(1..=4).contains(&n_dims) {
            return Err(GgufError::DimensionCount { name, got: n_dims });
        }
        let mut ne = [1u64; 4];
        for extent in ne.iter_mut().take(n_dims as usize) {
            *extent = cursor.u64("tensor extent")?;
        }
        let type_id = cursor.u32("tensor type")?;
        let offset = cursor.u64("tensor offset")?;
        Ok(RawTensor { name, n_dims, ne, type_id, offset })
    }
}
