//! Which roundings of its activations a product may have been computed with.

use crate::ops::exact::{ActivationRounding, CpuKernel, MmqLayout, Rounding, Setting};
use crate::tensor::GgmlType;

/// Columns up to which CUDA multiplies vector by vector (`MMVQ_MAX_BATCH_SIZE`, mmvq.cuh; some processors stop earlier).
const MMVQ_MAX_BATCH_SIZE: u64 = 8;

/// The type that activations are rounded to in front of weights of type `weight` on a CPU (`vec_dot_type`, ggml-cpu.c); none if
/// ggml has no such product.
pub fn vec_dot_type(weight: GgmlType) -> Option<GgmlType> {
    use GgmlType::{
        BF16, F16, F32, IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_NL, IQ4_XS, MXFP4, NVFP4,
        PQ2_0, PTQ1_0, Q1_0, Q2_0, Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, Q8_1, Q8_K,
        TQ1_0, TQ2_0,
    };
    Some(match weight {
        F32 => F32,
        F16 => F16,
        BF16 => BF16,
        Q1_0 | Q2_0 | Q4_0 | Q5_0 | Q8_0 | IQ4_NL | MXFP4 | NVFP4 | PQ2_0 | PTQ1_0 => Q8_0,
        Q4_1 | Q5_1 | Q8_1 => Q8_1,
        Q2_K | Q3_K | Q4_K | Q5_K | Q6_K | IQ1_S | IQ1_M | IQ2_XXS | IQ2_XS | IQ2_S | IQ3_XXS | IQ3_S
        | IQ4_XS | TQ1_0 | TQ2_0 => Q8_K,
        _ => return None,
    })
}

/// The layout of activations that MMQ takes in front of weights of a type (`mmq_get_q8_1_ds_layout`, mmq.cuh); none if it does
/// not take them.
fn mmq_layout(weight: GgmlType) -> Option<MmqLayout> {
    use GgmlType::{
        IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_NL, IQ4_XS, MXFP4, NVFP4, Q1_0, Q2_0, Q2_K, Q3_K,
        Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0,
    };
    Some(match weight {
        Q4_0 | Q4_1 | Q5_1 | Q4_K | Q5_K | IQ1_S => MmqLayout::Ds4,
        Q2_K => MmqLayout::D2s6,
        Q1_0 | Q2_0 | Q5_0 | Q8_0 | MXFP4 | NVFP4 | Q3_K | Q6_K | IQ2_XXS | IQ2_XS | IQ2_S | IQ3_XXS
        | IQ3_S | IQ4_XS | IQ4_NL => MmqLayout::D4,
        _ => return None,
    })
}

/// The likeliest rounding on a CPU of which nothing is known.
pub(in crate::ops::exact) fn likeliest_on_cpu(weight: GgmlType) -> Rounding {
    on_cpu(weight, "")[0]
}

/// Whether a product takes the sums that are stored with the activation in place of the sum of its rounded values.
pub(in crate::ops::exact) fn sums_are_used(rounding: ActivationRounding, weight: GgmlType) -> bool {
    use GgmlType::{Q2_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K};
    match rounding {
        ActivationRounding::Q8_1(_) => true,
        // vec_dot_q4_K_q8_1_impl_vmmq and its like add up the codes
        ActivationRounding::Mmvq => matches!(weight, Q4_0 | Q4_1 | Q5_0 | Q5_1),
        // with tensor cores Q4_0 is centred when it is loaded
        ActivationRounding::Mmq(_) => matches!(weight, Q2_K | Q4_1 | Q4_K | Q5_1 | Q5_K),
        _ => false,
    }
}

/// The roundings that come into question, the likeliest first. `none` is always among them, last if the weights are such that
/// a backend rounds in front of them: then it says that this one did not.
pub(in crate::ops::exact) fn possible(weight: GgmlType, columns: u64, setting: &Setting) -> Vec<Rounding> {
    let is_cuda = setting.backend.starts_with("CUDA");
    let mut roundings = match setting.backend.as_str() {
        "CPU" => on_cpu(weight, &setting.system_info),
        _ if is_cuda => on_cuda(weight, columns),
        _ => Vec::new(), // nothing was read of other backends
    };
    roundings.retain(|rounding| *rounding != Rounding::None);
    // CUDA's vector kernels take f16 and bf16 weights with f32 activations.
    let is_plain = matches!(weight, GgmlType::F16 | GgmlType::BF16);
    let first = is_cuda && is_plain && columns <= MMVQ_MAX_BATCH_SIZE;
    roundings.insert(if first { 0 } else { roundings.len() }, Rounding::None);
    roundings
}

/// The kernel that the machine has comes first, the others after it: a build may leave it out.
fn kernels(system_info: &str) -> [CpuKernel; 3] {
    use CpuKernel::{Neon, Portable, X86};
    let has = |feature: &str| system_info.contains(&format!(" {feature} = 1"));
    if has("AVX") || system_info.is_empty() {
        [X86, Portable, Neon]
    } else if has("NEON") || has("RISCV_V") {
        [Neon, Portable, X86]
    } else {
        [Portable, X86, Neon]
    }
}

