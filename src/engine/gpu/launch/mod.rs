//! One function for each kernel: it checks that sizes belong together, chooses the grid, and is the kernel's only caller.
//!
//! Adding a kernel: `kernels/<operator>.cu`, a file here of the same stem, its `mod` line and one line in [`KERNELS`].

mod unary;

pub use unary::silu;

/// The files here, each with the kernel file of its stem; `tests/registries.rs` compares this table with both folders.
pub const KERNELS: &[&str] = &["unary"];
