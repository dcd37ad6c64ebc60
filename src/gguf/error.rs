//! Why a GGUF file could not be read or written: one variant per cause.

use crate::tensor::GgmlType;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a GGUF file could not be read or written.
///
/// What is wrong inside a file comes wrapped in [`GgufError::InFile`] when it was read from a path;
/// [`GgufError::cause`] takes the wrapping off.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum GgufError {
    /// A cause, and the file that it was found in.
    #[error("{}: {cause}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        cause: Box<GgufError>,
    },
    /// The operating system refused.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What was tried: open, map, create, write, rename.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The first four bytes are not `GGUF`.
    #[error(
        "starts with \"{}\", expected \"GGUF\": not a GGUF file (a Git LFS pointer or an error page saved under its name?)",
        got.escape_ascii()
    )]
    Magic {
        /// The first four bytes.
        got: [u8; 4],
    },
    /// The file was written for a big-endian machine.
    #[error("big-endian GGUF, expected little-endian: convert it with gguf_convert_endian.py")]
    BigEndian,
    /// GGUF version 1, whose counts are 32 bits wide.
    #[error("GGUF version 1, expected 2 or 3: convert the model again, llama.cpp dropped version 1 too")]
    Version1,
    /// A version that this reader does not know.
    #[error("GGUF version {got}, expected 2 or 3")]
    Version {
        /// The version in the header.
        got: u32,
    },

    /// The file ends inside something.
    #[error(
        "{what} at byte {offset} needs {needed} bytes, the file has {remaining} more: truncated, fetch it again"
    )]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it starts, in bytes from the start of the file.
        offset: u64,
        /// Bytes it needs.
        needed: u64,
        /// Bytes left from `offset` on.
        remaining: u64,
    },
    /// A count above the reader's fixed cap.
    #[error("{what}: count {got}, expected at most {limit}: the file is damaged")]
    CountAboveLimit {
        /// What is counted.
        what: &'static str,
        /// The count in the file.
        got: u64,
        /// The cap.
        limit: u64,
    },
    /// A count of things that cannot fit in the rest of the file, even at their smallest.
    #[error(
        "{what}: count {got} needs at least {needed} bytes, the file has {remaining} more: truncated or damaged"
    )]
    CountBeyondFile {
        /// What is counted.
        what: &'static str,
        /// The count in the file.
        got: u64,
        /// The fewest bytes that so many need (saturated at 2^64 - 1).
        needed: u64,
        /// Bytes left in the file.
        remaining: u64,
    },
    /// A string above the cap for its kind.
    #[error("{what} at byte {offset}: {got} bytes, expected at most {limit}: the file is damaged")]
    StringTooLong {
        /// What the string is: a key, a value, a tensor name.
        what: &'static str,
        /// Where the string starts.
        offset: u64,
        /// Its length in bytes.
        got: u64,
        /// The cap in bytes.
        limit: u64,
    },
    /// A string that is not UTF-8.
    #[error("{what} at byte {offset}: not UTF-8 from its byte {valid} on: the file is damaged")]
    NotUtf8 {
        /// What the string is.
        what: &'static str,
        /// Where the string starts.
        offset: u64,
        /// How many of its bytes are valid.
        valid: u64,
    },

    /// A key of no characters.
    #[error("metadata key of length 0: name it")]
    EmptyKey,
    /// A key that occurs twice.
    #[error("metadata key `{key}` occurs twice: remove one of them")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A value type that GGUF does not define.
    #[error("metadata key `{key}`: value type {got}, expected 0 to 12: damaged, or newer than this reader")]
    UnknownValueType {
        /// The key.
        key: String,
        /// The type id in the file.
        got: u32,
    },
    /// An array whose elements are arrays.
    #[error("metadata key `{key}`: an array of arrays, which llama.cpp does not read either: flatten it")]
    NestedArray {
        /// The key.
        key: String,
    },
    /// A bool stored as something else than 0 or 1.
    #[error("bool at byte {offset}: {got}, expected 0 or 1: the file is damaged")]
    BoolByte {
        /// Where it lies.
        offset: u64,
        /// The byte.
        got: u8,
    },
    /// A key that has to be there and is not.
    #[error("metadata key `{key}` is missing, expected {expected}: is this the right model?")]
    MissingKey {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
    },
    /// A key whose value has a type that cannot answer the question.
    #[error("metadata key `{key}`: a value of type {got}, expected {expected}")]
    KeyType {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// The type in the file.
        got: String,
    },
    /// A key whose number does not fit in the type that was asked for.
    #[error("metadata key `{key}`: {got} does not fit, expected {expected}")]
    KeyRange {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// The number in the file.
        got: String,
    },
    /// `general.alignment` is not a power of two from 8 to 2 MiB.
    #[error("general.alignment: {got}, expected a power of two from 8 to 2097152")]
    Alignment {
        /// The alignment in bytes.
        got: u32,
    },

    /// A tensor name of no characters.
    #[error("tensor name of length 0: name it")]
    EmptyTensorName,
    /// A tensor name that occurs twice, in one part or in two.
    #[error("tensor `{name}` occurs twice: remove one of them")]
    DuplicateTensor {
        /// The tensor.
        name: String,
    },
    /// A tensor with fewer than 1 or more than 4 dimensions.
    #[error("tensor `{name}`: {got} dimensions, expected 1 to 4")]
    DimensionCount {
        /// The tensor.
        name: String,
        /// How many dimensions it has.
        got: u32,
    },
    /// A dimension of extent 0.
    #[error("tensor `{name}`: dimension {dimension} has extent 0, expected at least 1")]
    ZeroDimension {
        /// The tensor.
        name: String,
        /// Which dimension, from 0.
        dimension: u32,
    },
    /// A type id that llama.cpp b11434 and the PrismML fork do not define.
    #[error("tensor `{name}`: type id {got} is unknown: convert it to a type that llama.cpp b11434 has")]
    UnknownType {
        /// The tensor.
        name: String,
        /// The type id in the file.
        got: u32,
    },
    /// A row that does not consist of whole blocks.
    #[error("tensor `{name}`: rows of {got} elements, expected a multiple of {expected}, the block of {ty}")]
    PartialBlock {
        /// The tensor.
        name: String,
        /// Its type.
        ty: GgmlType,
        /// Elements in a block of that type.
        expected: u64,
        /// Elements in a row.
        got: u64,
    },
    /// A size in bytes beyond 64 bits.
    #[error("tensor `{name}`: the size of ne = {ne:?} does not fit in 64 bits: the file is damaged")]
    SizeOverflow {
        /// The tensor.
        name: String,
        /// Its extents.
        ne: [u64; 4],
    },
    /// An offset beyond 64 bits once the start of the data is added.
    #[error("tensor `{name}`: offset {offset} plus its size does not fit in 64 bits: the file is damaged")]
    OffsetOverflow {
        /// The tensor.
        name: String,
        /// Its offset from the start of the data.
        offset: u64,
    },
    /// An offset that is not a multiple of the alignment.
    #[error("tensor `{name}`: offset {offset}, expected a multiple of the alignment {alignment}")]
    Misaligned {
        /// The tensor.
        name: String,
        /// Its offset from the start of the data.
        offset: u64,
        /// The alignment of the file.
        alignment: u64,
    },
    /// A tensor that ends beyond the file.
    #[error("tensor `{name}`: ends at byte {end}, the file at {file_bytes}: truncated, fetch it again")]
    BeyondFile {
        /// The tensor.
        name: String,
        /// Where it ends, from the start of the file.
        end: u64,
        /// Length of the file.
        file_bytes: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensor `{second}` starts at byte {start}, before `{first}` ends at {end}: the file is damaged")]
    Overlap {
        /// The tensor that starts first.
        first: String,
        /// Where it ends.
        end: u64,
        /// The tensor that starts inside it.
        second: String,
        /// Where that one starts.
        start: u64,
    },
    /// A tensor of type id 42 whose room in the file suits neither of the layouts that used this id.
    #[error(
        "tensor `{name}`: type id 42 with room for {got} bytes, expected {upstream} (q2_0, 64 per block) \
         or {prism} (PrismML, 128 per block), the same for all tensors of the file: convert the model again"
    )]
    Id42 {
        /// The tensor.
        name: String,
        /// Bytes from its start to the next tensor or the end of the file.
        got: u64,
        /// Bytes it has as upstream's `q2_0`, padding excluded.
        upstream: u64,
        /// Bytes it has in the older PrismML layout, padding excluded; 0 if its rows are not whole blocks.
        prism: u64,
    },

    /// A part of a split model whose file name does not say which part it is.
    #[error("{}: a part of a split model, expected a name that ends in `{expected}`: rename it back", path.display())]
    SplitFileName {
        /// The file.
        path: PathBuf,
        /// The end of the name that its metadata asks for.
        expected: String,
    },
    /// A part of a split model that is not there.
    #[error("{} is missing, part {part} of {count}: put all parts in one folder", path.display())]
    SplitPartMissing {
        /// Where it should be.
        path: PathBuf,
        /// Which part, from 1 as in file names.
        part: u64,
        /// How many parts there are.
        count: u64,
    },
    /// More parts than file names can number.
    #[error("split.count: {got}, expected at most {limit}: the file is damaged")]
    SplitTooMany {
        /// The count in the file.
        got: u64,
        /// The cap.
        limit: u64,
    },
    /// A part that says it is another one (counted from 0, as `split.no` is).
    #[error(
        "split.no: {got}, expected {expected} (counted from 0): the parts were renamed, fetch them again"
    )]
    SplitNumber {
        /// The number that the place among the parts asks for.
        expected: u64,
        /// The number in the file.
        got: u64,
    },
    /// Parts that disagree about how many they are.
    #[error("split.count: {got}, expected {expected} as in the part that was opened: parts of two models?")]
    SplitCount {
        /// The count in the part that was opened.
        expected: u64,
        /// The count in this part.
        got: u64,
    },
    /// A total of tensors (`split.tensors.count`) that is not the sum over the parts.
    #[error("split.tensors.count: {expected} over all parts, got {got}: parts of two models?")]
    SplitTensorCount {
        /// The total in the metadata.
        expected: u64,
        /// Tensors found in all parts together.
        got: u64,
    },

    /// A tensor of which more or fewer bytes were written than its declaration asks for.
    #[error("tensor `{name}`: {got} bytes written, expected {expected}: write every row, and no more")]
    TensorBytes {
        /// The tensor.
        name: String,
        /// Bytes its declaration asks for.
        expected: u64,
        /// Bytes that were written, or tried to be.
        got: u64,
    },
    /// The caller's closure failed to produce a tensor.
    #[error("tensor `{name}`: {source}")]
    TensorData {
        /// The tensor.
        name: String,
        /// What the closure returned.
        source: io::Error,
    },
}

impl GgufError {
    /// What is wrong, without the file that it was found in.
    pub fn cause(&self) -> &GgufError {
        match self {
            GgufError::InFile { cause, .. } => cause.cause(),
            other => other,
        }
    }

    /// Names the file that the error was found in.
    pub(super) fn in_file(self, path: &Path) -> GgufError {
        GgufError::InFile { path: path.to_path_buf(), cause: Box::new(self) }
    }

    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GgufError {
        let path = path.to_path_buf();
        move |source| GgufError::Io { operation, path, source }
    }
}
