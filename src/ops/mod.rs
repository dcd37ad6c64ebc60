//! The operators of ggml that a forward pass is made of, one per file, each the clearest loop for its formula.
//!
//! Every operator is generic over [`Number`], so that f32 and f64 arithmetic share each line that is about meaning and
//! not about rounding. Arrays are row-major with the outermost dimension first; activations are `[n_tokens, width]`,
//! per-head tensors `[n_tokens, n_head, head_dim]`.
//!
//! Adding an operator: a file here, its `mod` line and one line in [`OPS`].

pub mod exact;
mod fwht;
mod gated_delta_net;
mod get_rows;
mod glu;
mod mul_mat;
mod norm;
mod number;
mod rope;
mod soft_max;
mod ssm_conv;
mod unary;

pub use fwht::fwht;
pub use gated_delta_net::{
    DELTA_CHUNK, DecayOrder, DeltaGates, DeltaInputs, DeltaRule, DeltaSteps, NoSteps,
    delta_net_autoregressive, delta_net_chunked, gated_delta_net, products, solved,
};
pub use get_rows::get_rows;
pub use glu::swiglu;
pub use mul_mat::{Activations, Change, RoundingRule, Rows, Taken, carry, dot, mul_mat};
pub use norm::{RmsNormEps, l2_norm, rms_norm, rms_norm_with, scale_rows};
pub use number::{Number, Real, Single, Tracked};
pub use rope::{Rope, RopePairing, RopeSections, Turn};
pub use soft_max::soft_max_row;
pub use ssm_conv::{TapOrder, ssm_conv};
pub use unary::{sigmoid, silu, silu_rows, softplus};

/// The files here and the ggml operators they compute; `tests/registries.rs` compares this table with the folder.
pub const OPS: &[(&str, &[&str])] = &[
    ("fwht", &["MUL_MAT with a Hadamard matrix"]),
    ("gated_delta_net", &["GATED_DELTA_NET"]),
    ("get_rows", &["GET_ROWS"]),
    ("glu", &["GLU"]),
    ("mul_mat", &["MUL_MAT"]),
    ("norm", &["RMS_NORM", "L2_NORM"]),
    ("rope", &["ROPE"]),
    ("soft_max", &["SOFT_MAX"]),
    ("ssm_conv", &["SSM_CONV"]),
    ("unary", &["UNARY"]),
];
