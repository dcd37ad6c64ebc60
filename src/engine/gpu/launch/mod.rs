//! One function for each kernel: it checks that sizes belong together, chooses the grid, and is the kernel's only caller.
//!
//! Adding a kernel: `kernels/<operator>.cu`, a file here of the same stem, its `mod` line and one line in [`KERNELS`].

mod argmax;
mod attention;
mod attn_combine_fold;
mod binary;
mod copy;
mod delta_net_chunked;
mod delta_net_step;
mod flash_attn_decode;
mod flash_attn_prefill;
mod fold;
mod gated_delta_net;
mod gated_norm_fold;
mod get_rows;
mod get_rows_unfold;
mod glu;
mod kv_append;
mod matrices;
mod mul_mat;
mod mul_mat_q8_1;
mod mul_mat_vec;
mod mul_mat_vec_digits;
mod mul_mat_vec_q8_1;
mod mul_mat_vec_split;
mod norm;
mod products;
mod qkv_rope_append;
mod quantize_digits;
mod quantize_q8_1;
mod rms_norm_fold;
mod rope;
mod sigmoid_gate_fold;
mod solve_tri;
mod ssm_conv;
mod swiglu_fold;
mod top_k;
mod unary;

pub use argmax::{argmax, argmax_scratch};
pub use attention::{AttnShape, kq, kqv, round_like, soft_max};
pub use attn_combine_fold::{attn_combine_fold, combine_fits};
pub use binary::{add, add_to, mul, mul_row, scale};
pub use copy::{copy_rows, gather_rows};
pub use delta_net_chunked::delta_net_chunked;
pub use delta_net_step::{HeadNorm, StepInputs, StepStates, delta_net_step};
pub use flash_attn_decode::{FlashCache, FlashShape, flash_attn_decode, flash_attn_decode_splits};
pub use flash_attn_prefill::flash_attn_prefill;
pub use fold::{FoldHeads, FoldParams, Folded, fold, unfold, unfold_in_place};
pub use gated_delta_net::{DeltaHeads, DeltaShape, gated_delta_net};
pub use gated_norm_fold::{gated_norm_fold, gated_norm_fold_fits};
pub use get_rows::get_rows;
pub use get_rows_unfold::{get_rows_unfold, get_rows_unfold_fits};
pub use glu::{gated_norm, sigmoid_mul, swiglu};
pub use kv_append::{Cells, CellsMut, kv_append};
pub use matrices::{Matrices, add_matrices, cont, cumsum, mul_matrices, sub_matrices, tri};
pub use mul_mat::mul_mat;
pub use mul_mat_q8_1::{mul_mat_q8_1, takes_q8_1};
pub use mul_mat_vec::{MAX_VEC_TOKENS, fits_beside, mul_mat_vec, mul_mats_vec, mul_mats_vec_beside};
pub use mul_mat_vec_digits::{mul_mat_vec_digits, mul_mats_vec_digits, takes_digits};
pub use mul_mat_vec_q8_1::{mul_mat_vec_q8_1, mul_mats_vec_q8_1};
pub use mul_mat_vec_split::{SplitMatrix, mul_mat_vec_split};
pub use norm::{Heads, l2_norm, l2_norm_inside, rms_norm, rms_norm_weighted};
pub use products::{products, sum_products};
pub use qkv_rope_append::{QkvInputs, QkvShape, qkv_rope_append};
pub use quantize_digits::{Digits, quantize_digits};
pub use quantize_q8_1::{Q8_1, quantize_q8_1};
pub use rms_norm_fold::{add_rms_norm_fold, rms_norm_fold, rms_norm_fold_fits};
pub use rope::{RopeShape, qk_norm_rope, rope, rope_table};
pub use sigmoid_gate_fold::{sigmoid_gate_fold, sigmoid_gate_fold_fits};
pub use solve_tri::solve_tri;
pub use ssm_conv::{ConvShape, conv_input, conv_state, ssm_conv, ssm_conv_silu};
pub use swiglu_fold::{swiglu_fold, swiglu_fold_fits};
pub use top_k::{top_k, top_k_scratch};
pub use unary::{GateInputs, exp, gates, sigmoid, silu, softplus_bias};

/// The files here, each with the kernel file of its stem; `tests/registries.rs` compares this table with both folders.
pub const KERNELS: &[&str] = &[
    "argmax",
    "attention",
    "attn_combine_fold",
    "binary",
    "copy",
    "delta_net_chunked",
    "delta_net_step",
    "flash_attn_decode",
    "flash_attn_prefill",
    "fold",
    "gated_delta_net",
    "gated_norm_fold",
    "get_rows",
    "get_rows_unfold",
    "glu",
    "kv_append",
    "matrices",
    "mul_mat",
    "mul_mat_q8_1",
    "mul_mat_vec",
    "mul_mat_vec_digits",
    "mul_mat_vec_q8_1",
    "mul_mat_vec_split",
    "norm",
    "products",
    "qkv_rope_append",
    "quantize_digits",
    "quantize_q8_1",
    "rms_norm_fold",
    "rope",
    "sigmoid_gate_fold",
    "solve_tri",
    "ssm_conv",
    "swiglu_fold",
    "top_k",
    "unary",
];
