//! Q8_K: signed bytes with partial sums, 9.125 bits per element. Groups of 256 in 292 bytes. llama.cpp keeps activations
//! in it, never weights.
//!
//! ```text
//! offset 0     f32 d
//! offset 4     i8 qs[256]
//! offset 260   i16 bsums[16]   the sum of 16 qs each
//! ```
//! `x = d * qs`. Decode only.

use bytemuck::{Pod, Zeroable};

use super::Format;
use super::blocks;
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::Q8_K.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::Q8_K.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 4],
    qs: [i8; GROUP],
    bsums: [[u8; 2]; GROUP / 16],
}

/// The format of `q8_K` tensors.
pub(super) struct Q8K;

impl Format for Q8K {
    fn ty(&self) -> GgmlType {
        GgmlType::Q8_K
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = f32::from_le_bytes(block.d);
            *group = block.qs.map(|q| d * f32::from(q));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_single_precision() {
        let mut block = Block { d: 1.0e-30f32.to_le_bytes(), qs: [2; GROUP], bsums: [[7; 2]; 16] };
        block.qs[255] = -127;
        let mut values = [9.0; GROUP];
        Q8K.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!(values[254..], [2.0e-30, -127.0 * 1.0e-30]);
    }
}
