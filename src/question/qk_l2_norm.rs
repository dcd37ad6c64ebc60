//! `qk_l2_norm`: how are q and k of the delta net normalised?
//!
//! What is unknown: where the epsilon stands, and whether there is a norm at all.
//! Why it matters: trees of llama.cpp differ in it, and only vectors as short as the epsilon show it.
//! Candidates: `eps_inside` x / sqrt(sum x^2 + eps); `max_norm_eps` x / max(|x|, eps); `none`.
//! Evidence: q and k of each head in front of the norm; behind it.
//! What cannot tell them apart: vectors whose sum of squares is a million times the epsilon and more: rounding hides it.

use ndarray::Axis;

use super::asking::{Probe, Site, packed, those_held};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::{Number, Tracked, l2_norm, rms_norm};

const CANDIDATES: &[Candidate] = &[
    candidate("eps_inside", "x / sqrt(sum x^2 + eps)"),
    candidate("max_norm_eps", "x / max(|x|, eps)"),
    candidate("none", "x"),
];

pub(super) const QUESTION: Question = Question {
    name: "qk_l2_norm",
    asks: "how are q and k of the delta net normalised?",
    candidates: CANDIDATES,
    separated_by: "q and k whose sum of squares is near the epsilon",
    probe: Probe {
        scales: &[("ssm_conv1d", 1.0 / 1024.0)],
        because: "a convolution scaled down until q and k are about as long as the root of the epsilon",
        ..Probe::PLAIN
    },
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::DeltaNet)?;
    let h = site.hparams();
    let (n_k, d, eps) = (h.ssm_n_group, h.ssm_d_state, f64::from(h.f_norm_rms_eps));
    let norm = |x: &str, y: &[&str]| {
        let (x, y) = (site.tensor(x)?.heads(n_k, d)?, site.first_of(y)?);
        // Where the recurrence is a graph of plain operators, q and k are repeated to the heads of v.
        let n_head = y.values.len() / (x.dim().0 * d).max(1);
        let heads: Vec<usize> = (0..n_head).map(|head| head % n_k).collect();
        site.trial(&QUESTION, y.id.kind(), y.clone(), |candidate| {
            let mut x = x.clone();
            match candidate {
                // As ggml's graph has it.
                "eps_inside" => {
                    rms_norm(&mut x, eps / d as f64);
                    x.mapv_inplace(|x| x * Tracked::from_f64(1.0 / (d as f64).sqrt()));
                }
                "max_norm_eps" => l2_norm(&mut x, eps),
                _ => {}
            }
            Ok(Some(packed(x.select(Axis(1), &heads))))
        })
    };
    those_held([norm("q_conv", &["q_conv_predelta"]), norm("k_conv", &["k_conv_predelta", "k_in"])])
}
