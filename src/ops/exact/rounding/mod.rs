//! What a backend rounds an activation to in front of a matrix product: one function for each rule, and which rules come
//! into question for a node.

mod candidates;
mod cpu;
mod cuda;

pub use candidates::{activation_on_cpu, cpu_kernel, vec_dot_type};
pub(super) use candidates::{likeliest_on_cpu, possible, sums_are_used};

use half::{bf16, f16};

use super::ActivationRounding;

/// An activation as a product sees it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rounded {
    /// The rounded values.
    pub values: Vec<f32>,
    /// The sums that a format stores for the weights' minima.
    pub sums: Option<Sums>,
    /// What may have been rounded to the other side; none for a rule whose every step is exact or correctly rounded.
    pub doubts: Vec<Doubt>,
}

/// Sums of runs of elements.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sums {
    /// Elements of a run.
    pub width: usize,
    /// The sum of each run, as it is stored.
    pub values: Vec<f64>,
    /// How far each sum moves if it was rounded to the other side; 0 if that is not in doubt.
    pub steps: Vec<f64>,
}

/// Values that move together if one rounding went to the other side.
#[derive(Clone, PartialEq, Debug)]
pub struct Doubt {
    /// Index of the first value.
    pub at: usize,
    /// By how much each moves, from the first on; all of one rounding, so the signs count.
    pub moves: Vec<f32>,
}

impl Rounded {
    /// Whether anything may have been rounded to the other side.
    pub fn is_doubtful(&self) -> bool {
        let of_sums = |sums: &Sums| sums.steps.iter().any(|step| *step != 0.0);
        !self.doubts.is_empty() || self.sums.as_ref().is_some_and(of_sums)
    }
}

/// Rounds one row.
pub fn round_activation(rounding: ActivationRounding, row: &[f32]) -> Rounded {
    let plain = |values: Vec<f32>| Rounded { values, ..Rounded::default() };
    match rounding {
        ActivationRounding::F16 => plain(row.iter().map(|&x| f16::from_f32(x).to_f32()).collect()),
        ActivationRounding::Bf16 => plain(row.iter().map(|&x| bf16::from_f32(x).to_f32()).collect()),
        ActivationRounding::Q8_0(kernel) => plain(cpu::q8_0(kernel, row)),
        ActivationRounding::Q8_1(kernel) => cpu::q8_1(kernel, row),
        ActivationRounding::Q8K => plain(cpu::q8_k(row)),
        ActivationRounding::Q8KFused => plain(cpu::q8_k_fused(row)),
        ActivationRounding::Mmvq => cuda::mmvq(row),
        ActivationRounding::Mmq(layout) => cuda::mmq(layout, row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_values_round_to_nearest_even() {
        assert_eq!(round_activation(ActivationRounding::F16, &[2049.0, 2051.0]).values, [2048.0, 2052.0]);
        assert_eq!(round_activation(ActivationRounding::Bf16, &[257.0, 259.0]).values, [256.0, 260.0]);
    }
}