/// The kernel of the machine that says this of itself (`llama_print_system_info`).
pub fn cpu_kernel(system_info: &str) -> CpuKernel {
    kernels(system_info)[0]
}

/// What ggml-cpu rounds to in front of weights of a type; none if it takes the activations as they are.
pub fn activation_on_cpu(weight: GgmlType, kernel: CpuKernel) -> Option<ActivationRounding> {
    Some(match vec_dot_type(weight)? {
        GgmlType::F16 => ActivationRounding::F16,
        GgmlType::BF16 => ActivationRounding::Bf16,
        GgmlType::Q8_0 => ActivationRounding::Q8_0(kernel),
        GgmlType::Q8_1 => ActivationRounding::Q8_1(kernel),
        GgmlType::Q8_K => ActivationRounding::Q8K,
        _ => return None,
    })
}

fn on_cpu(weight: GgmlType, system_info: &str) -> Vec<Rounding> {
    let mut activations: Vec<ActivationRounding> =
        kernels(system_info).into_iter().filter_map(|kernel| activation_on_cpu(weight, kernel)).collect();
    activations.dedup(); // most types have one rule for all kernels
    if activations.first() == Some(&ActivationRounding::Q8K) {
        activations.push(ActivationRounding::Q8KFused);
    }
    if activations.is_empty() {
        return vec![Rounding::None];
    }
    activations.into_iter().map(Rounding::Activation).collect()
}

fn on_cuda(weight: GgmlType, columns: u64) -> Vec<Rounding> {
    let activations = match (weight, mmq_layout(weight)) {
        (GgmlType::F16, _) => vec![ActivationRounding::F16],
        (GgmlType::BF16, _) => vec![ActivationRounding::Bf16],
        (_, Some(layout)) if columns <= MMVQ_MAX_BATCH_SIZE => {
            vec![ActivationRounding::Mmvq, ActivationRounding::Mmq(layout)]
        }
        (_, Some(layout)) => vec![ActivationRounding::Mmq(layout), ActivationRounding::Mmvq],
        _ => return Vec::new(),
    };
    activations.into_iter().map(Rounding::Activation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(weight: GgmlType, columns: u64, backend: &str, system_info: &str) -> Vec<String> {
        let setting =
            Setting { backend: backend.into(), system_info: system_info.into(), ..Setting::default() };
        possible(weight, columns, &setting).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_kernel_of_the_machine_comes_first() {
        let x86 = "CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 |";
        assert_eq!(names(GgmlType::Q4_0, 1, "CPU", x86), ["Q8_0 x86", "Q8_0 portable", "Q8_0 neon", "none"]);
        let sse = "CPU : SSE3 = 1 | REPACK = 1 |";
        assert_eq!(names(GgmlType::Q8_0, 1, "CPU", sse), ["Q8_0 portable", "Q8_0 x86", "Q8_0 neon", "none"]);
        let arm = "CPU : NEON = 1 | ARM_FMA = 1 |";
        assert_eq!(names(GgmlType::Q4_1, 1, "CPU", arm), ["Q8_1 neon", "Q8_1 portable", "Q8_1 x86", "none"]);
        assert_eq!(names(GgmlType::Q4_K, 1, "CPU", arm), ["Q8_K", "Q8_K fused", "none"]);
        assert_eq!(names(GgmlType::BF16, 1, "CPU", x86), ["BF16", "none"]);
        assert_eq!(names(GgmlType::F32, 1, "CPU", x86), ["none"]);
    }

    #[test]
    fn cuda_goes_by_the_number_of_columns() {
        assert_eq!(names(GgmlType::Q8_0, 8, "CUDA0", ""), ["Q8_1 mmvq", "Q8_1 mmq D4", "none"]);
        assert_eq!(names(GgmlType::Q2_K, 9, "CUDA0", ""), ["Q8_1 mmq D2S6", "Q8_1 mmvq", "none"]);
        assert_eq!(names(GgmlType::Q4_K, 9, "CUDA0", ""), ["Q8_1 mmq DS4", "Q8_1 mmvq", "none"]);
        assert_eq!(names(GgmlType::F16, 1, "CUDA0", ""), ["none", "F16"]);
        assert_eq!(names(GgmlType::BF16, 9, "CUDA1", ""), ["BF16", "none"]);
        assert_eq!(names(GgmlType::F32, 9, "CUDA0", ""), ["none"]);
        assert_eq!(names(GgmlType::Q8_0, 9, "Metal", ""), ["none"]);
    }

    #[test]
    fn every_type_with_a_product_has_a_rounding_or_needs_none() {
        for &weight in GgmlType::ALL {
            let expected = vec_dot_type(weight).is_some_and(|partner| partner != GgmlType::F32);
            assert_eq!(likeliest_on_cpu(weight) != Rounding::None, expected, "{weight}");
        }
    }
}
