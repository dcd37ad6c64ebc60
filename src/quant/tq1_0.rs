//! TQ1_0: base-3 ternary, 1.6875 bits per weight. Groups of 256 in 54 bytes.
//!
//! ```text
//! offset 0    qs[48]   five trits a byte
//!             qs[m], m < 32:       elements m + 32 n,        n = 0..4
//!             qs[32 + m], m < 16:  elements 160 + m + 16 n,  n = 0..4
//! offset 48   qh[4]    four trits a byte: elements 240 + h + 4 n, n = 0..3
//! offset 52   f16 d
//! ```
//! The code of a byte is in `trits`. Encoding: d is the largest absolute value, and the quotient is taken by the f32
//! scale, before it is rounded to f16 (`quantize_row_tq1_0_ref`).

use bytemuck::{Pod, Zeroable};

use super::blocks::{self, half, to_half};
use super::trits::{self, Run};
use super::{Codes, Encoder, Format, Integers, IntegersOf, amax, codes, inverse_or_zero};
use crate::tensor::GgmlType;

const GROUP: usize = GgmlType::TQ1_0.block_elements();
const _: () = assert!(size_of::<Block>() == GgmlType::TQ1_0.block_bytes());

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Block {
    /// qs, then qh.
    trits: [u8; 52],
    d: [u8; 2],
}

const RUNS: [Run; 3] = [
    Run { byte: 0, bytes: 32, first: 0, trits: 5 },
    Run { byte: 32, bytes: 16, first: 160, trits: 5 },
    Run { byte: 48, bytes: 4, first: 240, trits: 4 },
];

/// The format of `tq1_0` tensors.
pub(super) struct Tq1_0;

impl Format for Tq1_0 {
    fn ty(&self) -> GgmlType {
        GgmlType::TQ1_0
    }

    fn decode(&self, blocks: &[u8], values: &mut [f32]) {
        blocks::decode(blocks, values, |block: &Block, group: &mut [f32; GROUP]| {
            trits::decode(&RUNS, &block.trits, half(block.d), group);
        });
    }

    /// ggml adds up the codes 0, 1, 2 and takes the sum of the activation off apart (`ggml_vec_dot_tq1_0_q8_K`).
    fn minima(&self, blocks: &[u8], minima: &mut [f32]) -> bool {
        blocks::decode(blocks, minima, |block: &Block, group: &mut [f32; GROUP]| group.fill(-half(block.d)));
        true
    }

    fn codes(&self) -> Option<Codes> {
        codes::trits(GROUP, 52, |j| trits::place(&RUNS, j))
    }

    fn encoder(&self) -> Option<Encoder> {
        Some(|values, blocks| blocks::encode(values, blocks, encode))
    }

    fn integers(&self) -> Option<IntegersOf> {
        Some(|bytes| {
            let block: &Block = bytemuck::from_bytes(bytes);
            let code = |e| {
                let (byte, n) = trits::place(&RUNS, e);
                i32::from(trits::trit(block.trits[byte], n)) - 1
            };
            Integers::plain(half(block.d), code, GROUP)
        })
    }
}

fn encode(group: &[f32; GROUP]) -> Block {
    let d = amax(group);
    let mut block = Block { trits: [0; 52], d: to_half(d) };
    trits::encode(&RUNS, group, inverse_or_zero(d), &mut block.trits);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trits_lie_most_significant_first_in_strides() {
        let mut values = [0.0; GROUP];
        values[0] = 0.5; // qs[0], trit 0
        values[32] = -0.5; // qs[0], trit 1
        values[176] = 0.5; // qs[32], trit 1
        values[243] = 0.2; // qh[3], trit 0, less than half
        values[255] = -0.3; // qh[3], trit 3
        let block = encode(&values);
        // V = 2*81 + 0*27 + 1*9 + 1*3 + 1 = 175 -> ceil(175 * 256 / 243) = 185
        assert_eq!(block.trits[0], 185);
        // V = 1*81 + 2*27 + 1*9 + 1*3 + 1 = 148 -> ceil(148 * 256 / 243) = 156
        assert_eq!(block.trits[32], 156);
        // V = 81 + 27 + 9 + 0 + 0 = 117 -> ceil(117 * 256 / 243) = 124
        assert_eq!(block.trits[51], 124);
        let mut back = [9.0; GROUP];
        Tq1_0.decode(bytemuck::bytes_of(&block), &mut back);
        assert_eq!((back[0], back[32], back[176]), (0.5, -0.5, 0.5));
        assert_eq!((back[1], back[243], back[255]), (0.0, 0.0, -0.5));
    }
}
