//! `conv_kernel_order`: which end of the convolution's kernel meets the current token?
//!
//! What is unknown: whether the taps of `ssm_conv1d` are stored oldest first.
//! Why it matters: a kernel read backwards gives a causal convolution too, and its widths are right.
//! Candidates: `oldest_first` the last tap meets the current token; `newest_first` the first one does.
//! Evidence: the window and the kernel; what the convolution gives.
//! What cannot tell them apart: kernels that read the same backwards.

use ndarray::{ArrayView2, Axis, stack};

use super::asking::{Probe, Site, packed};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::{TapOrder, ssm_conv};

const CANDIDATES: &[Candidate] = &[
    candidate("oldest_first", "y[t] = sum_j w[j] x[t - (n - 1) + j]"),
    candidate("newest_first", "y[t] = sum_j w[j] x[t - j]"),
];

pub(super) const QUESTION: Question = Question {
    name: "conv_kernel_order",
    asks: "which end of the convolution's kernel meets the current token?",
    candidates: CANDIDATES,
    separated_by: "a kernel that does not read the same backwards",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::DeltaNet)?;
    let d_conv = site.hparams().ssm_d_conv;
    let taps = site.vector("ssm_conv1d.weight")?;
    let channels = taps.len() / d_conv;
    let kernel = ArrayView2::from_shape((channels, d_conv), &taps).expect("the shape was checked on loading");
    let window = site.tensor("conv_input")?;
    let [_, n_seqs, _, columns] = window.shape;
    let window = window.shaped((n_seqs, channels, columns.max(d_conv)))?;
    site.only(&QUESTION, "conv_output_raw", site.tensor("conv_output_raw")?, |candidate| {
        let order = match candidate {
            "oldest_first" => TapOrder::OldestFirst,
            _ => TapOrder::NewestFirst,
        };
        let of_sequences: Vec<_> =
            window.outer_iter().map(|window| ssm_conv(window.t(), kernel, order)).collect();
        let views: Vec<_> = of_sequences.iter().map(|y| y.view()).collect();
        Ok(Some(packed(stack(Axis(0), &views).expect("equally many tokens"))))
    })
}
