//! `attn_gate`: how does the gate of attention act?
//!
//! What is unknown: what the gate goes through, and whether it multiplies what attention gives or what the output projection gives.
//! Why it matters: a gate of the wrong kind only weakens or strengthens heads.
//! Candidates: `sigmoid` o sigmoid(g); `silu` o silu(g); `none` o; `after_output` sigmoid(g) W o, if the widths are the same.
//! Evidence: attention's result, the gate and what comes of both; that, and the output projection.
//! What cannot tell them apart: without the output projection, `none` and `after_output`.

use super::asking::{Probe, Site, those_held, times, unary};
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
    let (gate, gated) = (site.tensor("gate_reshaped")?, site.tensor("attn_gated")?);
    let activated = unary("SIGMOID", &gate)?;
    let in_front = || {
        let o = site.tensor("attn_pregate")?.shaped(gated.values.len())?.to_vec();
        site.trial(&QUESTION, "attn_gated", gated.clone(), |candidate| {
            Ok(match candidate {
                "sigmoid" => Some(times(&o, &activated)),
                "silu" => Some(times(&o, &unary("SILU", &gate)?)),
                "after_output" if !is_square => None,
                _ => Some(o.clone()),
            })
        })
    };
    let behind = || {
        let output = site.tensor("attn_output")?;
        let product = |then: &dyn Fn(Vec<Tracked>) -> Vec<Tracked>| {
            site.product_as_run("attn_output", &gated, &output, then)
        };
        let plain = product(&|x| x)?;
        let after = is_square.then(|| product(&|x| times(&x, &activated))).transpose()?;
        site.trial(&QUESTION, "attn_output", output.clone(), |candidate| {
            Ok(if candidate == "after_output" { after.clone() } else { Some(plain.clone()) })
        })
    };
    those_held([in_front(), behind()])
}
