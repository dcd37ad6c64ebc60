//! The five-bit code that [`Q5_0`](super::q5_0) and [`Q5_1`](super::q5_1) share.
//!
//! ```text
//! qh[4]    element j: bit 4 of the code is bit j of qh, little endian
//! qs[16]   element j: bits 0-3 are the low nibble of qs[j]; element 16 + j: its high nibble
//! ```

use super::blocks::nibble;

/// The code of element `j`: 0 to 31.
pub(super) fn code(qh: [u8; 4], qs: &[u8; 16], j: usize) -> u8 {
    let high = (u32::from_le_bytes(qh) >> j & 1) as u8;
    nibble(qs, j) | high << 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_bits_lie_apart() {
        let mut qs = [0; 16];
        qs[9] = 0x21;
        let qh = [0, 0b10, 0, 0b10]; // elements 9 and 25
        assert_eq!([8, 9, 25, 26].map(|j| code(qh, &qs, j)), [0, 17, 18, 0]);
    }
}
