//! Builds GGUF files byte by byte, so that any byte can be wrong.

use crate::gguf::{Gguf, GgufError};

/// A growing vector of little-endian bytes.
#[derive(Clone, Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.0.extend_from_slice(bytes);
        self
    }
    pub(super) fn u32(self, value: u32) -> Bytes {
        self.raw(&value.to_le_bytes())
    }
    pub(super) fn u64(self, value: u64) -> Bytes {
        self.raw(&value.to_le_bytes())
    }
    /// A string with its length in front.
    pub(super) fn string(self, text: &[u8]) -> Bytes {
        self.u64(text.len() as u64).raw(text)
    }
    /// A key of type u32.
    pub(super) fn key_u32(self, key: &str, value: u32) -> Bytes {
        self.string(key.as_bytes()).u32(4).u32(value)
    }
    /// A line of the tensor table.
    pub(super) fn tensor(self, name: &str, ne: &[u64], type_id: u32, offset: u64) -> Bytes {
        let line = self.string(name.as_bytes()).u32(ne.len() as u32);
        ne.iter().fold(line, |line, &n| line.u64(n)).u32(type_id).u64(offset)
    }
    /// Zeros up to a multiple of `alignment`, then `count` more bytes.
    pub(super) fn data(mut self, alignment: usize, count: usize) -> Bytes {
        self.0.resize(self.0.len().next_multiple_of(alignment) + count, 0);
        self
    }
    /// The cause for which the reader refuses the file.
    pub(super) fn refused(&self) -> GgufError {
        match Gguf::from_bytes(self.0.clone()) {
            Ok(gguf) => panic!("accepted: {gguf:?}"),
            Err(GgufError::InFile { cause, .. }) => *cause,
            Err(other) => other,
        }
    }
    pub(super) fn accepted(&self) -> Gguf {
        Gguf::from_bytes(self.0.clone()).expect("a valid file")
    }
}

/// Magic, version 3, and the counts.
pub(super) fn header(n_tensors: u64, n_keys: u64) -> Bytes {
    Bytes::default().raw(b"GGUF").u32(3).u64(n_tensors).u64(n_keys)
}
