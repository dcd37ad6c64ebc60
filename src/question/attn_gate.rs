//! `attn_gate`: how does the gate of attention act?
//!
//! What is unknown: what the gate goes through, and whether it multiplies what attention gives or what the output projection gives.
//! Why it matters: a gate of the wrong kind only weakens or strengthens heads.
//! Candidates: `sigmoid` o sigmoid(g); `silu` o silu(g); `none` o; `after_output` sigmoid(g) W o, if the widths are the same.
//! Evidence: attention's result, the gate and what comes of both; that, and the output projection.
//! What cannot tell them apart: without the output projection, `none` and `after_output`.

use super::asking::{Probe, Site, those_held, unary};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::Tracked;

const CANDIDATES: &[Candidate] = &[
    candidate("sigmoid", "W (o sigmoid(g))"),
    candidate("silu", "W (o silu(g))"),
    candidate("none", "W o"),
    candidate("after_output", "sigmoid(g) W o"),
];

pub(super) const QUESTION: Question = Question {
    name: "attn_gate",
    asks: "how does the gate of attention act?",
    candidates: CANDIDATES,
    separated_by: "a dump that holds attention in front of the gate and behind it, and the output projection",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::Attention)?;
    let is_square = site.hparams().n_embd_q() == site.hparams().n_embd;
    let cannot_be = |candidate: &str| candidate == "after_output" && !is_square;
    let (gate, gated) = (site.tensor("gate_reshaped")?, site.tensor("attn_gated")?);
    let times = |x: Vec<Tracked>, gate: Vec<Tracked>| x.into_iter().zip(gate).map(|(x, g)| x * g).collect();
    let in_front = || {
        let o = site.tensor("attn_pregate")?.shaped(gated.values.len())?.to_vec();
        site.trial(&QUESTION, "attn_gated", gated.clone(), |candidate| {
            Ok(match candidate {
                _ if cannot_be(candidate) => None,
                "sigmoid" => Some(times(o.clone(), unary("SIGMOID", &gate)?)),
                "silu" => Some(times(o.clone(), unary("SILU", &gate)?)),
                _ => Some(o.clone()),
            })
        })
    };
    let behind = || {
        let output = site.tensor("attn_output")?;
        let (factors, plain) = (unary("SIGMOID", &gate)?, output.clone());
        site.trial(&QUESTION, "attn_output", output, |candidate| match candidate {
            _ if cannot_be(candidate) => Ok(None),
            "after_output" => {
                site.product_as_run("attn_output", &gated, &plain, |x| times(x, factors.clone())).map(Some)
            }
            _ => site.product_as_run("attn_output", &gated, &plain, |x| x).map(Some),
        })
    };
    those_held([in_front(), behind()])
}
