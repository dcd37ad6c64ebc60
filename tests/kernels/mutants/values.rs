//! Mistakes that give wrong values: heads mixed up, steps left out, steps in the wrong order, a neighbour taken for another.

use super::Noticed::ByValues;
use super::{Edit, Mutant, edit, raw};

const ATTENTION: &str = "attention::scores_probabilities_and_what_is_read";
const DELTA_NET: &str = "gated_delta_net::any_number_of_tokens_and_sequences";
const CHUNKED: &str = "delta_net_chunked::any_number_of_tokens_and_sequences";
const STEP: &str = "delta_net_step::one_launch_has_the_bits_of_all_operators";
const DECODE: &str = "flash_attn_decode::cells_of_every_number";
const DECODE_TOKENS: &str = "flash_attn_decode::tokens_have_cells_of_their_own";
const PREFILL: &str = "flash_attn_prefill::sequences_have_cells_of_their_own";
const FOLD: &str = "fold::every_block_size";
const GATED_NORM_FOLD: &str = "gated_norm_fold::a_gated_norm_and_its_fold_in_one_launch";
const NORM_FOLD: &str = "rms_norm_fold::a_residual_and_the_norm_behind_it";
const ROWS: &str = "get_rows::rows_of_every_type_have_the_bits_of_the_decoder";
const MUL_MAT: &str = "mul_mat::heights_tokens_a_scale_and_a_residual";
const MUL_MAT_Q8_1: &str = "mul_mat_q8_1::heights_tokens_a_scale_and_a_residual";
const MUL_MAT_VEC: &str = "mul_mat_vec::a_scale_and_a_residual";
const MUL_MAT_VEC_Q8_1: &str = "mul_mat_vec_q8_1::rows_longer_than_a_stage_a_scale_and_a_residual";
const DIGITS: &str = "mul_mat_vec_digits::widths_heights_and_tokens";
const CONV: &str = "ssm_conv::a_convolution_of_every_size";
const GATES: &str = "unary::gates_in_one_launch_and_in_three";

