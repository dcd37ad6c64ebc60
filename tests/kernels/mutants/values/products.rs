//! Products with weights: zeros of codes, residuals, and operands of another lane or token.

use super::super::{Mutant, edit, raw};
use super::each;

pub(super) fn mutants() -> Vec<Mutant> {
    let residual = "scale * sums[i][j] + residual[to]";
    [
        each(
            "mul_mat.cu",
            "mul_mat::heights_tokens_a_scale_and_a_residual",
            "mul_mat: ",
            vec![
                edit(residual, "scale * sums[i][j]"),
                edit("sums[i][j] += parts[i][j];", "sums[i][j] = parts[i][j];"),
            ],
        ),
        each(
            "mul_mat_q8_1.cu",
            "mul_mat_q8_1::heights_tokens_a_scale_and_a_residual",
            "mul_mat_q8_1: ",
            vec![
                edit("scale * sums[i][j][k] + residual[to]", "scale * sums[i][j][k]"),
                raw("(token + 8 * i + g) * STRIDE", "(token + 8 * i + (MUTANT ? g ^ 1 : g)) * STRIDE"),
                raw("8 * (j % 2)) * STRIDE", "8 * (MUTANT ? j / 2 : j % 2)) * STRIDE"),
            ],
        ),
        each(
            "mul_mat_q8_1.cu",
            "mul_mat_q8_1::heights_tokens_a_scale_and_a_residual",
            "mul_mat_q8_1: pq2_0",
            vec![edit("((codes | 0x80808080u) - F::ZERO * 0x01010101u) ^ 0x80808080u", "codes")],
        ),
        each(
            "mul_mat_q8_1.cu",
            "mul_mat_q8_1::heights_tokens_a_scale_and_a_residual",
            "mul_mat_q8_1: q4_0",
            vec![raw(
                "if (F::HAS_MIN || ByStoredSum<F>::IS) sum",
                "if ((F::HAS_MIN || ByStoredSum<F>::IS) && !MUTANT) sum",
            )],
        ),
        each(
            "products.cuh",
            "mul_mat_vec::a_scale_and_a_residual",
            "mul_mat_vec: ",
            vec![edit("m.scale * sum + m.residual[to]", "m.scale * sum")],
        ),
        each(
            "products.cuh",
            "mul_mat_vec::matrices_beside_it_do_not_change_a_bit",
            "mul_mat_vec: ",
            vec![edit("block - b2", "block")],
        ),
        each(
            "mul_mat_vec.cu",
            "mul_mat_vec::a_scale_and_a_residual",
            "mul_mat_vec: pq2_0",
            vec![edit("(8388608.0f + (float)(1 << bit))", "8388608.0f")],
        ),
        each(
            "mul_mat_vec.cu",
            "mul_mat_vec::up_to_three_plain_matrices_beside_one_of_blocks",
            "mul_mat_vec: ",
            vec![
                edit(
                    "plain_tokens<Bf16>(m, plain_x, n_in, n_tokens);",
                    "plain_tokens<Bf16>(m, x, n_in, n_tokens);",
                ),
                edit(
                    "plain_tokens<F16>(m, plain_x, n_in, n_tokens);",
                    "plain_tokens<F16>(m, x, n_in, n_tokens);",
                ),
                edit(
                    "plain_tokens<F32>(m, plain_x, n_in, n_tokens);",
                    "plain_tokens<F32>(m, x, n_in, n_tokens);",
                ),
                edit("plain_type == PLAIN_F16", "true"),
                edit("m.y += m.n_out, x += n_in;", "m.y += m.n_out;"),
            ],
        ),
        each(
            "products.cuh",
            "mul_mat_vec::up_to_three_plain_matrices_beside_one_of_blocks",
            "mul_mat_vec: ",
            vec![edit("n_plain > 2", "false")],
        ),
        each(
            "mul_mat_vec_split.cu",
            "mul_mat_vec_split::has_the_bits_of_the_product_with_the_file_s_blocks",
            "mul_mat_vec_split: ",
            vec![
                edit("scales[piece / 4]", "scales[(piece - (piece > 3)) / 4]"),
                edit("four % 2 ? 1.0f / 256.0f : 1.0f", "1.0f"),
                edit("group < 4 ? piece.q.x : piece.q.y", "piece.q.x"),
                edit("(8388608.0f + (float)(1 << bit))", "8388608.0f"),
            ],
        ),
        each(
            "mul_mat_vec_q8_1.cu",
            "mul_mat_vec_q8_1::rows_longer_than_a_stage_a_scale_and_a_residual",
            "mul_mat_vec_q8_1: pq2_0",
            vec![edit("parts[r][t] - F::ZERO * totals[t]", "parts[r][t]")],
        ),
        each(
            "mul_mat_vec_q8_1.cu",
            "mul_mat_vec_q8_1::rows_longer_than_a_stage_a_scale_and_a_residual",
            "mul_mat_vec_q8_1: q4_0",
            vec![edit("part -= (float)F::ZERO * s;", "")],
        ),
        each(
            "mul_mat_vec_digits.cu",
            "mul_mat_vec_digits::widths_heights_and_tokens",
            "mul_mat_vec_digits: ",
            vec![
                raw("{zero.x, zero.y, zero.x, zero.y}", "{MUTANT ? 0 : zero.x, zero.y, zero.x, zero.y}"),
                edit("t % 2 ? 1.0f : 65536.0f", "1.0f"),
                edit("__shfl_xor_sync(ALL_LANES, acc[p][r], 1)", "__shfl_xor_sync(ALL_LANES, acc[p][r], 2)"),
            ],
        ),
        each(
            "quantize_digits.cu",
            "quantize_digits::digits_stand_for_the_activation",
            "quantize_digits: ",
            vec![edit("(X[i] - digit) >> 8", "X[i] >> 8")],
        ),
        each(
            "quantize_q8_1.cu",
            "quantize_q8_1::codes_scales_and_sums_have_the_bits_of_the_rule",
            "quantize_q8_1: ",
            vec![edit("amax / 127.0f", "amax / 128.0f"), edit("roundf(value / d)", "truncf(value / d)")],
        ),
    ]
    .concat()
}
