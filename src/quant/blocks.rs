//! What every block format does: walks a row block by block, and reads the small fields that blocks are made of.

use bytemuck::Pod;
use half::f16;

/// Decodes a row: `decode` turns one block `B`, a struct of bytes, into its `N` values.
pub(super) fn decode<B: Pod, const N: usize>(
    blocks: &[u8],
    values: &mut [f32],
    decode: impl Fn(&B, &mut [f32; N]),
) {
    const { assert!(align_of::<B>() == 1, "a row starts at any address") };
    let blocks: &[B] = bytemuck::cast_slice(blocks);
    for (block, group) in blocks.iter().zip(values.as_chunks_mut().0) {
        decode(block, group);
    }
}

/// Encodes a row: `encode` turns `N` values into one block.
pub(super) fn encode<B: Pod, const N: usize>(
    values: &[f32],
    blocks: &mut [u8],
    encode: impl Fn(&[f32; N]) -> B,
) {
    const { assert!(align_of::<B>() == 1, "a row starts at any address") };
    let blocks: &mut [B] = bytemuck::cast_slice_mut(blocks);
    for (block, group) in blocks.iter_mut().zip(values.as_chunks().0) {
        *block = encode(group);
    }
}

/// A scale that is stored as f16.
pub(super) fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// Stores a scale as f16, rounded to nearest even.
pub(super) fn to_half(scale: f32) -> [u8; 2] {
    f16::from_f32(scale).to_le_bytes()
}

/// Nibble j of `2 N`: the low nibbles of all bytes come first, then the high ones.
pub(super) fn nibble<const N: usize>(bytes: &[u8; N], j: usize) -> u8 {
    bytes[j % N] >> (4 * (j / N)) & 15
}

/// Packs `codes`, each below 16, so that [`nibble`] finds them. `codes` are twice as many as `bytes`.
pub(super) fn pack_nibbles(codes: &[u8], bytes: &mut [u8]) {
    let (low, high) = codes.split_at(bytes.len());
    for ((byte, low), high) in bytes.iter_mut().zip(low).zip(high) {
        *byte = low | high << 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_nibbles_come_first() {
        let bytes = [0x21, 0x43];
        assert_eq!([0, 1, 2, 3].map(|j| nibble(&bytes, j)), [1, 3, 2, 4]);
        let mut packed = [0; 2];
        pack_nibbles(&[1, 3, 2, 4], &mut packed);
        assert_eq!(packed, bytes);
    }

    #[test]
    fn every_block_of_a_row_is_walked() {
        let mut values = [0.0; 4];
        decode(&[1, 2], &mut values, |block: &[u8; 1], group: &mut [f32; 2]| *group = [block[0].into(), 9.0]);
        assert_eq!(values, [1.0, 9.0, 2.0, 9.0]);
        let mut blocks = [0; 2];
        encode(&values, &mut blocks, |group: &[f32; 2]| [group[0] as u8]);
        assert_eq!(blocks, [1, 2]);
    }
}
