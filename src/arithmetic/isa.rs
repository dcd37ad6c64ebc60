//! Which of ggml-cpu's code a build holds: its vector registers, and what it calls in front of plain dot products.

use std::fmt;

use thiserror::Error;

/// The vector code that ggml-cpu was compiled to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// x86-64 without more: plain loops, but exponentials four at a time.
    Sse2,
    /// AVX2, FMA and F16C: eight floats, fused multiply-adds, also where the compiler makes them of `a * b + c`.
    Avx2,
    /// AVX-512 (F, CD, VL, DQ, BW, VBMI, VNNI, BF16) besides: sixteen floats, products of pairs of bf16, integers as with AVX2.
    Avx512,
}

impl Isa {
    /// Floats of a register, where an operator works by register.
    pub fn lanes(self) -> usize {
        match self {
            Isa::Sse2 => 4,
            Isa::Avx2 => 8,
            Isa::Avx512 => 16,
        }
    }

    /// `a * b + c`, rounded once if the build has the instruction. gcc makes it of every such expression in C
    /// (`-ffp-contract=fast`), intrinsics included.
    #[inline(always)]
    pub fn madd(self, a: f32, b: f32, c: f32) -> f32 {
        match self {
            Isa::Sse2 => a * b + c,
            Isa::Avx2 | Isa::Avx512 => a.mul_add(b, c),
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isa::Sse2 => "scalar",
            Isa::Avx2 => "AVX2",
            Isa::Avx512 => "AVX-512",
        })
    }
}

/// How ggml-cpu computed: what decides the order of its operations beside the operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ggml {
    /// Its vector code.
    pub isa: Isa,
    /// Whether products with several columns go to llamafile's kernels.
    pub llamafile: bool,
    /// Whether every node was computed with the plain kernels (`use_ref`): no llamafile, no tiles, no fast Hadamard transform.
    pub reference_kernels: bool,
    /// Whether weights were repacked.
    pub repack: bool,
    /// Threads that computed.
    pub n_threads: u32,
}

/// A build of ggml-cpu whose order of operations is not known here.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[error(
    "the arithmetic of this build of llama.cpp is not known: `{system_info}`; known are x86-64 without AVX (scripts/build-llama.sh --build scalar), with AVX2, FMA and F16C (scripts/build-llama.sh), and with AVX-512 F, VBMI, VNNI and BF16 as well (--build avx512)"
)]
pub struct UnknownBuild {
    /// What it says of itself.
    pub system_info: String,
}

impl Ggml {
    /// How the build that says this of itself (`llama_print_system_info`) computes, with one thread and weights as they are.
    ///
    /// # Errors
    /// If it has other vector code than [`Isa`] knows.
    pub fn of(system_info: &str) -> Result<Ggml, UnknownBuild> {
        let features: Vec<&str> = system_info
            .trim_start_matches("CPU :")
            .split('|')
            .filter_map(|feature| feature.trim().strip_suffix(" = 1"))
            .collect();
        // What does not touch arithmetic, or is in another field.
        const OTHER: [&str; 5] = ["LLAMAFILE", "REPACK", "OPENMP", "SSE3", "BMI2"];
        const AVX2: [&str; 5] = ["AVX", "AVX2", "F16C", "FMA", "SSSE3"];
        const AVX512: [&str; 4] = ["AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16"];
        let vector: Vec<&str> = features.iter().copied().filter(|feature| !OTHER.contains(feature)).collect();
        let is_known = |isa: &[&str]| vector.len() == isa.len() && isa.iter().all(|one| vector.contains(one));
        let isa = match () {
            () if vector.is_empty() && !features.contains(&"SSE3") => Isa::Sse2,
            () if is_known(&AVX2) => Isa::Avx2,
            () if is_known(&[&AVX2[..], &AVX512].concat()) => Isa::Avx512,
            () => return Err(UnknownBuild { system_info: system_info.to_owned() }),
        };
        Ok(Ggml {
            isa,
            llamafile: features.contains(&"LLAMAFILE"),
            reference_kernels: false,
            repack: false,
            n_threads: 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_told_by_what_they_say_of_themselves() {
        let of = |text: &str| Ggml::of(text).map(|ggml| (ggml.isa, ggml.llamafile));
        assert_eq!(of("CPU : "), Ok((Isa::Sse2, false)));
        let avx2 = "CPU : SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | BMI2 = 1 | LLAMAFILE = 1 | REPACK = 1 |  ";
        assert_eq!(of(avx2), Ok((Isa::Avx2, true)));
        let avx512 = "CPU : SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | BMI2 = 1 | AVX512 = 1 | AVX512_VBMI = 1 | AVX512_VNNI = 1 | AVX512_BF16 = 1 | LLAMAFILE = 1 | REPACK = 1 |  ";
        assert_eq!(of(avx512), Ok((Isa::Avx512, true)));
        for other in [
            "CPU : SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | AVX512 = 1 | ",
            "CPU : SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | AVX512 = 1 | AVX512_VBMI = 1 | AVX512_VNNI = 1 | ",
            "CPU : SSE3 = 1 | SSSE3 = 1 | AVX512 = 1 | AVX512_VBMI = 1 | AVX512_VNNI = 1 | AVX512_BF16 = 1 | ",
            "CPU : SSE3 = 1 | ",
            "CPU : NEON = 1 | ARM_FMA = 1 | ",
            "CPU : SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | ",
        ] {
            assert!(of(other).unwrap_err().to_string().contains(other), "{other}");
        }
    }
}
