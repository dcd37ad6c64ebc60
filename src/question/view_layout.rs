//! `view_layout`: were the values of a view read where they lie?
//!
//! What is unknown: a view picks elements out of another tensor's memory; whether the dump followed its strides.
//! Why it matters: a dumper that copies as many bytes from the view's first one gives values that are plausible, and of other
//! heads or tokens; every comparison with them fails, and none says why.
//! Candidates: `strided` each element at its strides; `packed` the elements that follow the first.
//! Evidence: views with their roots: q, k, v of the delta net behind the convolution, queries of attention. Equal to the last
//! bit. Where a dump stores no views (`--views`), they are read from their roots by the strides that it gives.
//! What cannot tell them apart: one token in a step, of the delta net's; one head, of attention's.

use super::asking::{Probe, Site, Stop, those_held};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;

const CANDIDATES: &[Candidate] =
    &[candidate("strided", "where the strides lead"), candidate("packed", "one after the other")];

pub(super) const QUESTION: Question = Question {
    name: "view_layout",
    asks: "were the values of a view read where they lie?",
    candidates: CANDIDATES,
    separated_by: "several tokens in a step",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let h = site.hparams();
    let (key, heads) = (h.ssm_d_key(), 0..h.n_head);
    // The root, elements of one of its tokens, and where in them each view takes a run.
    let (root, width, views) = match site.layer.map(|il| h.layers[il]) {
        None => return Err(Stop::Elsewhere),
        Some(LayerKind::Attention) => {
            let query = heads.map(|head| 2 * head * h.n_embd_head).map(|at| at..at + h.n_embd_head).collect();
            ("Qcur_full", 2 * h.n_embd_q(), vec![("Qcur_reshaped", query)])
        }
        Some(LayerKind::DeltaNet) => {
            let (q, k, v) = (0..key, key..2 * key, 2 * key..h.conv_channels());
            let views = [("q_conv", q), ("k_conv", k), ("v_conv_predelta", v)];
            ("conv_output_silu", h.conv_channels(), views.map(|(kind, run)| (kind, vec![run])).into())
        }
    };
    let root = site.tensor(root)?.rows(width)?;
    those_held(views.iter().map(|(kind, runs)| {
        let view = site.tensor(kind)?;
        let count = view.values.len();
        site.trial(&QUESTION, kind, view, |candidate| {
            let strided =
                root.outer_iter().flat_map(|row| runs.iter().cloned().flatten().map(move |i| row[i]));
            let packed = root.iter().skip(runs[0].start).copied();
            Ok(Some(if candidate == "strided" { strided.collect() } else { packed.take(count).collect() }))
        })
    }))
}
