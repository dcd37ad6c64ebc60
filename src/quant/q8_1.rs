//! Q8_1: signed bytes with their sum, 9 bits per element. Groups of 32 in 36 bytes. llama.cpp keeps activations in it,
//! never weights.
//!
//! ```text
//! offset 0   f16 d
//! offset 2   f16 s       the sum of all qs times d: what a weight format with a minimum multiplies with it
//! offset 4   i8 qs[32]
//! ```
//! `x = qs * d`. Decode only.

use bytemuck::{Pod, Zeroable};

use super::Format;
use super::blocks::{self, half};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::Q8_1.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::Q8_1.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    d: [u8; 2],
    s: [u8; 2],
    qs: [i8; GROUP],
}

/// The format of `q8_1` tensors.
pub(super) struct Q8_1;

impl Format for Q8_1 {
    fn ty(&self) -> GgmlType {
        GgmlType::Q8_1
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            let d = half(block.d);
            *group = block.qs.map(|q| f32::from(q) * d);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::blocks::to_half;

    #[test]
    fn the_sum_does_not_count() {
        let mut block = Block { d: to_half(0.5), s: to_half(100.0), qs: [1; GROUP] };
        block.qs[31] = -128;
        let mut values = [9.0; GROUP];
        Q8_1.decode(bytemuck::bytes_of(&block), &mut values);
        assert_eq!(values[30..], [0.5, -64.0]);
    }
}
