//! NVFP4: four-bit floats with eight-bit float scales, 4.5 bits per weight. Groups of 64 in 36 bytes.
//!
//! ```text
//! offset 0   d[4]       UE4M3: one scale for 16 elements each; bits 0-2 mantissa, 3-6 exponent (bias 7)
//! offset 4   qs[4][8]   E2M1: of each 16, element j in the low nibble of byte j, element 8 + j in its high nibble
//! ```
//! `w = 2 E2M1 * (d / 2)`. Bit 7 of a scale does not count, except that 0x7f alone stands for 0, while 0xff is the number
//! 480 (`ggml_ue4m3_to_fp32`). Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, nibble};
use super::{Format, e2m1};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::NVFP4.block_elements();
/// Elements that share a scale.
const PART: usize = 16;
const _: () = assert!(size_of::<Block>() == GgmlType::NVFP4.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; GROUP / PART],
    qs: [[u8; PART / 2]; GROUP / PART],
}

/// Half the scale that a byte stands for.
fn half_scale(d: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(d >> 3 & 15), f32::from(d & 7));
    match exponent {
        _ if d == 0x7f => 0.0,
        0 => mantissa * 2f32.powi(-10),
        _ => (8.0 + mantissa) * 2f32.powi(exponent - 11),
    }
}

/// The format of `nvfp4` tensors.
pub(super) struct Nvfp4;

impl Format for Nvfp4 {
    fn ty(&self) -> GgmlType {
        GgmlType::NVFP4
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let scales = block.d.map(half_scale);
            for (e, value) in group.iter_mut().enumerate() {
                let code = nibble(&block.qs[e / PART], e % PART);
                *value = e2m1::DOUBLED[usize::from(code)] * scales[e / PART];
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_floats() {
        // 1.0 and 1.125, the least, the greatest, and the byte that is NaN in the standard
        let halves = [0x38, 0x39, 0x01, 0x7e, 0x7f, 0xff].map(half_scale);
        assert_eq!(halves, [0.5, 0.5625, 2f32.powi(-10), 224.0, 0.0, 240.0]);
    }

    #[test]
    fn sixteen_elements_share_a_scale() {
        let mut block = Block { d: [0x38, 0x40, 0x38, 0x48], qs: [[0; 8]; 4] };
        block.qs[1][7] = 0xf3; // elements 23 and 31, scale 2
        let mut values = [9.0; GROUP];
        Nvfp4.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[23], values[31], values[32]), (3.0, -12.0, 0.0));
    }
}
