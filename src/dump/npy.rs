//! The header of a `.npy` entry: writing it, and reading it without trusting it.
//!
//! ```text
//! 0      6         8        10
//! | \x93NUMPY | 1 0 | length | {'descr': '<f4', 'fortran_order': False, 'shape': (7, 256), } .. \n | payload
//! ```
//! `length` is 2 bytes, little-endian; spaces pad the text so that the payload starts at a multiple of 64.

#![deny(clippy::indexing_slicing)]

use std::collections::{HashMap, hash_map};
use std::io::Cursor;

use npyz::{DType, NpyHeader, Order, WriteOptions, WriterBuilder};

use super::error::Defect;
use crate::tensor::{GgmlType, Layout};

/// Bytes before the header's text.
const PREFIX: usize = 10;
/// Longest header that is read. Four extents and a type take less than half of it.
const MAX_HEADER: usize = 256;
/// Most digits that the extents have together: their product then fits in 64 bits.
const MAX_DIGITS: usize = 19;

/// What a `.npy` entry says about its payload.
pub(super) struct Header {
    /// Bytes before the payload.
    pub(super) bytes: usize,
    /// numpy's type string.
    pub(super) descr: String,
    /// Extents, outermost first.
    pub(super) shape: Vec<u64>,
    /// Bytes of the payload, from type and extents.
    pub(super) payload_bytes: u64,
}

/// numpy's type of a payload. Types that numpy lacks are raw bytes.
pub(super) fn descr(ty: GgmlType) -> &'static str {
    match ty {
        GgmlType::F32 => "<f4",
        GgmlType::F16 => "<f2",
        GgmlType::F64 => "<f8",
        GgmlType::I8 => "|i1",
        GgmlType::I16 => "<i2",
        GgmlType::I32 => "<i4",
        GgmlType::I64 => "<i8",
        _ => "|u1",
    }
}

/// numpy's shape of a payload: `ne` reversed, without leading extents of 1. Raw bytes have the bytes of
/// a row as their last axis. None if rows are not whole blocks.
pub(super) fn shape(ty: GgmlType, ne: [u64; 4]) -> Option<Vec<u64>> {
    let [ne0, ne1, ne2, ne3] = ne;
    let innermost = if descr(ty) == "|u1" { ty.row_bytes(ne0)? } else { ne0 };
    let layout = Layout { ne: [innermost, ne1, ne2, ne3], nb: [0; 4] };
    Some(layout.shape().into_iter().map(|d| d as u64).collect())
}

/// Bytes of a payload, or none if rows are not whole blocks or the size overflows.
pub(super) fn payload_bytes(ty: GgmlType, ne: [u64; 4]) -> Option<u64> {
    let [ne0, ne1, ne2, ne3] = ne;
    ty.row_bytes(ne0)?.checked_mul(ne1)?.checked_mul(ne2)?.checked_mul(ne3)
}

/// The header of a payload; none if rows are not whole blocks.
pub(super) fn header(ty: GgmlType, ne: [u64; 4]) -> Option<Vec<u8>> {
    let shape = shape(ty, ne)?;
    let dtype = DType::Plain(descr(ty).parse().expect("the type strings of this module are numpy's"));
    let options = WriteOptions::new_header_only().dtype(dtype).shape(&shape);
    Some(options.writer(Vec::new()).write_header_only().expect("writing to memory does not fail"))
}

/// Reads headers. The entries of a dump have few different ones, and each is parsed once.
#[derive(Default)]
pub(super) struct Reader<'a> {
    parsed: HashMap<&'a str, Header>,
}

impl<'a> Reader<'a> {
    /// Reads the header of an entry; `offset` is where the entry starts in the file, for messages.
    pub(super) fn read(&mut self, entry: &str, offset: usize, bytes: &'a [u8]) -> Result<&Header, Defect> {
        let text = text(bytes).map_err(|detail| refused(entry, offset, detail))?;
        match self.parsed.entry(text) {
            hash_map::Entry::Occupied(parsed) => Ok(parsed.into_mut()),
            hash_map::Entry::Vacant(new) => Ok(new.insert(parse(entry, offset, bytes, text.len())?)),
        }
    }
}

