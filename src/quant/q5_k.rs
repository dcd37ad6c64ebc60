//! Q5_K: five bits with six-bit scales and minima, 5.5 bits per weight. Groups of 256 in 176 bytes.
//!
//! ```text
//! offset 0    f16 d        of the scales
//! offset 2    f16 dmin     of the minima
//! offset 4    scales[12]   eight scales and eight minima, for 32 elements each, packed as `six_bit_scales` says
//! offset 16   qh[32]       bit 4 of the codes, a bit plane as `super_block` says
//! offset 48   qs[128]      bits 0-3, laid out as `super_block` says
//! ```
//! `w = d * scale * code - dmin * min`; both products are exact, so that only the difference rounds. Decode only.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half};
use super::super_block::{GROUP, bit_plane, nibble};
use super::{Format, Integers, IntegersOf, six_bit_scales};
use crate::tensor::GgmlType;

const _: () = assert!(size_of::<Block>() == GgmlType::Q5_K.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    dmin: [u8; 2],
    scales: [u8; 12],
    qh: [u8; GROUP / 8],
    qs: [u8; GROUP / 2],
}

/// The format of `q5_K` tensors.
pub(super) struct Q5K;

impl Format for Q5K {
    fn ty(&self) -> GgmlType {
        GgmlType::Q5_K
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let (scales, mins) = six_bit_scales::unpack(&block.scales);
            let scales = scales.map(|scale| half(block.d) * f32::from(scale));
            let mins = mins.map(|min| half(block.dmin) * f32::from(min));
            for (e, value) in group.iter_mut().enumerate() {
                let code = nibble(&block.qs, e) | bit_plane(&block.qh, e) << 4;
                *value = scales[e / 32] * f32::from(code) - mins[e / 32];
            }
        });
    }

    fn minima(&self, blocks: &[u8], minima: &mut [f32]) -> bool {
        blocks::decode(blocks, minima, |block: &Block, group: &mut [f32; GROUP]| {
            let (_, mins) = six_bit_scales::unpack(&block.scales);
            group
                .iter_mut()
                .enumerate()
                .for_each(|(e, min)| *min = -half(block.dmin) * f32::from(mins[e / 32]));
        });
        true
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            let (scales, mins) = six_bit_scales::unpack(&block.scales);
            let code = |e| (nibble(&block.qs, e) | bit_plane(&block.qh, e) << 4).into();
            let scales = scales.map(|scale| scale as i8);
            Integers::in_parts(half(block.d), half(block.dmin), code, &scales, &mins)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn the_fifth_bit_lies_apart() {
        let mut mins = [0; 8];
        mins[7] = 40;
        let scales = six_bit_scales::pack(&[2; 8], &mins);
        let mut block = Block { d: to_half(0.5), dmin: to_half(0.25), scales, qh: [0; 32], qs: [0; 128] };
        block.qs[96 + 31] = 0xf3; // elements 223 and 255
        block.qh[31] = 0x80; // element 255
        let mut values = [9.0; GROUP];
        Q5K.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!((values[223], values[254], values[255]), (3.0, -10.0, 21.0));
    }
}
