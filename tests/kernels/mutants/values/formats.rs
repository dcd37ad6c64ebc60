//! A mistake in each format of weights; rows of all of them are decoded one after the other.

use super::super::{Mutant, edit, raw};
use super::each;

const ROWS: &str = "get_rows::rows_of_every_type_have_the_bits_of_the_decoder";

pub(super) fn mutants() -> Vec<Mutant> {
    let codes_of_nibbles =
        edit("q[group % 4] >> 4 * (group / 4) & 0x0f0f0f0fu", "q[group % 4] & 0x0f0f0f0fu").times(2);
    let scale_of_neighbour = raw(
        "(piece % (BLOCK / PIECE));\n        d = f16_at(block);",
        "(piece % (BLOCK / PIECE));\n        d = f16_at(MUTANT && piece > 3 ? block - BYTES : block);",
    );
    [
        each(
            "formats.cuh",
            ROWS,
            "get_rows: ",
            vec![
                raw("const float zero = F::ZERO;", "const float zero = MUTANT ? 0.0f : F::ZERO;"),
                scale_of_neighbour,
                edit("q[group / 4] >> 8 * (group % 4) & 255u", "q[group / 4] >> 8 * (group % 4 ^ 1) & 255u"),
            ],
        ),
        each(
            "formats.cuh",
            ROWS,
            "get_rows: q1_0",
            vec![edit("(pairs << 1 | pairs << 8) & 0x02020202u", "(pairs | pairs << 8) & 0x02020202u")],
        ),
        each("formats.cuh", ROWS, "get_rows: q8_0", vec![edit("q[group] ^ 0x80808080u", "q[group]")]),
        each("formats.cuh", ROWS, "get_rows: q4_", vec![codes_of_nibbles]),
        each(
            "formats.cuh",
            ROWS,
            "get_rows: tq2_0",
            vec![edit("q[group % 2] >> 2 * (group / 2) & 0x03030303u", "q[group % 2] & 0x03030303u")],
        ),
        each(
            "formats.cuh",
            ROWS,
            "get_rows: q4_K",
            vec![edit("tail >> 4 & 0x0f0fu", "tail & 0x0f0fu"), edit("fmaf(v.x, d, -min)", "v.x * d")],
        ),
        each(
            "formats.cuh",
            ROWS,
            "get_rows: q6_K",
            vec![
                edit("first / 16", "0"),
                edit("high[word] >> 2 * quarter & 0x03030303u", "high[word] & 0x03030303u"),
            ],
        ),
        each(
            "formats.cuh",
            ROWS,
            "get_rows: bf16",
            vec![raw("return bf16_to_f32(bits); }", "return bf16_to_f32(MUTANT ? bits ^ 1 : bits); }")],
        ),
        each(
            "formats.cuh",
            ROWS,
            "get_rows: f16",
            vec![raw("return f16_to_f32(bits); }", "return f16_to_f32(MUTANT ? bits ^ 1 : bits); }")],
        ),
        each(
            "trits.cuh",
            ROWS,
            "get_rows: ptq1_0",
            vec![raw("both.skip(p < 2 ? 1u : 9u);", "both.skip(p < 2 || MUTANT ? 1u : 9u);")],
        ),
        each(
            "trits.cuh",
            ROWS,
            "get_rows: tq1_0",
            vec![raw("rest.skip(p < 2 ? 1u", "rest.skip(p < 2 || MUTANT ? 1u")],
        ),
        each("get_rows.cu", ROWS, "get_rows: ", vec![edit("F::at(piece, group)", "F::at(piece, group ^ 1)")]),
    ]
    .concat()
}
