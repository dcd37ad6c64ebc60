//! The delta net: heads and slots mixed up, decays at the wrong place, columns of the convolution shifted.

use super::super::{Mutant, edit, raw};
use super::{each, together};

pub(super) fn mutants() -> Vec<Mutant> {
    let slot = edit("(size_t)slots[s]", "(size_t)s");
    let swapped =
        edit("is_blocked ? head / (n_v / n_k) : head % n_k", "is_blocked ? head % n_k : head / (n_v / n_k)");
    [
        each(
            "gated_delta_net.cu",
            "gated_delta_net::any_number_of_tokens_and_sequences",
            "gated_delta_net",
            vec![
                swapped.clone(),
                slot.clone(),
                raw("now_beta) * scale;", "now_beta) * (MUTANT ? 1.0f : scale);"),
            ],
        ),
        each(
            "delta_net_chunked.cu",
            "delta_net_chunked::any_number_of_tokens_and_sequences",
            "delta_net_chunked",
            vec![
                slot.clone(),
                edit("j <= i", "j < i"),
                edit("x[i * X_STRIDE + row + r] * kept[i]", "x[i * X_STRIDE + row + r]"),
                edit("read[r][u] *= decays[i];", ""),
                edit(
                    "__shfl_sync(ALL_LANES, mine[m], p, LANES)",
                    "__shfl_sync(ALL_LANES, mine[m], p ^ 1, LANES)",
                ),
                edit("__shfl_up_sync(ALL_LANES, sum, 1)", "__shfl_up_sync(ALL_LANES, sum, 2)"),
            ],
        ),
        each(
            "delta_net_step.cu",
            "delta_net_step::one_launch_has_the_bits_of_all_operators",
            "delta_net_step",
            vec![slot.clone(), edit("fmaxf(sqrtf(squares), eps)", "sqrtf(squares) * 2.0f")],
        ),
        each(
            "ssm_conv.cu",
            "ssm_conv::a_convolution_of_every_size",
            "ssm_conv_silu",
            vec![edit("silu(sum)", "sum"), edit("n_tokens - PAST + j", "max(n_tokens - PAST + j - 1, 0)")],
        ),
        each(
            "delta_net.cuh",
            "gated_delta_net::any_number_of_tokens_and_sequences",
            "gated_delta_net",
            vec![
                edit("(v - dot(s, k)) * beta", "v - dot(s, k)"),
                edit("__shfl_xor_sync(ALL_LANES, x, lanes)", "__shfl_xor_sync(ALL_LANES, x, lanes / 2)"),
            ],
        ),
        together(
            "delta_net.cuh",
            "gated_delta_net::any_number_of_tokens_and_sequences",
            "gated_delta_net",
            vec![
                edit("s[i] * decay", "s[i]"),
                edit("fmaf(k[i], delta, s[i])", "fmaf(k[i], delta, s[i]) * decay"),
            ],
        ),
        each(
            "delta_net_chunked.cu",
            "delta_net_chunked::heads_of_every_size",
            "delta_net_chunked",
            vec![swapped.clone()],
        ),
        together(
            "delta_net_step.cu",
            "delta_net_step::one_launch_has_the_bits_of_all_operators",
            "delta_net_step",
            vec![
                edit("is_blocked ? head / rep : head % n_k", "is_blocked ? head % n_k : head / rep"),
                edit(
                    "is_blocked ? head % rep == 0 : head < n_k",
                    "is_blocked ? head < n_k : head % rep == 0",
                ),
            ],
        ),
        each(
            "delta_net_step.cu",
            "delta_net_step::one_launch_has_the_bits_of_all_operators",
            "delta_net_step: columns",
            vec![edit("past[j + 1]", "past[j]")],
        ),
        each(
            "ssm_conv.cu",
            "ssm_conv::a_convolution_of_every_size",
            "ssm_conv",
            vec![edit("x[j] * w[c * d_conv + j]", "x[j] * w[c * d_conv + d_conv - 1 - j]")],
        ),
        each(
            "ssm_conv.cu",
            "ssm_conv::a_convolution_of_every_size",
            "conv_state",
            vec![edit(
                "conv_input[((size_t)s * channels + c) * (n_past + n_tokens) + n + column]",
                "conv_input[((size_t)s * channels + c) * (n_past + n_tokens) + column]",
            )],
        ),
    ]
    .concat()
}
