//! MXFP4: four-bit floats with a power of two, 4.25 bits per weight. Groups of 32 in 17 bytes.
//!
//! ```text
//! offset 0   e        E8M0: the exponent of an f32
//! offset 1   qs[16]   E2M1: element j in the low nibble of qs[j], element 16 + j in its high nibble
//! ```
//! `w = 2 E2M1 * 2^(e - 128)`; e = 255, which is NaN in the standard, counts as any other. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, nibble};
use super::{Format, e2m1};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::MXFP4.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::MXFP4.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    e: u8,
    qs: [u8; GROUP / 2],
}

/// `2^(e - 128)`: subnormal for e below 2.
fn scale(e: u8) -> f32 {
    f32::from_bits(match e {
        0 => 1 << 21,
        1 => 1 << 22,
        _ => u32::from(e - 1) << 23,
    })
}

/// The format of `mxfp4` tensors.
pub(super) struct Mxfp4;

impl Format for Mxfp4 {
    fn ty(&self) -> GgmlType {
        GgmlType::MXFP4
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = scale(block.e);
            for (j, value) in group.iter_mut().enumerate() {
                *value = e2m1::DOUBLED[usize::from(nibble(&block.qs, j))] * d;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_a_power_of_two() {
        for e in 0..=255 {
            assert_eq!(f64::from(scale(e)), 2f64.powi(i32::from(e) - 128), "e = {e}");
        }
    }

    #[test]
    fn codes_are_floats() {
        let mut block = Block { e: 127, qs: [0; 16] };
        block.qs[1] = 0xf3; // -6 and 1.5
        let mut values = [9.0; GROUP];
        Mxfp4.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[0], values[1], values[17]), (0.0, 1.5, -6.0));
    }
}
