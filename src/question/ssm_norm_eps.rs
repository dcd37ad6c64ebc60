//! `ssm_norm_eps`: which epsilon has the norm of the delta net's output?
//!
//! What is unknown: whether it is the model's, or the model's times the head size; and which o it belongs to (docs/ssm-norm-eps.md).
//! Why it matters: it shows in heads of small values only, and there it is a wrong factor.
//! Candidates: o = S q / sqrt(d) is `attn_output`. `plain` o with eps; `unscaled_times_head_dim` sqrt(d) o with d eps, which is the same;
//! `times_head_dim` o with d eps; `over_head_dim` sqrt(d) o with eps, which is o with eps / d.
//! Evidence: the recurrence's output; the norm behind it. The epsilon is solved for, too.
//! What cannot tell them apart: heads whose mean square is a million times the epsilon and more.

use super::asking::{Probe, Site, normalised, solved};
use super::{AskError, Candidate, Looked, Question, Subject, candidate};
use crate::ops::{Number, Tracked};

const CANDIDATES: &[Candidate] = &[
    candidate("plain", "o / sqrt(mean(o^2) + eps)"),
    Candidate {
        same_as: Some("plain"),
        ..candidate("unscaled_times_head_dim", "p / sqrt(mean(p^2) + d eps), p = sqrt(d) o = S q")
    },
    candidate("times_head_dim", "o / sqrt(mean(o^2) + d eps)"),
    candidate("over_head_dim", "p / sqrt(mean(p^2) + eps), p = sqrt(d) o = S q"),
];

pub(super) const QUESTION: Question = Question {
    name: "ssm_norm_eps",
    asks: "which epsilon has the norm of the delta net's output?",
    candidates: CANDIDATES,
    separated_by: "heads whose mean square is near the epsilon",
    probe: Probe::PLAIN,
    look,
    also,
};

fn look(site: &Site<'_>) -> Looked {
    let norm = site.gated_norm()?;
    let (d, eps) = (norm.o.dim().2 as f64, f64::from(site.hparams().f_norm_rms_eps));
    site.only(&QUESTION, norm.result.id.kind(), norm.result.clone(), |candidate| {
        let unscaled = || norm.o.mapv(|o| o * Tracked::from_f64(d.sqrt()));
        Ok(Some(norm.result_of(match candidate {
            "plain" => normalised(norm.o.clone(), eps),
            "unscaled_times_head_dim" => normalised(unscaled(), d * eps),
            "times_head_dim" => normalised(norm.o.clone(), d * eps),
            _ => normalised(unscaled(), eps),
        })))
    })
}

fn also(subject: &Subject<'_>) -> Result<Vec<String>, AskError> {
    let norms = subject.each(Site::gated_norm)?;
    let h = subject.model().hparams();
    let (d, eps) = (h.ssm_d_state as f64, h.f_norm_rms_eps);
    let (Some(o), Some(p)) = (solved(&norms, 1.0), solved(&norms, d.sqrt())) else { return Ok(Vec::new()) };
    let times_d = d * f64::from(eps);
    Ok(vec![format!(
        "solved epsilon: {o} for o as it is (attn_output), {p} for o without its factor 1/sqrt({d}); {} heads that spread by {:.2} of \
         what rounding explains; the model's eps is {eps:e}, times the head size {times_d:.1e}",
        o.heads, o.spread
    )])
}
