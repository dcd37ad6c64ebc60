//! Eight scales and eight minima of six bits in 12 bytes, which [`Q4_K`](super::q4_k) and [`Q5_K`](super::q5_k) share.
//!
//! ```text
//! j = 0..3     bits 0-5                       bits 6-7
//! byte j       scale j                        bits 4-5 of scale 4 + j
//! byte 4 + j   min j                          bits 4-5 of min 4 + j
//!              bits 0-3                       bits 4-7
//! byte 8 + j   bits 0-3 of scale 4 + j        bits 0-3 of min 4 + j
//! ```

/// The scales and the minima, each for 32 elements.
pub(super) fn unpack(bytes: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = bytes[j] & 63;
        mins[j] = bytes[4 + j] & 63;
        scales[4 + j] = bytes[8 + j] & 15 | bytes[j] >> 6 << 4;
        mins[4 + j] = bytes[8 + j] >> 4 | bytes[4 + j] >> 6 << 4;
    }
    (scales, mins)
}

/// The bytes from which [`unpack`] reads `scales` and `mins`, each below 64.
pub(super) fn pack(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut bytes = [0; 12];
    for j in 0..4 {
        bytes[j] = scales[j] | scales[4 + j] >> 4 << 6;
        bytes[4 + j] = mins[j] | mins[4 + j] >> 4 << 6;
        bytes[8 + j] = scales[4 + j] & 15 | mins[4 + j] << 4;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_four_are_split() {
        let scales = [1, 2, 3, 63, 0b10_0110, 0, 0, 63];
        let mins = [4, 5, 6, 62, 0b01_1001, 0, 0, 61];
        let bytes = pack(&scales, &mins);
        assert_eq!((bytes[0], bytes[4], bytes[8]), (0b10_000001, 0b01_000100, 0b1001_0110));
        assert_eq!(unpack(&bytes), (scales, mins));
    }
}
