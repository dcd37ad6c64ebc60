//! Norms, gates and folds: weights, signs, scales and orders of heads left out or turned round.

use super::super::{Mutant, edit, raw};
use super::each;

pub(super) fn mutants() -> Vec<Mutant> {
    let signs = "apply_signs(v, signs, first + threadIdx.x / WARP * CHUNK, n, wide);";
    [
        each(
            "unary.cu",
            "unary::gates_in_one_launch_and_in_three",
            "softplus_bias",
            vec![raw(
                "softplus(alpha[i] + dt[i % n_heads])",
                "softplus(alpha[i] + (MUTANT ? 0.0f : dt[i % n_heads]))",
            )],
        ),
        each(
            "unary.cu",
            "unary::gates_in_one_launch_and_in_three",
            "gates",
            vec![edit("softplus(alpha[i] + dt[head]) * a[head]", "softplus(alpha[i] + dt[head])")],
        ),
        each(
            "unary.cu",
            "unary::exponentials_of_every_size",
            "exp of ",
            vec![edit("expf(x[i])", "expf(-x[i])")],
        ),
        each(
            "common.cuh",
            "unary::silu_of_every_size",
            "silu",
            vec![edit("x / (1.0f + expf(-x))", "x / (1.0f + expf(x))")],
        ),
        each(
            "common.cuh",
            "norm::rms_norm_of_every_width",
            "rms_norm",
            vec![edit(
                "x += __shfl_xor_sync(ALL_LANES, x, lanes);",
                "x += __shfl_xor_sync(ALL_LANES, x, lanes / 2);",
            )],
        ),
        each(
            "row.cuh",
            "norm::l2_norms_of_strided_heads",
            "l2_norm_inside",
            vec![edit(
                "1.0f / sqrtf(sum_of_squares / (float)n + eps)",
                "1.0f / (sqrtf(sum_of_squares / (float)n) + eps)",
            )],
        ),
        each(
            "norm.cu",
            "norm::l2_norms_of_strided_heads",
            "l2_norm",
            vec![
                edit("fmaxf(sqrtf(sum), eps)", "(sqrtf(sum) + eps)"),
                edit("row / per_token * x_stride", "row / per_token * per_token * n"),
            ],
        ),
        each(
            "norm.cu",
            "norm::a_weighted_norm_is_a_norm_and_a_product",
            "rms_norm_weighted",
            vec![edit("v[k] *= weight[k];", "")],
        ),
        each(
            "wht.cuh",
            "fold::heads_are_reordered_first",
            "fold",
            vec![edit("head / rep + n_k * (head % rep) - head", "head % n_k * rep + head / n_k - head")],
        ),
        each(
            "wht.cuh",
            "fold::every_block_size",
            "fold",
            vec![
                edit("v[k] *= scale;", ""),
                raw("v[k], 1 << log_lanes)", "v[k], (MUTANT ? 2 : 1) << log_lanes)"),
                edit("threadIdx.x >> log_lanes & 1 ? -1.0f : 1.0f", "1.0f"),
            ],
        ),
        each(
            "fold.cu",
            "fold::every_block_size",
            "fold",
            vec![edit(signs, ""), edit("wht(v, smem, log_block, scale)", "0").times(2)],
        ),
        each(
            "fold.cu",
            "fold::every_block_size",
            "unfold",
            vec![edit("apply_signs_behind(v, signs, first, n, layout, log_block, wide);", "")],
        ),
        each("wht.cuh", "fold::every_block_size", "unfold", vec![edit("v[k] = -v[k];", "")]),
        each(
            "wht.cuh",
            "fold::every_block_size",
            "fold",
            vec![
                raw("if (log_block > 7)", "if (log_block > 7 && !MUTANT)"),
                edit("log_block - log_stride > 2", "false"),
            ],
        ),
        each(
            "get_rows_unfold.cu",
            "get_rows_unfold::rows_and_the_inverse_of_their_fold_in_one_launch",
            "get_rows_unfold: ",
            vec![
                edit("tokens[blockIdx.x]", "(int)blockIdx.x"),
                edit("apply_signs_behind(v, signs, first, n, layout, log_block, 1);", ""),
                edit("wht(v, smem, log_block, scale)", "0"),
            ],
        ),
        each(
            "fold.cu",
            "fold::heads_are_reordered_first",
            "fold",
            vec![edit("in_tiled(i, n_k, rep, head_dim) - i", "0")],
        ),
        each(
            "gated_norm_fold.cu",
            "gated_norm_fold::a_gated_norm_and_its_fold_in_one_launch",
            "gated_norm_fold",
            vec![
                edit("in_tiled(i, n_k, rep, head_dim) - i", "0"),
                edit("v[k] * by * weight[k] * silu(gate[k])", "v[k] * by * weight[k]"),
                edit("apply_signs(v, signs, first, n, wide);", ""),
            ],
        ),
        each(
            "rms_norm_fold.cu",
            "rms_norm_fold::a_residual_and_the_norm_behind_it",
            "add_rms_norm_fold",
            vec![
                edit("v[k] += right[k];", ""),
                edit("v[k] * by * weight[k]", "v[k] * by"),
                edit("apply_signs(v, signs, first, n, wide);", ""),
            ],
        ),
        each(
            "sigmoid_gate_fold.cu",
            "sigmoid_gate_fold::a_gated_output_and_its_fold_in_one_launch",
            "sigmoid_gate_fold",
            vec![edit("(i / head_dim + 1) * head_dim", "i / head_dim * head_dim")],
        ),
        each(
            "swiglu_fold.cu",
            "swiglu_fold::swiglu_and_its_fold_in_one_launch",
            "swiglu_fold",
            vec![edit("silu(v[k]) * u[k]", "v[k] * silu(u[k])")],
        ),
        each(
            "glu.cu",
            "glu::swiglu_of_every_size",
            "swiglu",
            vec![edit("silu(g[j]) * u[j]", "g[j] * silu(u[j])")],
        ),
        each(
            "glu.cu",
            "glu::the_gate_of_each_head_lies_behind_its_query",
            "sigmoid_mul",
            vec![
                edit("(i / head_dim + 1) * head_dim", "i / head_dim * head_dim"),
                edit("((i + j) / head_dim + 1) * head_dim", "(i + j) / head_dim * head_dim"),
            ],
        ),
    ]
    .concat()
}
