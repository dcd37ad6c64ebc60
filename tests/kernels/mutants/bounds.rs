//! Bounds that are off: what the emulator must see as an access outside of a buffer, or as a race.

use super::{Edit, Mutant, Noticed, edit, raw};

const MUL_MAT: &str = "mul_mat::heights_tokens_a_scale_and_a_residual";
const MUL_MAT_Q8_1: &str = "mul_mat_q8_1::heights_tokens_a_scale_and_a_residual";
const MUL_MAT_VEC: &str = "mul_mat_vec::a_scale_and_a_residual";
const MUL_MAT_VEC_Q8_1: &str = "mul_mat_vec_q8_1::rows_longer_than_a_stage_a_scale_and_a_residual";
const COMBINE: &str = "attn_combine_fold::splits_combined_gated_and_folded_in_one_launch";
const SPLIT: &str = "mul_mat_vec_split::has_the_bits_of_the_product_with_the_file_s_blocks";
const UNFOLD: &str = "get_rows_unfold::rows_and_the_inverse_of_their_fold_in_one_launch";
const DIGITS: &str = "mul_mat_vec_digits::widths_heights_and_tokens";
const NORM: &str = "norm::rms_norm_of_every_width";

/// A condition that is met always.
fn always(condition: &str) -> Edit {
    edit(condition, "true")
}

/// An index that is not limited.
fn free(limited: &str, index: &str) -> Edit {
    edit(limited, index)
}

