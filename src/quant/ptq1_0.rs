//! PTQ1_0: the PrismML fork's base-3 ternary type (id 143), 1.75 bits per weight. Groups of 128 in 28 bytes.
//!
//! ```text
//! offset 0    qs[24]   five trits a byte
//!             qs[m], m < 16:      elements m + 16 n,      n = 0..4
//!             qs[16 + m], m < 8:  elements 80 + m + 8 n,  n = 0..4
//! offset 24   qh[2]    four trits a byte: elements 120 + h + 2 n, n = 0..3
//! offset 26   f16 d
//! ```
//! The code of a byte is in `trits`. Encoding: d is the largest absolute value.

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, to_half};
use super::trits::{self, Run};
use super::{Codes, Encoder, Format, amax, codes, inverse_or_zero};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::PTQ1_0.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::PTQ1_0.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    /// qs, then qh.
    trits: [u8; 26],
    d: [u8; 2],
}

const RUNS: [Run; 3] = [
    Run { byte: 0, bytes: 16, first: 0, trits: 5 },
    Run { byte: 16, bytes: 8, first: 80, trits: 5 },
    Run { byte: 24, bytes: 2, first: 120, trits: 4 },
];

/// The format of `ptq1_0` tensors.
pub(super) struct Ptq1_0;

impl Format for Ptq1_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::PTQ1_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            trits::decode(&RUNS, &block.trits, half(block.d), group);
        });
    }

    fn codes(&self) -> Option<Codes> {
        codes::trits(GROUP, 26, |j| trits::place(&RUNS, j))
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(|values, blocks| blocks::encode(values, blocks, encode))
    }
}

fn encode(group: &[f32; GROUP]) -> Block {
    let d = amax(group);
    let mut block = Block { trits: [0; 26], d: to_half(d) };
    trits::encode(&RUNS, group, inverse_or_zero(d), &mut block.trits);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trits_lie_most_significant_first_in_strides() {
        let mut values = [0.0; GROUP];
        values[0] = 1.0; // qs[0], trit 0
        values[16] = -1.0; // qs[0], trit 1
        values[121] = 1.0; // qh[1], trit 0
        let block = encode(&values);
        // V = 2*81 + 0*27 + 1*9 + 1*3 + 1 = 175 -> ceil(175 * 256 / 243) = 185
        assert_eq!(block.trits[0], 185);
        // V = 2*81 + 27 + 9 + 3 + 0 = 201 -> ceil(201 * 256 / 243) = 212
        assert_eq!(block.trits[25], 212);
        let mut back = [9.0; GROUP];
        Ptq1_0.decode(bytemuck::bytes_of(&block), &mut back);
        assert_eq!(back, values);
    }
}
