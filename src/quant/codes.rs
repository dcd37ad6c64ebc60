//! How the codes of a block lie, for formats whose values are a code times one scale for the whole block.

use super::blocks::half;

/// The codes of a format.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// How many codes there are: 4 of two bits, 3 of base 3.
    pub count: i32,
    /// The level of a code: which multiple of d it stands for.
    pub level: fn(i32) -> i32,
    /// Where element j of a block lies: in which byte of codes, and as which digit of that byte (bits from the lowest up, base 3
    /// from the most significant trit down).
    pub place: fn(usize) -> (usize, usize),
    /// Elements of a block.
    pub block: usize,
    /// At which byte of a block its scale d lies, an f16.
    pub(super) scale_at: usize,
}

impl Codes {
    /// The scale of a block.
    pub(crate) fn scale_of(&self, block: &[u8]) -> f32 {
        half([block[self.scale_at], block[self.scale_at + 1]])
    }
}

/// Two bits that stand for -d, 0, d, 2d.
pub(super) const fn two_bits(
    block: usize,
    scale_at: usize,
    place: fn(usize) -> (usize, usize),
) -> Option<Codes> {
    Some(Codes { count: 4, level: |code| code - 1, place, block, scale_at })
}

/// Trits that stand for -d, 0, d.
pub(super) const fn trits(
    block: usize,
    scale_at: usize,
    place: fn(usize) -> (usize, usize),
) -> Option<Codes> {
    Some(Codes { count: 3, level: |code| code - 1, place, block, scale_at })
}

#[cfg(test)]
mod tests {
    use half::f16;

    use crate::quant::FORMATS;

    #[test]
    fn every_element_has_the_level_of_the_digit_at_its_place() {
        for (format, codes) in FORMATS.iter().filter_map(|format| Some((format, format.codes()?))) {
            let ty = format.ty();
            let digit = |byte: u8, place: u32| match codes.count {
                3 => (u32::from(byte.wrapping_mul(3u8.pow(place))) * 3) >> 8,
                n => u32::from(byte) >> (n.ilog2() * place) & (n as u32 - 1),
            };
            let first = if codes.scale_at == 0 { 2 } else { 0 };
            for seed in 0..=255u8 {
                let mut block: Vec<u8> =
                    (0..ty.block_bytes()).map(|i| seed.wrapping_add(37u8.wrapping_mul(i as u8))).collect();
                block[codes.scale_at..][..2].copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
                let mut values = vec![9.0; ty.block_elements()];
                format.decode(&block, &mut values);
                assert_eq!((codes.scale_of(&block), codes.block), (0.5, values.len()));
                for (j, value) in values.iter().enumerate() {
                    let (byte, place) = (codes.place)(j);
                    let code = digit(block[first + byte], place as u32) as i32;
                    assert_eq!(*value, (codes.level)(code) as f32 * 0.5, "{ty}, element {j}");
                }
            }
        }
    }
}
