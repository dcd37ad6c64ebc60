//! How super-blocks of 256 elements lie in bytes: elements that share a byte are 32 apart.
//!
//! ```text
//! bit_plane     bytes[32]    element e: bit e / 32 of bytes[e % 32]
//! two_bits      bytes[64]    element e: bits 2 (e / 32 % 4) of bytes[32 (e / 128) + e % 32]
//! nibble        bytes[128]   element e: bits 4 (e / 32 % 2) of bytes[32 (e / 64) + e % 32]
//! ```

/// Elements of a super-block (`QK_K`).
pub(super) const GROUP: usize = 256;

/// The bit of element `e`.
pub(super) fn bit_plane(bytes: &[u8; 32], e: usize) -> u8 {
    bytes[e % 32] >> (e / 32) & 1
}

/// The two bits of element `e`.
pub(super) fn two_bits(bytes: &[u8; 64], e: usize) -> u8 {
    bytes[32 * (e / 128) + e % 32] >> (2 * (e / 32 % 4)) & 3
}

/// Packs `codes`, each below 4, so that [`two_bits`] finds them.
pub(super) fn pack_two_bits(codes: &[u8; GROUP]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (e, code) in codes.iter().enumerate() {
        bytes[32 * (e / 128) + e % 32] |= code << (2 * (e / 32 % 4));
    }
    bytes
}

/// The nibble of element `e`.
pub(super) fn nibble(bytes: &[u8; 128], e: usize) -> u8 {
    bytes[32 * (e / 64) + e % 32] >> (4 * (e / 32 % 2)) & 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_a_byte_are_32_apart() {
        let mut bytes = [0; 128];
        bytes[33] = 0b1110_0100;
        let two: [u8; 64] = std::array::from_fn(|i| bytes[i]);
        assert_eq!([129, 161, 193, 225].map(|e| two_bits(&two, e)), [0, 1, 2, 3]);
        assert_eq!([65, 97].map(|e| nibble(&bytes, e)), [0b0100, 0b1110]);
        let one: [u8; 32] = std::array::from_fn(|i| bytes[i + 32]);
        assert_eq!([1, 33, 65, 97, 129, 161, 193, 225].map(|e| bit_plane(&one, e)), [0, 0, 1, 0, 0, 1, 1, 1]);
        let codes: [u8; GROUP] = std::array::from_fn(|e| two_bits(&two, e));
        assert_eq!(pack_two_bits(&codes), two);
    }
}
