//! One model for each kernel.

use super::{Cost, Model, Sizes};

const F32: usize = 4;
const I32: usize = 4;
/// A candidate of a search: a value and its index.
const CANDIDATE: usize = 8;
/// Elements that share a scale and a sum in eight bits, and the bytes of both.
const Q8_1: (usize, usize) = (32, 4);
/// A group of elements of two tokens in digits: the digits, minus their sums, the scales.
const DIGITS: (usize, usize) = (128, 1024 + 32 + 8);
/// Tokens of a chunk of the delta net.
const CHUNK: usize = 64;

fn cost(bytes_read: usize, bytes_written: usize, operations: usize) -> Cost {
    Cost { bytes_read, bytes_written, operations }
}

fn once(_: &Sizes) -> usize {
    1
}

fn values(s: &Sizes) -> usize {
    s.rows * s.n
}

/// Each byte is accessed once, with `per` operations for each value of `rows` of `n`.
macro_rules! each {
    ($kernel:literal, reads $reads:literal, writes $writes:literal, ops $ops:literal) => {
        Model {
            kernel: $kernel,
            element: "value",
            elements: values,
            cost: |s| cost($reads * F32 * values(s), $writes * F32 * values(s), $ops * values(s)),
            again: once,
            why: "",
        }
    };
}

macro_rules! model {
    ($kernel:literal, $element:literal = $elements:expr, $cost:expr) => {
        model!($kernel, $element = $elements, $cost, once, "")
    };
    ($kernel:literal, $element:literal = $elements:expr, $cost:expr, $again:expr, $why:expr) => {
        Model {
            kernel: $kernel,
            element: $element,
            elements: $elements,
            cost: $cost,
            again: $again,
            why: $why,
        }
    };
}

const ROWS_SHARE: &str = "rows share a weight or signs";
const HEADS_SHARE: &str = "heads share a weight, a rotation and a position";

fn rows(s: &Sizes) -> usize {
    s.rows
}

fn scores(s: &Sizes) -> usize {
    s.seen() * s.n_head
}

fn weights(s: &Sizes) -> usize {
    s.n * s.n_out
}

fn products(s: &Sizes) -> usize {
    2 * s.n * s.n_out * s.tokens()
}

fn q8_1(s: &Sizes) -> usize {
    let elements = s.n * s.tokens();
    elements + elements / Q8_1.0 * Q8_1.1
}

fn digits(s: &Sizes) -> usize {
    s.tokens().div_ceil(2) * s.n / DIGITS.0 * DIGITS.1
}

fn conv_states(s: &Sizes) -> usize {
    s.n_seqs * s.n * (s.taps - 1)
}

fn fold_operations(s: &Sizes) -> usize {
    values(s) * (s.block.ilog2() as usize + 2)
}

fn recurrence(s: &Sizes, operations: usize) -> Cost {
    let (state, tokens) = (F32 * s.states(), s.tokens());
    let of_tokens = F32 * (2 * s.heads_kv() + s.heads() + 2 * tokens * s.n_head) + I32 * s.n_seqs;
    cost(state + of_tokens, state + F32 * s.heads(), operations)
}

