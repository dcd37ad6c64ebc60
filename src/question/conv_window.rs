//! `conv_window`: where does the current token lie in the convolution's window?
//!
//! What is unknown: whether the columns of earlier tokens stand in front of the new ones or behind, and which are left behind.
//! Why it matters: every width is right either way, and a sequence of one token from an empty state hides it but for the kernel.
//! Candidates: `current_last` earlier columns, then the new ones; `current_first` the other way round.
//! Evidence: the state's columns and the projection; the window. The window; the columns that it leaves behind.
//! What cannot tell them apart: a projection that is zero.

use ndarray::{Array3, Axis, concatenate, s};

use super::asking::{Held, Probe, Site, packed, those_held};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::model::LayerKind;
use crate::ops::Tracked;

const CANDIDATES: &[Candidate] =
    &[candidate("current_last", "[state, tokens]"), candidate("current_first", "[tokens, state]")];

pub(super) const QUESTION: Question = Question {
    name: "conv_window",
    asks: "where does the current token lie in the convolution's window?",
    candidates: CANDIDATES,
    separated_by: "a token whose projection is not zero",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    site.require(LayerKind::DeltaNet)?;
    let conv = site.hparams().ssm_d_conv;
    let window = site.tensor("conv_input")?;
    let [_, n_seqs, channels, columns] = window.shape;
    let is_last = |candidate: &str| candidate == "current_last";
    let joined = || {
        let past: Array3<Tracked> =
            site.first_of(&["conv_states_reshaped", "conv_states"])?.shaped((n_seqs, channels, conv - 1))?;
        let n_tokens = columns.saturating_sub(conv - 1);
        let new = site.tensor("linear_attn_qkv_mixed")?.shaped((n_seqs, n_tokens, channels))?;
        let new = new.permuted_axes([0, 2, 1]);
        site.trial(&QUESTION, "conv_input", window.clone(), |candidate| {
            let parts =
                if is_last(candidate) { [past.view(), new.view()] } else { [new.view(), past.view()] };
            Ok(Some(packed(concatenate(Axis(2), &parts).expect("equal channels"))))
        })
    };
    let left_behind = |left: Held| {
        let window = window.shaped((n_seqs, channels, columns))?;
        site.trial(&QUESTION, "conv_state_last", left, |candidate| {
            let from = if is_last(candidate) { columns.saturating_sub(conv - 1) } else { 0 };
            Ok(Some(packed(window.slice(s![.., .., from..columns.min(from + conv - 1)]).to_owned())))
        })
    };
    those_held([joined(), site.first_of(&["conv_state_last", "last_conv_states"]).and_then(left_behind)])
}
