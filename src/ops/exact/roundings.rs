//! The ways in which a backend may round on purpose, to fewer digits than f32 has, while it computes a node.
//!
//! Which way it took depends on the backend, the types, and settings that a dump does not always tell. An oracle lists the
//! possible ones ([`super::Oracle::roundings`]); a replay tries them and names the one that fits.

use std::fmt;

/// How the reference was run, as far as it decides what is rounded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// ggml's name of the backend: `CPU`, `CUDA0`.
    pub backend: String,
    /// Threads that computed.
    pub n_threads: u32,
    /// Whether weights were repacked for the CPU; none if unknown.
    pub repack: Option<bool>,
}

/// One way of rounding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rounding {
    /// Nothing is rounded on purpose.
    None,
    /// The activations of a matrix product.
    Activation(ActivationRounding),
}

/// To what, and by which rule, an activation is rounded in front of a matrix product.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ActivationRounding {
    /// To the `vec_dot_type` of the weights, as ggml-cpu's x86 kernels do.
    X86,
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rounding::None => f.write_str("none"),
            Rounding::Activation(ActivationRounding::X86) => f.write_str("x86"),
        }
    }
}
