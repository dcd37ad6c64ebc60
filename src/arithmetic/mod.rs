//! The arithmetic of ggml-cpu, to the bit: in which order a build of llama.cpp adds, in which precision, where it rounds, and which
//! polynomials stand for its functions. One small function for each primitive, which names the one that it mirrors.
//!
//! Operators (`ops::exact`) take it as a parameter ([`Primitives`]): what an operator means is theirs, how it rounds is here. `docs/arithmetic.md`
//! is the table of it. Functions of the C library (`expf`, `logf`, `powf`, `sinf`, `cosf`, `tanhf`) are the platform's: a dump that
//! was made with another one may differ by a unit in the last place where they are called.

mod delta_net;
mod dot;
mod dot_pairs;
mod exp;
mod factors;
mod flash;
mod gelu;
mod isa;
mod primitives;
mod product;
mod quantised;
mod repacked;
mod rope;
mod rows;
mod sort;

pub use delta_net::{DeltaToken, delta_token};
pub use dot::{dot_bf16, dot_f16, dot_f32, dot_of_scan, dot_one_by_one};
pub use exp::{exp_row, silu_row, swiglu_row, v_expf};
pub use factors::{Activation, Block32, Block256, Factor};
pub use flash::{FlashKernel, FlashLogit, FlashShape, FlashSum, KV_TILE};
pub use gelu::{gelu, gelu_quick};
pub use isa::{Ggml, Isa, UnknownBuild};
pub use primitives::{GGML_CPU, Primitives};
pub use product::{Kernel, Product, Shape, fwht};
pub use rope::{Pair, RopeAngles, rotate};
pub use rows::{
    Mask, conv, cumsum, l2_norm, mad, norm, rms_norm, scale, scale_and_bias, soft_max, solve_tri, sum,
};
pub use sort::{partial_sort, sort};
