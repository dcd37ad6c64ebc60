//! Attention: heads, masks, cells and rotations that are mixed up.

use super::super::{Mutant, edit, raw};
use super::each;

pub(super) fn mutants() -> Vec<Mutant> {
    [
        each(
            "common.cuh",
            "attention::values_are_rounded_to_what_a_cell_holds",
            "round to Bf16",
            vec![edit("0x7fffu + (bits >> 16 & 1u)", "0x8000u")],
        ),
        each(
            "flash_attn_decode.cu",
            "flash_attn_decode::tokens_have_cells_of_their_own",
            "flash_attn_decode",
            vec![
                raw("origin = first[t];", "origin = MUTANT ? 0 : first[t];"),
                edit("is_listed ? cells[origin + j] : origin + j", "origin + j"),
            ],
        ),
        each(
            "flash_attn_prefill.cu",
            "flash_attn_prefill::sequences_have_cells_of_their_own",
            "flash_attn_prefill",
            vec![
                raw("origin = first[s];", "origin = MUTANT ? 0 : first[s];"),
                edit("j_0 + lane <= past + (row_0 + r) / group", "j_0 + lane < past + (row_0 + r) / group"),
                edit("kv_head * group + r % group", "kv_head + n_head_kv * (r % group)"),
                edit("sums[m][i][j] *= factor;", ""),
                edit("fmaf(denominator[i], factor, warp_sum(weight))", "denominator[i] + warp_sum(weight)"),
                edit("is_listed ? cells[origin + j] : origin + j", "origin + j"),
            ],
        ),
        each(
            "rope.cu",
            "rope::heads_of_every_shape",
            "rope of ",
            vec![edit("(size_t)positions[t]", "(size_t)t").times(2)],
        ),
        each(
            "attention.cu",
            "attention::scores_probabilities_and_what_is_read",
            "kq ",
            vec![edit(
                "(size_t)c * n_head_kv + h / (n_head / n_head_kv)",
                "(size_t)c * n_head_kv + h % n_head_kv",
            )],
        ),
        each(
            "attention.cu",
            "attention::scores_probabilities_and_what_is_read",
            "kqv ",
            vec![edit("(size_t)(h / (n_head / n_head_kv))", "(size_t)(h % n_head_kv)")],
        ),
        each(
            "attention.cu",
            "attention::scores_probabilities_and_what_is_read",
            "soft_max ",
            vec![
                edit("visible[c] ? row[c] * scale : MINUS_INFINITY", "row[c] * scale"),
                edit("row[c] * inverse", "row[c]"),
                edit(
                    "sum += __shfl_xor_sync(ALL_LANES, sum, lanes);",
                    "sum += __shfl_xor_sync(ALL_LANES, sum, lanes / 2);",
                ),
            ],
        ),
        each(
            "flash_attn_decode.cu",
            "flash_attn_decode::cells_of_every_number",
            "flash_attn_decode",
            vec![
                edit("upper ? x[0] : x[2]", "upper ? x[2] : x[0]"),
                edit("tile + c < end", "tile + c <= end"),
                edit("sums[g][i] *= tile_rescale[g];", ""),
                edit(
                    "fmaf(numbers[split * 2 + 1], factor, denominator)",
                    "denominator + numbers[split * 2 + 1]",
                ),
                edit("warp_sum_of_four(products) * scale", "warp_sum_of_four(products)"),
            ],
        ),
        each(
            "splits.cuh",
            "flash_attn_decode::cells_of_every_number",
            "flash_attn_decode",
            vec![edit("(n_kv + size - 1) / size", "n_kv / size")],
        ),
        each(
            "attn_combine_fold.cu",
            "attn_combine_fold::splits_combined_gated_and_folded_in_one_launch",
            "attn_combine_fold: ",
            vec![
                edit("v[j] *= sigmoid(gate[j]);", ""),
                edit("(head + 1) * head_dim", "head * head_dim"),
                edit("q_full + 2 * row", "q_full"),
                edit("apply_signs(v, signs, first + chunk, end, wide);", ""),
                edit("min(lanes, used - begin)", "min(lanes, max(used - begin - 1, 1))"),
                edit("fmaf(of_split, factor, denominator)", "denominator + of_split"),
                edit(
                    "__shfl_xor_sync(ALL_LANES, largest, by)",
                    "__shfl_xor_sync(ALL_LANES, largest, by / 2)",
                ),
                edit(
                    "__shfl_sync(ALL_LANES, own_factor, first_lane + split + u)",
                    "__shfl_sync(ALL_LANES, own_factor, split + u)",
                ),
            ],
        ),
        each(
            "kv_append.cu",
            "kv_append::rows_go_to_their_cells",
            "kv_append",
            vec![edit("(size_t)cells[t] * n_embd_kv", "(size_t)t * n_embd_kv")],
        ),
        each(
            "qkv_rope_append.cu",
            "qkv_rope_append::one_launch_has_the_bits_of_all_operators",
            "qkv_rope_append: q ",
            vec![edit("(size_t)h * q_head_stride", "(size_t)h * head_dim")],
        ),
        each(
            "qkv_rope_append.cu",
            "qkv_rope_append::one_launch_has_the_bits_of_all_operators",
            "qkv_rope_append: k ",
            vec![edit(
                "norm_head(normed, k + from, k_weight, head_dim, wide, eps);",
                "norm_head(normed, k + from, q_weight, head_dim, wide, eps);",
            )],
        ),
        each(
            "rope.cu",
            "rope::heads_may_lie_apart",
            "rope",
            vec![edit("(size_t)h * head_stride", "(size_t)h * head_dim").times(2)],
        ),
        each(
            "rope.cuh",
            "rope::heads_of_every_shape",
            "rope",
            vec![edit("a * turn.x - b * turn.y", "a * turn.x + b * turn.y")],
        ),
        each(
            "rope.cuh",
            "rope::heads_of_every_shape",
            "qk_norm_rope",
            vec![edit("values[i] * scale * weights[i]", "values[i] * scale")],
        ),
    ]
    .concat()
}