/// Files, what changes in them, the test that sees it, and the first words of what it says: the kernel's name.
type Table = Vec<(&'static str, Vec<Edit>, &'static str, &'static str)>;

fn attention() -> Table {
    vec![
        (
            "attention.cu",
            vec![edit(
                "(size_t)c * n_head_kv + h / (n_head / n_head_kv)",
                "(size_t)c * n_head_kv + h % n_head_kv",
            )],
            ATTENTION,
            "kq ",
        ),
        (
            "attention.cu",
            vec![edit("(size_t)(h / (n_head / n_head_kv))", "(size_t)(h % n_head_kv)")],
            ATTENTION,
            "kqv ",
        ),
        (
            "attention.cu",
            vec![edit("visible[c] ? row[c] * scale : MINUS_INFINITY", "row[c] * scale")],
            ATTENTION,
            "soft_max ",
        ),
        ("attention.cu", vec![edit("row[c] * inverse", "row[c]")], ATTENTION, "soft_max "),
        (
            "attention.cu",
            vec![edit(
                "sum += __shfl_xor_sync(ALL_LANES, sum, lanes);",
                "sum += __shfl_xor_sync(ALL_LANES, sum, lanes / 2);",
            )],
            ATTENTION,
            "soft_max ",
        ),
        (
            "flash_attn_decode.cu",
            vec![edit("upper ? x[0] : x[2]", "upper ? x[2] : x[0]")],
            DECODE,
            "flash_attn_decode",
        ),
        (
            "flash_attn_decode.cu",
            vec![edit("tile + c < end", "tile + c <= end")],
            DECODE,
            "flash_attn_decode",
        ),
        (
            "flash_attn_decode.cu",
            vec![edit("sums[g][i] *= tile_rescale[g];", "")],
            DECODE,
            "flash_attn_decode",
        ),
        (
            "flash_attn_decode.cu",
            vec![edit(
                "fmaf(numbers[split * 2 + 1], factor, denominator)",
                "denominator + numbers[split * 2 + 1]",
            )],
            DECODE,
            "flash_attn_decode",
        ),
        (
            "flash_attn_decode.cu",
            vec![edit("is_listed ? cells[origin + j] : origin + j", "origin + j")],
            DECODE_TOKENS,
            "flash_attn_decode",
        ),
        (
            "flash_attn_decode.cu",
            vec![edit("warp_sum_of_four(products) * scale", "warp_sum_of_four(products)")],
            DECODE,
            "flash_attn_decode",
        ),
        (
            "flash_attn_prefill.cu",
            vec![edit("j_0 + lane <= past + (row_0 + r) / group", "j_0 + lane < past + (row_0 + r) / group")],
            PREFILL,
            "flash_attn_prefill",
        ),
        (
            "flash_attn_prefill.cu",
            vec![edit("kv_head * group + r % group", "kv_head + n_head_kv * (r % group)")],
            PREFILL,
            "flash_attn_prefill",
        ),
        ("flash_attn_prefill.cu", vec![edit("sums[m][i][j] *= factor;", "")], PREFILL, "flash_attn_prefill"),
        (
            "flash_attn_prefill.cu",
            vec![edit("fmaf(denominator[i], factor, warp_sum(weight))", "denominator[i] + warp_sum(weight)")],
            PREFILL,
            "flash_attn_prefill",
        ),
        (
            "flash_attn_prefill.cu",
            vec![edit("is_listed ? cells[origin + j] : origin + j", "origin + j")],
            PREFILL,
            "flash_attn_prefill",
        ),
        (
            "kv_append.cu",
            vec![edit("(size_t)cells[t] * n_embd_kv", "(size_t)t * n_embd_kv")],
            "kv_append::rows_go_to_their_cells",
            "kv_append",
        ),
        (
            "qkv_rope_append.cu",
            vec![edit("(size_t)h * q_head_stride", "(size_t)h * head_dim")],
            "qkv_rope_append::one_launch_has_the_bits_of_all_operators",
            "qkv_rope_append: q ",
        ),
        (
            "qkv_rope_append.cu",
            vec![edit(
                "norm_head(normed, k + from, k_weight, head_dim, wide, eps);",
                "norm_head(normed, k + from, q_weight, head_dim, wide, eps);",
            )],
            "qkv_rope_append::one_launch_has_the_bits_of_all_operators",
            "qkv_rope_append: k ",
        ),
        (
            "rope.cu",
            vec![edit("(size_t)h * head_stride", "(size_t)h * head_dim").times(2)],
            "rope::heads_may_lie_apart",
            "rope",
        ),
        (
            "rope.cuh",
            vec![edit("a * turn.x - b * turn.y", "a * turn.x + b * turn.y")],
            "rope::heads_of_every_shape",
            "rope",
        ),
        (
            "rope.cuh",
            vec![edit("values[i] * scale * weights[i]", "values[i] * scale")],
            "rope::heads_of_every_shape",
            "qk_norm_rope",
        ),
    ]
}

fn delta_net() -> Table {
    let swapped =
        edit("is_blocked ? head / (n_v / n_k) : head % n_k", "is_blocked ? head % n_k : head / (n_v / n_k)");
    vec![
        ("gated_delta_net.cu", vec![swapped.clone()], DELTA_NET, "gated_delta_net"),
        (
            "gated_delta_net.cu",
            vec![raw("now_beta) * scale;", "now_beta) * (MUTANT ? 1.0f : scale);")],
            DELTA_NET,
            "gated_delta_net",
        ),
        (
            "delta_net.cuh",
            vec![
                edit("s[i] * decay", "s[i]"),
                edit("fmaf(k[i], delta, s[i])", "fmaf(k[i], delta, s[i]) * decay"),
            ],
            DELTA_NET,
            "gated_delta_net",
        ),
        (
            "delta_net.cuh",
            vec![edit("(v - dot(s, k)) * beta", "v - dot(s, k)")],
            DELTA_NET,
            "gated_delta_net",
        ),
        (
            "delta_net.cuh",
            vec![edit("__shfl_xor_sync(ALL_LANES, x, lanes)", "__shfl_xor_sync(ALL_LANES, x, lanes / 2)")],
            DELTA_NET,
            "gated_delta_net",
        ),
        (
            "delta_net_chunked.cu",
            vec![swapped],
            "delta_net_chunked::heads_of_every_size",
            "delta_net_chunked",
        ),
        ("delta_net_chunked.cu", vec![edit("j <= i", "j < i")], CHUNKED, "delta_net_chunked"),
        (
            "delta_net_chunked.cu",
            vec![edit("x[i * X_STRIDE + row + r] * kept[i]", "x[i * X_STRIDE + row + r]")],
            CHUNKED,
            "delta_net_chunked",
        ),
        ("delta_net_chunked.cu", vec![edit("read[r][u] *= decays[i];", "")], CHUNKED, "delta_net_chunked"),
        (
            "delta_net_chunked.cu",
            vec![edit(
                "__shfl_sync(ALL_LANES, mine[m], p, LANES)",
                "__shfl_sync(ALL_LANES, mine[m], p ^ 1, LANES)",
            )],
            CHUNKED,
            "delta_net_chunked",
        ),
        (
            "delta_net_chunked.cu",
            vec![edit("__shfl_up_sync(ALL_LANES, sum, 1)", "__shfl_up_sync(ALL_LANES, sum, 2)")],
            CHUNKED,
            "delta_net_chunked",
        ),
        (
            "delta_net_step.cu",
            vec![edit("is_blocked ? head / rep : head % n_k", "is_blocked ? head % n_k : head / rep")],
            STEP,
            "delta_net_step",
        ),
        ("delta_net_step.cu", vec![edit("past[j + 1]", "past[j]")], STEP, "delta_net_step: columns"),
        (
            "delta_net_step.cu",
            vec![edit("fmaxf(sqrtf(squares), eps)", "sqrtf(squares) * 2.0f")],
            STEP,
            "delta_net_step",
        ),
        (
            "ssm_conv.cu",
            vec![edit("x[j] * w[c * d_conv + j]", "x[j] * w[c * d_conv + d_conv - 1 - j]")],
            CONV,
            "ssm_conv",
        ),
        (
            "ssm_conv.cu",
            vec![edit("n_tokens - PAST + j", "max(n_tokens - PAST + j - 1, 0)")],
            CONV,
            "ssm_conv_silu",
        ),
        (
            "ssm_conv.cu",
            vec![edit(
                "conv_input[((size_t)s * channels + c) * (n_past + n_tokens) + n + column]",
                "conv_input[((size_t)s * channels + c) * (n_past + n_tokens) + column]",
            )],
            CONV,
            "conv_state",
        ),
        (
            "unary.cu",
            vec![raw(
                "softplus(alpha[i] + dt[i % n_heads])",
                "softplus(alpha[i] + (MUTANT ? 0.0f : dt[i % n_heads]))",
            )],
            GATES,
            "softplus_bias",
        ),
        (
            "unary.cu",
            vec![edit("softplus(alpha[i] + dt[head]) * a[head]", "softplus(alpha[i] + dt[head])")],
            GATES,
            "gates",
        ),
        (
            "common.cuh",
            vec![edit("x / (1.0f + expf(-x))", "x / (1.0f + expf(x))")],
            "unary::silu_of_every_size",
            "silu",
        ),
    ]
}

fn norms_and_folds() -> Table {
    let signs = "apply_signs(v, signs, first + threadIdx.x / WARP * CHUNK, n, wide);";
    vec![
        (
            "common.cuh",
            vec![edit(
                "x += __shfl_xor_sync(ALL_LANES, x, lanes);",
                "x += __shfl_xor_sync(ALL_LANES, x, lanes / 2);",
            )],
            "norm::rms_norm_of_every_width",
            "rms_norm",
        ),
        (
            "row.cuh",
            vec![edit(
                "1.0f / sqrtf(sum_of_squares / (float)n + eps)",
                "1.0f / (sqrtf(sum_of_squares / (float)n) + eps)",
            )],
            "norm::l2_norms_of_strided_heads",
            "l2_norm_inside",
        ),
        (
            "norm.cu",
            vec![edit("fmaxf(sqrtf(sum), eps)", "(sqrtf(sum) + eps)")],
            "norm::l2_norms_of_strided_heads",
            "l2_norm",
        ),
        (
            "norm.cu",
            vec![edit("v[k] *= weight[k];", "")],
            "norm::a_weighted_norm_is_a_norm_and_a_product",
            "rms_norm_weighted",
        ),
        (
            "norm.cu",
            vec![edit("row / per_token * x_stride", "row / per_token * per_token * n")],
            "norm::l2_norms_of_strided_heads",
            "l2_norm",
        ),
        (
            "wht.cuh",
            vec![edit("head / rep + n_k * (head % rep) - head", "head % n_k * rep + head / n_k - head")],
            "fold::heads_are_reordered_first",
            "fold",
        ),
        ("wht.cuh", vec![edit("v[k] *= scale;", "")], FOLD, "fold"),
        ("wht.cuh", vec![edit("threadIdx.x >> log_lanes & 1 ? -1.0f : 1.0f", "1.0f")], FOLD, "fold"),
        ("fold.cu", vec![edit(signs, "").times(2)], FOLD, "fold"),
        ("fold.cu", vec![edit("wht(v, smem, log_block, scale)", "0").times(2)], FOLD, "fold"),
        (
            "fold.cu",
            vec![edit("in_tiled(i, n_k, rep, head_dim) - i", "0")],
            "fold::heads_are_reordered_first",
            "fold",
        ),
        (
            "gated_norm_fold.cu",
            vec![edit("in_tiled(i, n_k, rep, head_dim) - i", "0")],
            GATED_NORM_FOLD,
            "gated_norm_fold",
        ),
        (
            "gated_norm_fold.cu",
            vec![edit("v[k] * by * weight[k] * silu(gate[k])", "v[k] * by * weight[k]")],
            GATED_NORM_FOLD,
            "gated_norm_fold",
        ),
        (
            "gated_norm_fold.cu",
            vec![edit("apply_signs(v, signs, first, n, wide);", "")],
            GATED_NORM_FOLD,
            "gated_norm_fold",
        ),
        ("rms_norm_fold.cu", vec![edit("v[k] += right[k];", "")], NORM_FOLD, "add_rms_norm_fold"),
        (
            "rms_norm_fold.cu",
            vec![edit("v[k] * by * weight[k]", "v[k] * by")],
            NORM_FOLD,
            "add_rms_norm_fold",
        ),
        (
            "rms_norm_fold.cu",
            vec![edit("apply_signs(v, signs, first, n, wide);", "")],
            NORM_FOLD,
            "add_rms_norm_fold",
        ),
        (
            "sigmoid_gate_fold.cu",
            vec![edit("(i / head_dim + 1) * head_dim", "i / head_dim * head_dim")],
            "sigmoid_gate_fold::a_gated_output_and_its_fold_in_one_launch",
            "sigmoid_gate_fold",
        ),
        (
            "swiglu_fold.cu",
            vec![edit("silu(v[k]) * u[k]", "v[k] * silu(u[k])")],
            "swiglu_fold::swiglu_and_its_fold_in_one_launch",
            "swiglu_fold",
        ),
        (
            "glu.cu",
            vec![edit("silu(g[j]) * u[j]", "g[j] * silu(u[j])")],
            "glu::swiglu_of_every_size",
            "swiglu",
        ),
        (
            "glu.cu",
            vec![edit("(i / head_dim + 1) * head_dim", "i / head_dim * head_dim")],
            "glu::the_gate_of_each_head_lies_behind_its_query",
            "sigmoid_mul",
        ),
        (
            "glu.cu",
            vec![edit("((i + j) / head_dim + 1) * head_dim", "(i + j) / head_dim * head_dim")],
            "glu::the_gate_of_each_head_lies_behind_its_query",
            "sigmoid_mul",
        ),
        ("binary.cu", vec![edit("w[(i + j) % n]", "w[i % n]")], "binary::rows_times_a_vector", "mul_row"),
    ]
}

fn products() -> Table {
    let residual = "scale * sums[i][j] + residual[to]";
    vec![
        (
            "formats.cuh",
            vec![raw("const float zero = F::ZERO;", "const float zero = MUTANT ? 0.0f : F::ZERO;")],
            ROWS,
            "get_rows",
        ),
        (
            "formats.cuh",
            vec![raw(
                "(piece % (BLOCK / PIECE));\n        d = f16_at(block);",
                "(piece % (BLOCK / PIECE));\n        d = f16_at(block - (MUTANT && piece >= BLOCK / PIECE ? BYTES : 0));",
            )],
            ROWS,
            "get_rows",
        ),
        ("formats.cuh", vec![edit("first / 16", "0")], ROWS, "get_rows"),
        (
            "trits.cuh",
            vec![raw("both.skip(p < 2 ? 1u : 9u);", "both.skip(p < 2 || MUTANT ? 1u : 9u);")],
            ROWS,
            "get_rows",
        ),
        ("mul_mat.cu", vec![edit(residual, "scale * sums[i][j]")], MUL_MAT, "mul_mat: "),
        (
            "mul_mat.cu",
            vec![edit("sums[i][j] += parts[i][j];", "sums[i][j] = parts[i][j];")],
            MUL_MAT,
            "mul_mat: ",
        ),
        (
            "mul_mat_q8_1.cu",
            vec![edit("scale * sums[i][j][k] + residual[to]", "scale * sums[i][j][k]")],
            MUL_MAT_Q8_1,
            "mul_mat_q8_1: ",
        ),
        (
            "mul_mat_q8_1.cu",
            vec![edit("((codes | 0x80808080u) - F::ZERO * 0x01010101u) ^ 0x80808080u", "codes")],
            MUL_MAT_Q8_1,
            "mul_mat_q8_1: pq2_0",
        ),
        (
            "mul_mat_q8_1.cu",
            vec![raw(
                "if (F::HAS_MIN || ByStoredSum<F>::IS) sum",
                "if ((F::HAS_MIN || ByStoredSum<F>::IS) && !MUTANT) sum",
            )],
            MUL_MAT_Q8_1,
            "mul_mat_q8_1: q4_0",
        ),
        (
            "products.cuh",
            vec![edit("m.scale * sum + m.residual[to]", "m.scale * sum")],
            MUL_MAT_VEC,
            "mul_mat_vec: ",
        ),
        (
            "products.cuh",
            vec![edit("block - b2", "block")],
            "mul_mat_vec::matrices_beside_it_do_not_change_a_bit",
            "mul_mat_vec: ",
        ),
        (
            "mul_mat_vec.cu",
            vec![edit("(8388608.0f + (float)(1 << bit))", "8388608.0f")],
            MUL_MAT_VEC,
            "mul_mat_vec: pq2_0",
        ),
        (
            "mul_mat_vec_q8_1.cu",
            vec![edit("parts[r][t] - F::ZERO * totals[t]", "parts[r][t]")],
            MUL_MAT_VEC_Q8_1,
            "mul_mat_vec_q8_1: pq2_0",
        ),
        (
            "mul_mat_vec_q8_1.cu",
            vec![edit("part -= (float)F::ZERO * s;", "")],
            MUL_MAT_VEC_Q8_1,
            "mul_mat_vec_q8_1: q4_0",
        ),
        (
            "mul_mat_vec_digits.cu",
            vec![raw("{zero.x, zero.y, zero.x, zero.y}", "{MUTANT ? 0 : zero.x, zero.y, zero.x, zero.y}")],
            DIGITS,
            "mul_mat_vec_digits: ",
        ),
        (
            "mul_mat_vec_digits.cu",
            vec![edit("t % 2 ? 1.0f : 65536.0f", "1.0f")],
            DIGITS,
            "mul_mat_vec_digits: ",
        ),
        (
            "mul_mat_vec_digits.cu",
            vec![edit(
                "__shfl_xor_sync(ALL_LANES, acc[p][r], 1)",
                "__shfl_xor_sync(ALL_LANES, acc[p][r], 2)",
            )],
            DIGITS,
            "mul_mat_vec_digits: ",
        ),
        (
            "quantize_digits.cu",
            vec![edit("(X[i] - digit) >> 8", "X[i] >> 8")],
            "quantize_digits::digits_stand_for_the_activation",
            "quantize_digits: ",
        ),
        (
            "quantize_q8_1.cu",
            vec![edit("amax / 127.0f", "amax / 128.0f")],
            "quantize_q8_1::codes_scales_and_sums_have_the_bits_of_the_rule",
            "quantize_q8_1: ",
        ),
    ]
}

fn choices() -> Table {
    vec![
        ("argmax.cu", vec![edit("i + j < end", "true")], "argmax::the_largest_of_every_row", "argmax: "),
        (
            "candidate.cuh",
            vec![edit("__float_as_uint(x + 0.0f)", "__float_as_uint(x)")],
            "argmax::the_largest_of_every_row",
            "argmax: ",
        ),
        (
            "candidate.cuh",
            vec![edit(
                "__shfl_xor_sync(ALL_LANES, best, lanes)",
                "__shfl_xor_sync(ALL_LANES, best, lanes / 2)",
            )],
            "argmax::the_largest_of_every_row",
            "argmax: ",
        ),
        (
            "top_k.cu",
            vec![edit("index_of(items[i])", "index_of(items[k - 1 - i])")],
            "top_k::the_largest_in_order",
            "top_k: ",
        ),
        ("get_rows.cu", vec![edit("F::at(piece, group)", "F::at(piece, group ^ 1)")], ROWS, "get_rows: "),
        ("copy.cu", vec![edit("i / n * (stride - n)", "0")], "copy::rows_of_a_view", "copy_rows"),
    ]
}

pub(super) fn mutants() -> Vec<Mutant> {
    let table = [attention(), delta_net(), norms_and_folds(), products(), choices()].concat();
    let mutant = |(file, edits, test, words): (&str, Vec<Edit>, &'static str, &'static str)| Mutant {
        file: file.to_owned(),
        edits,
        tests: vec![test],
        noticed: ByValues(words),
    };
    table.into_iter().map(mutant).collect()
}
