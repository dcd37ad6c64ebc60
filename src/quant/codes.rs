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