pub(super) fn mutants() -> Vec<Mutant> {
    let table: Vec<(&str, Edit, &'static str)> = vec![
        ("argmax.cu", always("threadIdx.x < blockDim.x / WARP"), "argmax::the_largest_of_every_row"),
        ("common.cuh", always("lane < n_warps"), NORM),
        ("copy.cu", always("id >= 0 && id < x_rows").times(2), "copy::a_row_that_is_not_there_is_no_number"),
        (
            "copy.cu",
            edit(
                "i + j < total ? x[(i + j) / n * stride + (i + j) % n] : 0.0f",
                "x[(i + j) / n * stride + (i + j) % n]",
            ),
            "copy::rows_of_a_view",
        ),
        (
            "delta_net_chunked.cu",
            always("token + r < n && side + SIDE * u < R"),
            "delta_net_chunked::any_number_of_tokens_and_sequences",
        ),
        (
            "delta_net_chunked.cu",
            always("i < n && j < R"),
            "delta_net_chunked::any_number_of_tokens_and_sequences",
        ),
        (
            "delta_net_chunked.cu",
            free("min(token + r, n - 1)", "token + r"),
            "delta_net_chunked::any_number_of_tokens_and_sequences",
        ),
        (
            "flash_attn_decode.cu",
            free("min(tile + c + u, end - 1)", "tile + c + u"),
            "flash_attn_decode::tokens_have_cells_of_their_own",
        ),
        (
            "flash_attn_decode.cu",
            free("min(TILE, end - tile)", "TILE"),
            "flash_attn_decode::tokens_have_cells_of_their_own",
        ),
        ("flash_attn_prefill.cu", always("j < end"), "flash_attn_prefill::sequences_have_cells_of_their_own"),
        ("flash_attn_prefill.cu", always("row_0 + r < n_rows"), "flash_attn_prefill::tokens_of_every_number"),
        ("four.cuh", raw("float4 four = i < n ?", "float4 four = i < n || MUTANT ?"), NORM),
        ("four.cuh", raw("v[j] = i + j < n ?", "v[j] = i + j < n || MUTANT ?"), NORM),
        ("gated_delta_net.cu", always("t + 1 < n_tokens"), "gated_delta_net::heads_of_every_size"),
        (
            "get_rows.cu",
            raw("tokens[blockIdx.x] * row_bytes", "(tokens[blockIdx.x] + (MUTANT ? 1 : 0)) * row_bytes"),
            "get_rows::rows_of_every_type_have_the_bits_of_the_decoder",
        ),
        ("mul_mat.cu", free("min(first_row + row, n_out - 1)", "first_row + row"), MUL_MAT),
        ("mul_mat.cu", free("min(first_row + i / DEPTH, n_out - 1)", "first_row + i / DEPTH"), MUL_MAT),
        ("mul_mat.cu", always("from + k < n_in"), MUL_MAT),
        ("mul_mat.cu", edit("k < n_in && t < n_tokens", "k < n_in"), MUL_MAT),
        ("mul_mat_q8_1.cu", free("min(first_row + row, n_out - 1)", "first_row + row"), MUL_MAT_Q8_1),
        (
            "mul_mat_q8_1.cu",
            raw("t < n_tokens ? scales[cell]", "t < n_tokens || MUTANT ? scales[cell]"),
            MUL_MAT_Q8_1,
        ),
        ("mul_mat_vec.cu", always("lane < n_pieces"), MUL_MAT_VEC),
        ("mul_mat_vec.cu", always("piece + WARP < n_pieces"), MUL_MAT_VEC),
        ("mul_mat_vec.cu", free("min(first + r, m.n_out - 1)", "first + r"), MUL_MAT_VEC),
        (
            "mul_mat_vec.cu",
            edit("lane == 0 && first + r < m.n_out && t < n_tokens", "lane == 0 && t < n_tokens"),
            MUL_MAT_VEC,
        ),
        ("mul_mat_vec_digits.cu", free("min(row, last_row)", "row"), DIGITS),
        ("mul_mat_vec_digits.cu", free("min(lane, last_row)", "lane"), DIGITS),
        ("mul_mat_vec_digits.cu", raw("cp_async_wait<1>();", "if (!MUTANT) cp_async_wait<1>();"), DIGITS),
        ("mul_mat_vec_digits.cu", raw("cp_async_wait<0>();", "if (!MUTANT) cp_async_wait<0>();"), DIGITS),
        (
            "mul_mat_vec_q8_1.cu",
            always("lane < n_pieces"),
            "mul_mat_vec_q8_1::matrices_beside_it_do_not_change_a_bit",
        ),
        ("mul_mat_vec_q8_1.cu", always("piece + WARP < n_pieces"), MUL_MAT_VEC_Q8_1),
        ("mul_mat_vec_q8_1.cu", free("min(first + r, m.n_out - 1)", "first + r"), MUL_MAT_VEC_Q8_1),
        (
            "mul_mat_vec_q8_1.cu",
            edit("lane == 0 && first + r < m.n_out && t < n_tokens", "lane == 0 && t < n_tokens"),
            MUL_MAT_VEC_Q8_1,
        ),
        (
            "quantize_digits.cu",
            always("token < n_tokens"),
            "quantize_digits::digits_stand_for_the_activation",
        ),
        (
            "ssm_conv.cu",
            free("min(first + TOKENS, n_tokens)", "first + TOKENS"),
            "ssm_conv::a_convolution_of_every_size",
        ),
        ("top_k.cu", free("min(count - begin, GROUP)", "GROUP"), "top_k::the_largest_in_order"),
        (
            "top_k.cu",
            raw("= i < n ? items[i] : 0", "= i < n || MUTANT ? items[i] : 0"),
            "top_k::the_largest_in_order",
        ),
        (
            "delta_net_chunked.cu",
            raw("if (solved < R)", "if (solved < R || MUTANT)"),
            "delta_net_chunked::any_number_of_tokens_and_sequences",
        ),
        (
            "delta_net_chunked.cu",
            raw("if (row < R)", "if (row < R || MUTANT)"),
            "delta_net_chunked::any_number_of_tokens_and_sequences",
        ),
        (
            "delta_net_chunked.cu",
            raw("if (j < R)", "if (j < R || MUTANT)"),
            "delta_net_chunked::any_number_of_tokens_and_sequences",
        ),
        (
            "delta_net_step.cu",
            always("is_first && blockIdx.x == 0"),
            "delta_net_step::one_launch_has_the_bits_of_all_operators",
        ),
        (
            "flash_attn_decode.cu",
            edit("warp < group && lane == 0", "lane == 0"),
            "flash_attn_decode::heads_and_types_of_every_kind",
        ),
        ("flash_attn_decode.cu", always("lane % 8 == 0"), "flash_attn_decode::cells_of_every_number"),
        ("mul_mat_vec_digits.cu", always("t % 2 == 0"), DIGITS),
        ("mul_mat_vec_q8_1.cu", always("four % 8 == 0"), MUL_MAT_VEC_Q8_1),
        (
            "quantize_q8_1.cu",
            always("i % 32 == 0"),
            "quantize_q8_1::codes_scales_and_sums_have_the_bits_of_the_rule",
        ),
        ("ssm_conv.cu", always("first == 0"), "ssm_conv::a_convolution_of_every_size"),
        ("wht.cuh", edit("i + j < n && signs[i + j] < 0", "signs[i + j] < 0"), "fold::every_block_size"),
        ("wht.cuh", edit("i < n && signs[i] < 0", "signs[i] < 0"), "fold::every_block_size"),
        ("attn_combine_fold.cu", always("own < used"), COMBINE),
        ("attn_combine_fold.cu", raw("split + u < n ?", "split + u < n || MUTANT ?"), COMBINE),
        ("attn_combine_fold.cu", free("min(first + at, n - 4)", "first + at"), COMBINE),
        ("attn_combine_fold.cu", edit("splits_with_cells(n_kv[t], n_splits)", "n_splits"), COMBINE),
        ("attn_combine_fold.cu", raw("if (y) store4", "if (y || MUTANT) store4"), COMBINE),
        (
            "flash_attn_decode.cu",
            edit("splits_with_cells(n_kv[t], n_splits)", "n_splits"),
            "flash_attn_decode::cells_of_every_number",
        ),
        ("get_rows_unfold.cu", raw("CHUNK, end - first", "CHUNK, MUTANT ? part : end - first"), UNFOLD),
        ("get_rows_unfold.cu", edit("piece < end / PIECE", "piece < (first + part) / PIECE"), UNFOLD),
        (
            "matrices.cu",
            always("i / columns % rows < x_rows"),
            "matrices::matrices_in_any_order_with_rows_of_zeros",
        ),
        (
            "matrices.cu",
            edit("row % rows * i + i_packed % columns * j", "row % rows * j + i_packed % columns * i"),
            "matrices::a_transposed_operand",
        ),
        ("mul_mat_vec_split.cu", always("lane < n_pieces"), SPLIT),
        ("mul_mat_vec_split.cu", always("piece + WARP < n_pieces"), SPLIT),
        ("mul_mat_vec_split.cu", free("min(first + r, n_out - 1)", "first + r"), SPLIT),
        ("mul_mat_vec_split.cu", edit("lane == 0 && first + r < n_out", "lane == 0"), SPLIT),
        ("products.cu", always("row + i < rows && first + c < size"), "products::rows_meet_rows"),
        ("products.cu", always("at < rows && column + j < columns"), "products::rows_meet_rows"),
        ("products.cu", edit("stride_c == 1 ? e % TILE : e / TILE", "e % TILE"), "products::rows_meet_rows"),
        (
            "products.cuh",
            edit("n_plain > 1", "n_plain > 0"),
            "mul_mat_vec::up_to_three_plain_matrices_beside_one_of_blocks",
        ),
        (
            "splits.cuh",
            edit("(cells + TILE - 1) / TILE", "cells / TILE"),
            "flash_attn_decode::cells_of_every_number",
        ),
        ("solve_tri.cu", edit("solved[i * blockDim.x]", "solved[i]"), "solve_tri::systems_of_every_size"),
    ];
    let mutant = |(file, edit, test): (&str, Edit, &'static str)| Mutant {
        file: file.to_owned(),
        edits: vec![edit],
        tests: vec![test],
        noticed: Noticed::ByEmulator,
    };
    table.into_iter().map(mutant).collect()
}
