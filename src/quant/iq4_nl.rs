//! IQ4_NL: four bits on uneven levels, 4.5 bits per weight. Groups of 32 in 18 bytes.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   qs[16]   element j: low nibble of qs[j]; element 16 + j: its high nibble
//! ```
//! `w = d * level[code]`, exact. Decode only.

use bytemuck::{Pod, Zeroable};

use super::Format;
use super::blocks::{self, half, nibble};
use super::tables::iq4::LEVELS;
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::IQ4_NL.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::IQ4_NL.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    qs: [u8; GROUP / 2],
}

/// The format of `iq4_nl` tensors.
pub(super) struct Iq4Nl;

impl Format for Iq4Nl {
    fn ty(&self) -> GgmlType {
        GgmlType::IQ4_NL
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = half(block.d);
            for (j, value) in group.iter_mut().enumerate() {
                *value = d * LEVELS[usize::from(nibble(&block.qs, j))];
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn levels_are_uneven() {
        let mut block = Block { d: to_half(0.5), qs: [0x88; 16] };
        block.qs[1] = 0xf0;
        let mut values = [9.0; GROUP];
        Iq4Nl.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[0], values[1], values[17]), (0.5, -63.5, 56.5));
    }
}
