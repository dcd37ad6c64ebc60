//! A block as the integers that a product with a rounded activation takes, for formats whose values are
//!
//! ```text
//! d * scales[part] * codes[e]  -  dmin * mins[part]        part = e / (elements / parts)
//! ```

/// Elements of the largest block.
pub const MOST_ELEMENTS: usize = 256;
/// Parts of a block with a scale each, at most.
pub const MOST_PARTS: usize = 16;

/// The integers of a block; of a smaller one the first of each.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Integers {
    /// The scale of the block.
    pub d: f32,
    /// The scale of its minima, for Q4_1 and Q5_1 the minimum itself (which is added, not taken off); 0 without any.
    pub dmin: f32,
    /// The codes, with the sign that they stand for.
    pub codes: [i8; MOST_ELEMENTS],
    /// The scale of each part; 1 for a format without any.
    pub scales: [i8; MOST_PARTS],
    /// The minimum of each part; 0 for a format without any.
    pub mins: [u8; MOST_PARTS],
}

impl Integers {
    /// Of a format without scales of parts.
    pub(super) fn plain(d: f32, code: impl Fn(usize) -> i32, elements: usize) -> Integers {
        let mut codes = [0; MOST_ELEMENTS];
        codes[..elements].iter_mut().enumerate().for_each(|(e, own)| *own = code(e) as i8);
        Integers { d, dmin: 0.0, codes, scales: [1; MOST_PARTS], mins: [0; MOST_PARTS] }
    }

    /// Of a format with a scale and a minimum for each part; missing ones are 0.
    pub(super) fn in_parts(
        d: f32,
        dmin: f32,
        code: impl Fn(usize) -> i32,
        scales: &[i8],
        mins: &[u8],
    ) -> Integers {
        let mut integers = Integers::plain(d, code, MOST_ELEMENTS);
        integers.dmin = dmin;
        integers.scales[..scales.len()].copy_from_slice(scales);
        integers.mins[..mins.len()].copy_from_slice(mins);
        integers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{FORMATS, decode};
    use crate::tensor::GgmlType;

    /// Parts of a block of a type.
    fn parts(ty: GgmlType) -> usize {
        match ty {
            GgmlType::Q2_K | GgmlType::Q3_K | GgmlType::Q6_K => 16,
            GgmlType::Q4_K | GgmlType::Q5_K => 8,
            _ => 1,
        }
    }

    /// What the integers stand for is what is decoded, of bytes of all kinds.
    #[test]
    fn integers_stand_for_the_decoded_values() {
        let mut seen = 0;
        for (format, integers) in FORMATS.iter().filter_map(|format| Some((format, format.integers()?))) {
            let (ty, n) = (format.ty(), format.ty().block_elements());
            for salt in 0..50u32 {
                let random = |i: usize| {
                    (i as u32).wrapping_mul(2_654_435_761).wrapping_add(salt * 40_503).rotate_left(salt % 32)
                };
                let mut block: Vec<u8> =
                    (0..ty.block_bytes()).map(|i| (random(i).wrapping_mul(97) >> 13) as u8).collect();
                // Exponents of f16 that are finite, wherever they lie.
                if !matches!(
                    ty,
                    GgmlType::TQ1_0 | GgmlType::TQ2_0 | GgmlType::Q2_K | GgmlType::Q3_K | GgmlType::Q6_K
                ) {
                    (block[1], block[3]) = (0x2c, if n > 32 { 0x30 } else { block[3] & 0x3f });
                }
                let end = block.len();
                if matches!(ty, GgmlType::Q2_K) {
                    (block[end - 3], block[end - 1]) = (0x2c, 0x30);
                } else if parts(ty) == 16 || matches!(ty, GgmlType::TQ1_0 | GgmlType::TQ2_0) {
                    block[end - 1] = 0x2c;
                }
                let mut values = vec![0.0; n];
                decode(ty, &block, &mut values).unwrap();
                let Integers { d, dmin, codes, scales, mins } = integers(&block);
                for (e, value) in values.iter().enumerate() {
                    let part = e * parts(ty) / n;
                    let sign = if matches!(ty, GgmlType::Q4_1 | GgmlType::Q5_1) { 1.0 } else { -1.0 };
                    let step = d * f32::from(scales[part]);
                    let stood_for = step * f32::from(codes[e]) + sign * dmin * f32::from(mins[part]);
                    assert_eq!(stood_for, *value, "{ty} {e} of block {salt}");
                }
            }
            seen += 1;
        }
        assert_eq!(seen, 14);
    }
}
