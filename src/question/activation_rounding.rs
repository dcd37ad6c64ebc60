//! `activation_rounding`: to what is an activation rounded in front of a product?
//!
//! What is unknown: whether a product takes its activation as it is, or rounded to fewer digits, as a CPU's kernels want it for the
//! type of the weights.
//! Why it matters: an engine that rounds differently is off by more than its own rounding, and looks as if it were wrong.
//! Candidates: `f32` not at all; `f16`; `bf16`; `q8_0`, `q8_1`: codes of 8 bits with a scale for each 32; `q8_K`: for each 256. Q8_1 stores
//! the sum of its codes too, so that it is Q8_0 in front of weights without a minimum that this sum meets: there it cannot be.
//! Evidence: every product: the tensor in front, the weight, the tensor behind. One answer for each kind of weight and type that the
//! reference ran: F32 of a folded model, which it runs unfolded.
//! What cannot tell them apart: activations of zero, or of few digits.

use super::asking::{Probe, Product, Site};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::exact::ActivationRounding;

const CANDIDATES: &[Candidate] = &[
    candidate("f32", "x"),
    candidate("f16", "x to f16"),
    candidate("bf16", "x to bf16"),
    candidate("q8_0", "d c for each 32, d in f16"),
    candidate("q8_1", "d c for each 32, and their sum for minima"),
    candidate("q8_K", "d c for each 256, d in f32"),
];

pub(super) const QUESTION: Question = Question {
    name: "activation_rounding",
    asks: "to what is an activation rounded in front of a product?",
    candidates: CANDIDATES,
    separated_by: "activations of many digits in front of weights of several types",
    probe: Probe {
        ty: "f32,f16,bf16,q8_0,q4_0,q4_K",
        because: "matrices take turns at types that want different roundings",
        ..Probe::PLAIN
    },
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let kernel = site.kernel()?;
    let rounding = |candidate: &str| match candidate {
        "f16" => Some(ActivationRounding::F16),
        "bf16" => Some(ActivationRounding::Bf16),
        "q8_0" => Some(ActivationRounding::Q8_0(kernel)),
        "q8_1" => Some(ActivationRounding::Q8_1(kernel)),
        "q8_K" => Some(ActivationRounding::Q8K),
        _ => None,
    };
    let all = |_: &Product| true;
    site.each_product(all, |product, x, y| {
        let group = format!("{} {}", product.weight, site.type_run(product.weight)?);
        let of = |candidate: &str| site.multiply_rounded(product.weight, &x, rounding(candidate));
        site.trial(&QUESTION, &group, y, of)
    })
}
