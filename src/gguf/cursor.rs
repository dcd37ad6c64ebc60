//! Reads little-endian numbers and strings from bytes that may end anywhere.
#![deny(clippy::indexing_slicing)]

use super::GgufError;

/// What is left of a file, and how far it has been read.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    offset: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, offset: 0 }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes left.
    pub(super) fn remaining(&self) -> u64 {
        self.rest.len() as u64
    }

    fn truncated(&self, what: &'static str, needed: u64) -> GgufError {
        GgufError::Truncated { what, offset: self.offset, needed, remaining: self.remaining() }
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.truncated(what, N as u64));
        };
        self.rest = rest;
        self.offset += N as u64;
        Ok(*head)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A count of things of at least `min_bytes` each: capped, and against what is left of the file.
    pub(super) fn check_count(
        &self,
        what: &'static str,
        count: u64,
        limit: u64,
        min_bytes: u64,
    ) -> Result<usize, GgufError> {
        if count > limit {
            return Err(GgufError::CountAboveLimit { what, got: count, limit });
        }
        let (needed, remaining) = (count.saturating_mul(min_bytes), self.remaining());
        if needed > remaining {
            return Err(GgufError::CountBeyondFile { what, got: count, needed, remaining });
        }
        usize::try_from(count).map_err(|_| GgufError::CountAboveLimit { what, got: count, limit })
    }

    /// A string of at most `limit` bytes, prefixed with its length.
    pub(super) fn string(&mut self, what: &'static str, limit: u64) -> Result<String, GgufError> {
        let start = self.offset;
        let length = self.u64(what)?;
        if length > limit {
            return Err(GgufError::StringTooLong { what, offset: start, got: length, limit });
        }
        let split = usize::try_from(length).ok().and_then(|n| self.rest.split_at_checked(n));
        let Some((bytes, rest)) = split else {
            return Err(self.truncated(what, length));
        };
        let text = std::str::from_utf8(bytes).map_err(|e| GgufError::NotUtf8 {
            what,
            offset: start,
            valid: e.valid_up_to() as u64,
        })?;
        self.rest = rest;
        self.offset += length;
        Ok(text.to_owned())
    }
}