fn parse(entry: &str, offset: usize, bytes: &[u8], text_bytes: usize) -> Result<Header, Defect> {
    let header_bytes = PREFIX + text_bytes;
    let head = bytes.get(..header_bytes).unwrap_or_default();
    let header = NpyHeader::from_reader(Cursor::new(head)).map_err(|e| refused(entry, offset, e))?;
    if header.order() == Order::Fortran {
        return Err(Defect::FortranOrder { entry: entry.to_owned() });
    }
    let DType::Plain(ty) = header.dtype() else {
        return Err(refused(entry, offset, "a record type, expected a plain one"));
    };
    let payload_bytes = ty.num_bytes().and_then(|size| {
        header.shape().iter().try_fold(size as u64, |bytes, &extent| bytes.checked_mul(extent))
    });
    let payload_bytes =
        payload_bytes.ok_or_else(|| refused(entry, offset, "the payload's size overflows"))?;
    Ok(Header { bytes: header_bytes, descr: ty.to_string(), shape: header.shape().to_vec(), payload_bytes })
}

fn refused(entry: &str, offset: usize, detail: impl ToString) -> Defect {
    Defect::NpyHeader { entry: entry.to_owned(), offset, detail: detail.to_string() }
}

/// The header's text, if it is of version 1.0 and so plain that parsing it is harmless: one dict with
/// one tuple of small numbers. Nested brackets, escapes or huge extents are refused before the parser,
/// which recurses and multiplies without checks, sees them.
fn text(bytes: &[u8]) -> Result<&str, &'static str> {
    let Some(b"\x93NUMPY") = bytes.get(..6) else {
        return Err("not a .npy file (no \\x93NUMPY at its start)");
    };
    let Some([1, 0]) = bytes.get(6..8) else { return Err("version of .npy expected 1.0") };
    let Some(&[low, high]) = bytes.get(8..PREFIX) else { return Err("its .npy header is cut short") };
    let length = usize::from(u16::from_le_bytes([low, high]));
    if length > MAX_HEADER - PREFIX {
        return Err("its .npy header is longer than 256 bytes");
    }
    let text = bytes.get(PREFIX..PREFIX + length).ok_or("its .npy header is cut short")?;
    let text = str::from_utf8(text).map_err(|_| "its .npy header is not text")?;
    let plain = "its .npy header is not a dict with a type string and one tuple of extents";
    let (before, rest) = text.split_once('(').ok_or(plain)?;
    let (extents, after) = rest.split_once(')').ok_or(plain)?;
    let nested = |s: &str| s.contains(['(', ')', '[', ']', '\\']);
    if nested(before) || nested(after) || text.matches('{').count() != 1 || !text.is_ascii() {
        return Err(plain);
    }
    let digits = extents.bytes().filter(u8::is_ascii_digit).count();
    if digits > MAX_DIGITS || extents.bytes().any(|b| !(b.is_ascii_digit() || b == b',' || b == b' ')) {
        return Err("the extents in its .npy header are not numbers, or too large");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(text: &str) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn headers_round_trip() {
        let bytes = header(GgmlType::F32, [256, 7, 1, 1]).unwrap();
        assert_eq!(bytes.len() % 64, 0);
        let mut reader = Reader::default();
        let header = reader.read("e", 0, &bytes).unwrap();
        let seen = (header.descr.as_str(), header.shape.as_slice(), header.payload_bytes);
        assert_eq!(seen, ("<f4", [7, 256].as_slice(), 7168));
        assert_eq!(header.bytes, bytes.len());
    }

    #[test]
    fn types_that_numpy_lacks_are_rows_of_bytes() {
        assert_eq!(shape(GgmlType::BF16, [3, 2, 1, 1]), Some(vec![2, 6]));
        assert_eq!(shape(GgmlType::Q8_0, [64, 1, 5, 1]), Some(vec![5, 1, 68]));
        assert_eq!(shape(GgmlType::Q8_0, [33, 1, 1, 1]), None);
        assert_eq!(payload_bytes(GgmlType::Q8_0, [64, 1, 5, 1]), Some(340));
    }

    #[test]
    fn harmful_headers_are_refused_before_they_are_parsed() {
        for text in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': ((((1,),),),), }",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (0xffff,), }",
            "{'descr': '\\U00110000', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': {{{{1}}}}, 'fortran_order': False, 'shape': (1,), }",
            "",
        ] {
            let bytes = npy(text);
            let read = Reader::default().read("e", 0, &bytes).map(|header| header.payload_bytes);
            assert!(matches!(read, Err(Defect::NpyHeader { .. })), "{text}");
        }
    }
}
