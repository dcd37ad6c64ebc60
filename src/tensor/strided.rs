//! Strided layouts as ggml describes them, and gathering their logical values.

use thiserror::Error;

/// How a tensor lies in memory, in ggml's order (dimension 0 fastest).
///
/// `ne` counts elements, `nb` is in bytes: `nb[i]` leads from one element to the next along dimension `i`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Elements along each dimension.
    pub ne: [u64; 4],
    /// Bytes from one element to the next along each dimension.
    pub nb: [u64; 4],
}

/// Why a strided view could not be read.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum StridedError {
    /// The view reaches beyond its buffer.
    #[error("view needs {needed} bytes from offset {offset}, its buffer has {have}")]
    OutOfBounds {
        /// Bytes from the buffer's start to the view's last byte.
        needed: u64,
        /// Where the view starts.
        offset: u64,
        /// Bytes in the buffer.
        have: u64,
    },
    /// The element count or an address does not fit in 64 bits.
    #[error("view of ne = {ne:?}, nb = {nb:?} overflows")]
    Overflow {
        /// The view's extents.
        ne: [u64; 4],
        /// The view's strides.
        nb: [u64; 4],
    },
}

impl Layout {
    /// The packed layout of `ne` elements of `element_bytes` each.
    pub fn packed(ne: [u64; 4], element_bytes: u64) -> Option<Layout> {
        let mut nb = [element_bytes; 4];
        for d in 1..4 {
            nb[d] = nb[d - 1].checked_mul(ne[d - 1])?;
        }
        Some(Layout { ne, nb })
    }

    /// Number of elements, or `None` on overflow.
    pub fn elements(&self) -> Option<u64> {
        self.ne.iter().try_fold(1u64, |n, &d| n.checked_mul(d))
    }

    /// Whether the elements lie one after the other without gaps (dimensions of extent 1 do not count).
    pub fn is_packed(&self, element_bytes: u64) -> bool {
        let mut expected = element_bytes;
        for d in 0..4 {
            if self.ne[d] != 1 && self.nb[d] != expected {
                return false;
            }
            match expected.checked_mul(self.ne[d]) {
                Some(next) => expected = next,
                None => return false,
            }
        }
        true
    }

    /// The shape outermost first, with leading dimensions of extent 1 removed (at least one stays).
    pub fn shape(&self) -> Vec<usize> {
        let outer = (1..4).rev().find(|&d| self.ne[d] != 1).unwrap_or(0);
        (0..=outer).rev().map(|d| self.ne[d] as usize).collect()
    }
}

/// Copies the elements of a strided view, dimension 0 fastest, into a packed vector of bytes.
///
/// # Errors
/// If an element of the view lies outside `buffer`, or an address overflows.
pub fn gather(
    buffer: &[u8],
    layout: &Layout,
    offset: u64,
    element_bytes: usize,
) -> Result<Vec<u8>, StridedError> {
    let Layout { ne, nb } = *layout;
    let overflow = || StridedError::Overflow { ne, nb };
    let elements = layout.elements().ok_or_else(overflow)?;
    if elements == 0 {
        return Ok(Vec::new());
    }
    let mut last = offset;
    for d in 0..4 {
        last = (ne[d] - 1).checked_mul(nb[d]).and_then(|b| last.checked_add(b)).ok_or_else(overflow)?;
    }
    let needed = last.checked_add(element_bytes as u64).ok_or_else(overflow)?;
    let have = buffer.len() as u64;
    if needed > have {
        return Err(StridedError::OutOfBounds { needed, offset, have });
    }
    let bytes = elements.checked_mul(element_bytes as u64).ok_or_else(overflow)?;
    // Every element of a view is read from the buffer, but overlapping views may repeat them: a view
    // can be larger than its buffer only through a zero stride, which ggml never makes.
    if bytes > have {
        return Err(StridedError::OutOfBounds { needed: bytes, offset, have });
    }
    let mut out = Vec::with_capacity(bytes as usize);
    let row_packed = nb[0] == element_bytes as u64;
    for i3 in 0..ne[3] {
        for i2 in 0..ne[2] {
            for i1 in 0..ne[1] {
                let row = (offset + i3 * nb[3] + i2 * nb[2] + i1 * nb[1]) as usize;
                if row_packed {
                    out.extend_from_slice(&buffer[row..row + ne[0] as usize * element_bytes]);
                } else {
                    for i0 in 0..ne[0] {
                        let at = row + (i0 * nb[0]) as usize;
                        out.extend_from_slice(&buffer[at..at + element_bytes]);
                    }
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_a_transposed_view() {
        let buffer = [0u8, 1, 2, 3, 4, 5]; // 2 rows of 3 bytes
        let transposed = Layout { ne: [2, 3, 1, 1], nb: [3, 1, 6, 6] };
        assert_eq!(gather(&buffer, &transposed, 0, 1).unwrap(), [0, 3, 1, 4, 2, 5]);
        assert!(!transposed.is_packed(1));
    }

    #[test]
    fn refuses_a_view_beyond_its_buffer() {
        let buffer = [0u8; 6];
        let view = Layout { ne: [3, 2, 1, 1], nb: [1, 4, 8, 8] };
        assert_eq!(
            gather(&buffer, &view, 0, 1),
            Err(StridedError::OutOfBounds { needed: 7, offset: 0, have: 6 })
        );
        let huge = Layout { ne: [u64::MAX, 2, 1, 1], nb: [8, 8, 8, 8] };
        assert!(matches!(gather(&buffer, &huge, 0, 1), Err(StridedError::Overflow { .. })));
    }

    #[test]
    fn extents_of_one_do_not_spoil_packedness() {
        let layout = Layout { ne: [4, 1, 3, 1], nb: [4, 999, 16, 7] };
        assert!(layout.is_packed(4));
        assert_eq!(layout.shape(), [3, 1, 4]);
        assert_eq!(Layout::packed([5, 1, 1, 1], 4).unwrap().shape(), [5]);
    }
}
