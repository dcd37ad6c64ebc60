//! One function for each kernel: it checks that sizes belong together, chooses the grid, and is the kernel's only caller.
//!
//! Adding a kernel: `kernels/<operator>.cu`, a file here of the same stem, its `mod` line and one line in [`KERNELS`].

mod binary;
mod copy;
mod fold;
mod glu;
mod norm;
mod unary;

pub use binary::{add, add_to, mul, mul_row, scale};
pub use copy::{copy_rows, gather_rows};
pub use fold::{FoldHeads, FoldParams, fold, unfold, unfold_in_place};
pub use glu::{gated_norm, sigmoid_mul, swiglu};
pub use norm::{Heads, l2_norm, l2_norm_inside, rms_norm, rms_norm_weighted};
pub use unary::{GateInputs, gates, sigmoid, silu, softplus_bias};

/// The files here, each with the kernel file of its stem; `tests/registries.rs` compares this table with both folders.
pub const KERNELS: &[&str] = &["binary", "copy", "fold", "glu", "norm", "unary"];
