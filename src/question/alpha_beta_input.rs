//! `alpha_beta_input`: do alpha and beta see the transformed activation?
//!
//! What is unknown: `ssm_alpha` and `ssm_beta` read the activation that `attn_qkv` reads through a transform; whether they do too.
//! Why it matters: an engine that transforms the activation once for all its readers makes wrong gates of it.
//! Candidates: `plain` W x; `rotated` W H (s . x).
//! Evidence: the products with `ssm_alpha` and `ssm_beta`: the tensor in front, the weight, the tensor behind.
//! What cannot tell them apart: activations of zero.

use super::asking::{Probe, Site, Stop};
use super::{Candidate, Looked, Question, candidate, nothing_else};

const CANDIDATES: &[Candidate] = &[candidate("plain", "W x"), candidate("rotated", "W H (s . x)")];

pub(super) const QUESTION: Question = Question {
    name: "alpha_beta_input",
    asks: "do alpha and beta see the transformed activation?",
    candidates: CANDIDATES,
    separated_by: "activations that are not zero",
    probe: Probe::FOLDED,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.fold()?;
    let is_asked = |weight: &str| matches!(weight, "ssm_alpha" | "ssm_beta");
    site.each_product(
        |product| is_asked(product.weight),
        |product, x, y| {
            if site.transform(product.weight).is_ok() {
                return Err(Stop::NotApplicable(format!("{} is folded itself", product.weight)));
            }
            let transform = site.transform("attn_qkv")?;
            site.trial(&QUESTION, product.weight, y.clone(), |candidate| match candidate {
                "plain" => site.product_as_run(product.weight, &x, &y, |product| product).map(Some),
                _ => site.multiply_folded(product.weight, &x, &y, &transform),
            })
        },
    )
}
