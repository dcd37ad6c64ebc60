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
    /// What it says about the machine (`llama_print_system_info`): which instructions it was built for.
    pub system_info: String,
    /// Threads that computed.
    pub n_threads: u32,
    /// Whether weights were repacked for the CPU; none if unknown.
    pub repack: Option<bool>,
    /// Whether every node was computed with the backend's plain kernels.
    pub reference_kernels: bool,
}

impl Setting {
    /// Whether ggml-cpu sums products of f16 values in registers of eight f32, with fused multiply-adds.
    pub(super) fn has_avx_sums(&self) -> bool {
        let has = |feature: &str| self.system_info.contains(&format!("{feature} = 1"));
        has(" AVX") && has(" F16C") && has(" FMA") && !has(" AVX512")
    }
}

/// One way of rounding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rounding {
    /// Nothing is rounded on purpose.
    None,
    /// The activations of a matrix product.
    Activation(ActivationRounding),
    /// ggml-cpu's flash attention, one query at a time: the query to the type that the keys take, and, where values are f16,
    /// the sum after each key.
    OneChunk {
        /// In how many parts the keys are summed.
        parts: u32,
        /// In which order the product of a query with a key is added up.
        order: SumOrder,
    },
}

/// In which order f32 products are added up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SumOrder {
    /// As ggml-cpu does on x86 with AVX, FMA and F16C.
    Avx,
    /// It is not known.
    Any,
}

/// To what, and by which rule, an activation is rounded in front of a matrix product. Each has its function in `rounding/`,
/// whose doc says where it comes from and what it was compared with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ActivationRounding {
    /// To f16, each value by itself.
    F16,
    /// To bf16, each value by itself.
    Bf16,
    /// ggml-cpu's Q8_0.
    Q8_0(CpuKernel),
    /// ggml-cpu's Q8_1.
    Q8_1(CpuKernel),
    /// ggml-cpu's Q8_K, the same rule on every processor.
    Q8K,
    /// Q8_K as a compiler makes it that fuses the product into the addition that rounds it.
    Q8KFused,
    /// Q8_1 as CUDA's matrix-vector kernels take it.
    Mmvq,
    /// Q8_1 as CUDA's matrix-matrix kernels take it.
    Mmq(MmqLayout),
}

/// Which of ggml-cpu's kernels makes the codes of Q8_0 and Q8_1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CpuKernel {
    /// AVX and AVX2.
    X86,
    /// The plain C loop.
    Portable,
    /// Arm NEON.
    Neon,
}

/// What CUDA's matrix-matrix kernels store beside the codes (`mmq_q8_1_ds_layout`, mmq.cuh).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MmqLayout {
    /// A scale per 32, in f32.
    D4,
    /// A scale and a sum per 32, in f16.
    Ds4,
    /// A scale per 64, and a sum per 16 of the first 96 of 128, in f16.
    D2s6,
}

impl ActivationRounding {
    /// Elements that share a scale; 1 where each value is rounded by itself.
    pub fn block_elements(self) -> usize {
        match self {
            ActivationRounding::F16 | ActivationRounding::Bf16 => 1,
            ActivationRounding::Q8_0(_) | ActivationRounding::Q8_1(_) | ActivationRounding::Mmvq => 32,
            ActivationRounding::Mmq(MmqLayout::D4 | MmqLayout::Ds4) => 32,
            ActivationRounding::Mmq(MmqLayout::D2s6) => 64,
            ActivationRounding::Q8K | ActivationRounding::Q8KFused => 256,
        }
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rounding::None => f.write_str("none"),
            Rounding::Activation(activation) => activation.fmt(f),
            Rounding::OneChunk { parts: 1, order: SumOrder::Avx } => f.write_str("one chunk"),
            Rounding::OneChunk { parts: 1, order: SumOrder::Any } => f.write_str("one chunk, any order"),
            Rounding::OneChunk { parts, order: SumOrder::Avx } => write!(f, "one chunk in {parts} parts"),
            Rounding::OneChunk { parts, order: SumOrder::Any } => {
                write!(f, "one chunk in {parts} parts, any order")
            }
        }
    }
}

impl fmt::Display for ActivationRounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActivationRounding::F16 => f.write_str("F16"),
            ActivationRounding::Bf16 => f.write_str("BF16"),
            ActivationRounding::Q8_0(kernel) => write!(f, "Q8_0 {kernel}"),
            ActivationRounding::Q8_1(kernel) => write!(f, "Q8_1 {kernel}"),
            ActivationRounding::Q8K => f.write_str("Q8_K"),
            ActivationRounding::Q8KFused => f.write_str("Q8_K fused"),
            ActivationRounding::Mmvq => f.write_str("Q8_1 mmvq"),
            ActivationRounding::Mmq(layout) => write!(f, "Q8_1 mmq {layout}"),
        }
    }
}

impl fmt::Display for CpuKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CpuKernel::X86 => "x86",
            CpuKernel::Portable => "portable",
            CpuKernel::Neon => "neon",
        })
    }
}

impl fmt::Display for MmqLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MmqLayout::D4 => "D4",
            MmqLayout::Ds4 => "DS4",
            MmqLayout::D2s6 => "D2S6",
        })
    }
}