/// The models, in the order of files.
pub const MODELS: &[Model] = &[
    model!("argmax_parts_f32", "value" = values, |s| cost(
        F32 * values(s),
        CANDIDATE * s.rows * s.parts,
        values(s)
    )),
    model!("argmax_f32", "row" = rows, |s| cost(
        CANDIDATE * s.rows * s.parts,
        I32 * s.rows,
        s.rows * s.parts
    )),
    model!(
        "kq_*",
        "score" = |s| s.tokens() * s.n_head * s.n_kv,
        |s| {
            let scores = s.tokens() * s.n_head * s.n_kv;
            cost(
                F32 * s.heads() + s.cell_bytes * s.n_kv * s.n_head_kv * s.head_dim,
                F32 * scores,
                2 * scores * s.head_dim,
            )
        },
        |s| s.n_kv.max(s.tokens() * s.n_head / s.n_head_kv),
        "every score reads its query and its key"
    ),
    model!(
        "soft_max_f32",
        "score" = |s| s.tokens() * s.n_head * s.n_kv,
        |s| {
            let scores = s.tokens() * s.n_head * s.n_kv;
            cost(F32 * scores + s.tokens() * s.n_kv, F32 * scores, 7 * scores)
        },
        |_| 3,
        "three passes over a row, and heads share the mask"
    ),
    model!(
        "kqv_*",
        "value" = Sizes::heads,
        |s| {
            let scores = s.tokens() * s.n_head * s.n_kv;
            let cells = s.cell_bytes * s.n_kv * s.n_head_kv * s.head_dim;
            cost(F32 * scores + cells + s.tokens() * s.n_kv, F32 * s.heads(), 2 * scores * s.head_dim)
        },
        |s| s.head_dim.max(s.tokens() * s.n_head / s.n_head_kv),
        "every element of a head reads all weights, and every query all values"
    ),
    each!("round_*", reads 1, writes 1, ops 1),
    model!(
        "attn_combine_fold_f32",
        "value" = Sizes::heads,
        |s| {
            let n = s.n_head * s.head_dim;
            let scratch = F32 * s.tokens() * s.n_head * s.parts * (s.head_dim + 2);
            let read = scratch + F32 * s.heads() + I32 * s.tokens() + n;
            let operations = s.heads() * (2 * s.parts + 6 + s.block.ilog2() as usize);
            cost(read, (1 + s.plain) * F32 * s.heads(), operations)
        },
        |_| 3,
        "warps of a head read the numbers of all splits, all threads of a token how many cells it sees"
    ),
    each!("add_f32", reads 2, writes 1, ops 1),
    each!("mul_f32", reads 2, writes 1, ops 1),
    each!("scale_f32", reads 1, writes 1, ops 1),
    model!(
        "mul_row_f32",
        "value" = values,
        |s| cost(F32 * (values(s) + s.n), F32 * values(s), values(s)),
        |_| 2,
        ROWS_SHARE
    ),
    each!("copy_rows_f32", reads 1, writes 1, ops 0),
    model!(
        "gather_rows_f32",
        "value" = values,
        |s| cost(F32 * values(s) + I32 * s.rows, F32 * values(s), 0),
        |_| 2,
        "each thread of a row reads which one it is"
    ),
    model!(
        "delta_net_chunked_*",
        "value" = Sizes::heads,
        // S k, S q and the update of S; k k and q k of a chunk, what is written with both
        |s| recurrence(s, s.heads() * (6 * s.head_dim + 8 * CHUNK)),
        |s| (s.n_head / s.n_head_kv) * s.head_dim.div_ceil(32) * 5,
        "v heads and blocks of 32 rows of a state share q and k, and 16 threads of a tile read each q"
    ),
    model!(
        "delta_net_step_*",
        "value" = Sizes::heads,
        |s| {
            let (channels, state) = (s.channels(), F32 * s.states());
            let conv = F32 * s.n_seqs * channels * (s.taps - 1);
            let gates = F32 * (2 * s.n_seqs * s.n_head + 2 * s.n_head) + 3 * I32 * s.n_seqs;
            let read = state + conv + gates + F32 * channels * (s.n_seqs + s.taps);
            let written = state + conv + F32 * s.heads();
            cost(read, written, s.heads() * (7 * s.head_dim) + s.n_seqs * channels * (2 * s.taps + 4))
        },
        |_| 4,
        "lanes that share a row of a state convolve its v, blocks and v heads q and k"
    ),
    model!(
        "flash_attn_decode_*",
        "score" = scores,
        |s| {
            let cells = 2 * s.cell_bytes * s.n_seqs * s.n_kv * s.n_head_kv * s.head_dim;
            let scratch = F32 * s.tokens() * s.n_head * s.parts * (s.head_dim + 2);
            cost(F32 * s.heads() + cells + 2 * I32 * s.tokens(), scratch, scores(s) * (4 * s.head_dim + 6))
        },
        |_| 2,
        "a query for each split, the last key again up to a whole tile"
    ),
    model!(
        "flash_attn_combine_f32",
        "value" = Sizes::heads,
        |s| {
            let scratch = F32 * s.tokens() * s.n_head * s.parts * (s.head_dim + 2);
            cost(scratch + I32 * s.tokens(), F32 * s.heads(), s.heads() * (s.parts * 6 + 1))
        },
        |_| 5,
        "each element reads the largest score and the denominator of all splits"
    ),
    model!(
        "flash_attn_prefill_*",
        "score" = scores,
        |s| {
            let cells = 2 * s.cell_bytes * s.n_seqs * s.n_kv * s.n_head_kv * s.head_dim;
            cost(
                F32 * s.heads() + cells + 2 * I32 * s.n_seqs,
                F32 * s.heads(),
                scores(s) * (4 * s.head_dim + 6),
            )
        },
        |s| (s.n_tokens * s.n_head / s.n_head_kv).div_ceil(32) + 1,
        "32 rows of queries share a pass over the cells"
    ),
    model!(
        "fold_f32",
        "value" = values,
        |s| cost(F32 * values(s) + s.n, F32 * values(s), fold_operations(s)),
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "unfold_f32",
        "value" = values,
        |s| cost(F32 * values(s) + s.n, F32 * values(s), fold_operations(s)),
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "gated_delta_net_*",
        "value" = Sizes::heads,
        |s| recurrence(s, s.heads() * 7 * s.head_dim),
        |s| (s.n_head / s.n_head_kv) * s.head_dim,
        "v heads share q and k, and so do the rows of a state"
    ),
    model!(
        "gated_norm_fold_f32",
        "value" = values,
        |s| {
            let read = F32 * (2 * values(s) + s.head_dim) + s.n;
            cost(read, (1 + s.plain) * F32 * values(s), fold_operations(s) + 10 * values(s))
        },
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "get_rows_*",
        "value" = |s| s.tokens() * s.n,
        |s| cost(s.tokens() * (I32 + s.row_bytes), F32 * s.tokens() * s.n, 2 * s.tokens() * s.n),
        |_| 2,
        "threads share the scale of a block and the token"
    ),
    model!(
        "get_rows_unfold_*",
        "value" = |s| s.tokens() * s.n,
        |s| {
            let values = s.tokens() * s.n;
            let operations = values * (s.block.ilog2() as usize + 4);
            cost(s.tokens() * (I32 + s.row_bytes) + s.n, F32 * values, operations)
        },
        |_| 3,
        "threads share the scale of a block, signs and the token"
    ),
    each!("swiglu_f32", reads 2, writes 1, ops 5),
    each!("sigmoid_mul_f32", reads 2, writes 1, ops 4),
    model!(
        "gated_norm_f32",
        "value" = values,
        |s| cost(F32 * (2 * values(s) + s.n), F32 * values(s), 10 * values(s)),
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "kv_append_*",
        "value" = |s| s.tokens() * s.n,
        |s| cost(
            2 * F32 * s.tokens() * s.n + I32 * s.tokens(),
            2 * s.cell_bytes * s.tokens() * s.n,
            2 * s.tokens() * s.n
        ),
        |_| 2,
        "each thread of a token reads its cell"
    ),
    each!("cont_f32", reads 1, writes 1, ops 0),
    each!("add_matrices_f32", reads 2, writes 1, ops 1),
    each!("sub_matrices_f32", reads 2, writes 1, ops 1),
    each!("mul_matrices_f32", reads 2, writes 1, ops 1),
    model!("tri_f32", "value" = |s| s.rows * s.n * s.n, |s| cost(
        F32 * s.rows * s.n * (s.n - 1 + 2 * s.plain) / 2,
        F32 * s.rows * s.n * s.n,
        0
    )),
    each!("cumsum_f32", reads 1, writes 1, ops 1),
    model!(
        "mul_mat_*_f32",
        "weight" = weights,
        |s| cost(s.n_out * s.row_bytes + F32 * s.n * s.tokens(), F32 * s.n_out * s.tokens(), products(s)),
        |s| s.n_out.max(s.tokens()).div_ceil(64) + 1,
        "a tile of 64 rows and 64 tokens reads both"
    ),
    model!(
        "mul_mat_*_q8_1",
        "weight" = weights,
        |s| cost(s.n_out * s.row_bytes + q8_1(s), F32 * s.n_out * s.tokens(), products(s)),
        |s| s.n_out.max(s.tokens()).div_ceil(64) + 2,
        "a tile of 64 rows and 64 tokens reads both, threads share the scales of a block"
    ),
    model!(
        "mul_mat_vec_*_f32",
        "weight" = weights,
        |s| cost(s.n_out * s.row_bytes + F32 * s.n * s.tokens(), F32 * s.n_out * s.tokens(), products(s)),
        |s| 1 + 2 * s.tokens(),
        "32 rows share a copy of x, or none do if weights are no blocks; threads share the scale of a block"
    ),
    model!(
        "mul_mat_vec_pq2_0_digits",
        "weight" = weights,
        |s| cost(s.n_out * s.row_bytes + digits(s), F32 * s.n_out * s.tokens(), products(s)),
        |s| 2 + s.tokens(),
        "a block of 16 rows reads x"
    ),
    model!(
        "mul_mat_vec_pq2_0_digits_8",
        "weight" = weights,
        |s| cost(s.n_out * s.row_bytes + digits(s), F32 * s.n_out * s.tokens(), products(s)),
        |s| 2 + s.tokens(),
        "a block of 16 rows reads x"
    ),
    model!(
        "mul_mat_vec_*_q8_1",
        "weight" = weights,
        |s| cost(s.n_out * s.row_bytes + q8_1(s), F32 * s.n_out * s.tokens(), products(s)),
        |s| 2 + s.tokens(),
        "a block of 32 rows or fewer reads x, threads share the scale of a block of weights"
    ),
    each!("rms_norm_f32", reads 1, writes 1, ops 3),
    model!(
        "rms_norm_weighted_f32",
        "value" = values,
        |s| cost(F32 * (values(s) + s.n), F32 * values(s), 4 * values(s)),
        |_| 2,
        ROWS_SHARE
    ),
    each!("l2_norm_f32", reads 1, writes 1, ops 3),
    each!("l2_norm_inside_f32", reads 1, writes 1, ops 4),
    model!(
        "products_f32",
        "value" = |s| s.n_seqs * s.rows * s.n_out,
        |s| {
            let values = s.n_seqs * s.rows * s.n_out;
            cost(F32 * s.n_seqs * (s.rows + s.n_out) * s.n, F32 * values, 2 * s.n * values)
        },
        |s| s.rows.max(s.n_out).div_ceil(32),
        "a tile of 32 rows and 32 columns reads both"
    ),
    model!(
        "sum_products_f32",
        "value" = |s| s.n_seqs * s.rows,
        |s| {
            let rows = s.n_seqs * s.rows;
            cost(F32 * (rows * s.n + s.n_seqs * s.n), F32 * rows, 2 * rows * s.n)
        },
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "qkv_rope_append_*",
        "value" = |s| s.heads() + 2 * s.heads_kv(),
        |s| {
            let of_heads = F32 * (s.heads() + 2 * s.heads_kv() + 2 * s.head_dim);
            let of_tokens = s.tokens() * (2 * I32 + F32 * s.n_rot);
            let normed = s.heads() + s.heads_kv();
            cost(of_heads + of_tokens, F32 * s.heads() + 2 * s.cell_bytes * s.heads_kv(), 7 * normed)
        },
        |_| 3,
        HEADS_SHARE
    ),
    model!("quantize_digits_f32", "value" = |s| s.tokens() * s.n, |s| cost(
        F32 * s.tokens() * s.n,
        digits(s),
        12 * s.tokens() * s.n
    )),
    model!("quantize_q8_1_f32", "value" = values, |s| {
        cost(F32 * values(s), values(s) + values(s) / Q8_1.0 * Q8_1.1, 4 * values(s))
    }),
    model!(
        "rms_norm_fold_f32",
        "value" = values,
        |s| cost(
            F32 * (values(s) + s.n) + s.n,
            (1 + s.plain) * F32 * values(s),
            fold_operations(s) + 4 * values(s)
        ),
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "add_rms_norm_fold_f32",
        "value" = values,
        |s| cost(
            F32 * (2 * values(s) + s.n) + s.n,
            (2 + s.plain) * F32 * values(s),
            fold_operations(s) + 5 * values(s)
        ),
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "rope_f32",
        "value" = Sizes::heads,
        |s| cost(F32 * s.heads() + s.tokens() * (I32 + F32 * s.n_rot), F32 * s.heads(), 3 * s.heads()),
        |_| 3,
        HEADS_SHARE
    ),
    model!(
        "qk_norm_rope_f32",
        "value" = Sizes::heads,
        |s| {
            let read = F32 * (s.heads() + s.head_dim) + s.tokens() * (I32 + F32 * s.n_rot);
            cost(read, F32 * s.heads(), 7 * s.heads())
        },
        |_| 3,
        HEADS_SHARE
    ),
    model!(
        "sigmoid_gate_fold_f32",
        "value" = values,
        |s| cost(
            2 * F32 * values(s) + s.n,
            (1 + s.plain) * F32 * values(s),
            fold_operations(s) + 4 * values(s)
        ),
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "solve_tri_f32",
        "value" = |s| s.n_seqs * s.n * s.n_out,
        |s| {
            let values = s.n_seqs * s.n * s.n_out;
            let of_a = s.n_seqs * s.n * (s.n + 1) / 2;
            cost(F32 * (of_a + values), F32 * values, s.n * values)
        },
        |s| s.n_out,
        "every column reads the matrix"
    ),
    model!(
        "conv_input_f32",
        "value" = |s| s.tokens() * s.n,
        |s| {
            let columns = F32 * (conv_states(s) + s.tokens() * s.n);
            cost(columns + I32 * s.n_seqs, columns, 0)
        },
        |_| 2,
        "each thread of a sequence reads its slot"
    ),
    model!(
        "ssm_conv_f32",
        "value" = |s| s.tokens() * s.n,
        |s| {
            let columns = F32 * (conv_states(s) + s.tokens() * s.n);
            cost(columns + F32 * s.n * s.taps, F32 * s.tokens() * s.n, 2 * s.taps * s.tokens() * s.n)
        },
        |s| 2 * s.taps,
        "every token reads a window of as many columns as there are taps, and the taps"
    ),
    model!(
        "conv_state_f32",
        "value" = conv_states,
        |s| cost(F32 * conv_states(s) + I32 * s.n_seqs, F32 * conv_states(s), 0),
        |_| 2,
        "each thread of a sequence reads its slot"
    ),
    model!(
        "ssm_conv_silu_f32",
        "value" = |s| s.tokens() * s.n,
        |s| {
            let (state, new) = (F32 * conv_states(s), F32 * s.tokens() * s.n);
            let read = state + new + F32 * s.n * s.taps + 2 * I32 * s.n_seqs;
            cost(read, state + new, (2 * s.taps + 4) * s.tokens() * s.n)
        },
        |_| 2,
        "a thread walks over 32 tokens and begins with the columns before them"
    ),
    model!(
        "swiglu_fold_f32",
        "value" = values,
        |s| cost(
            2 * F32 * values(s) + s.n,
            (1 + s.plain) * F32 * values(s),
            fold_operations(s) + 5 * values(s)
        ),
        |_| 2,
        ROWS_SHARE
    ),
    model!("top_k_first_f32", "value" = values, |s| {
        cost(F32 * values(s), CANDIDATE * s.rows * s.n.div_ceil(2048) * s.k, 66 * values(s))
    }),
    model!("top_k_merge_f32", "candidate" = values, |s| {
        cost(CANDIDATE * values(s), CANDIDATE * s.rows * s.n.div_ceil(2048) * s.k, 66 * values(s))
    }),
    model!("top_k_f32", "candidate" = values, |s| {
        cost(CANDIDATE * values(s) + F32 * s.rows * s.k, (F32 + I32) * s.rows * s.k, 66 * values(s))
    }),
    each!("exp_f32", reads 1, writes 1, ops 1),
    each!("silu_f32", reads 1, writes 1, ops 4),
    each!("sigmoid_f32", reads 1, writes 1, ops 3),
    model!(
        "softplus_bias_f32",
        "value" = values,
        |s| cost(F32 * (values(s) + s.n), F32 * values(s), 5 * values(s)),
        |_| 2,
        ROWS_SHARE
    ),
    model!(
        "gates_f32",
        "value" = values,
        |s| cost(2 * F32 * (values(s) + s.n), 2 * F32 * values(s), 9 * values(s)),
        |_| 2,
        ROWS_SHARE
    ),
];

/// Sizes of one token of a model with 27 billion weights of two bits, behind 4096 others, as its layers have them.
pub fn example(model: &Model) -> Sizes {
    let of_delta_net = model.kernel.contains("delta_net");
    let (n_head, n_head_kv, head_dim) = if of_delta_net { (48, 16, 128) } else { (24, 4, 256) };
    // Channels of the convolution, values of the vocabulary, values of a layer.
    let n = match model.kernel {
        name if name.contains("conv") => 10240,
        name if name.starts_with("argmax") || name == "top_k_first_f32" => 248_320,
        _ => 5120,
    };
    Sizes {
        n,
        rows: 1,
        n_out: 17408,
        row_bytes: 5120 / 128 * 34,
        block: 1024,
        plain: 0,
        n_seqs: 1,
        n_tokens: 1,
        n_head,
        n_head_kv,
        head_dim,
        n_rot: 64,
        n_kv: 4097,
        cell_bytes: 2,
        taps: 4,
        parts: 31,
        k: 40,
    }
}
