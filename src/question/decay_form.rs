//! `decay_form`: how does the gate become the factor by which the state decays?
//!
//! What is unknown: whether the gate is the logarithm of the decay, or what the decay lacks of 1.
//! Why it matters: for gates near 0 both are nearly the same, and the error grows with the number of tokens.
//! Candidates: `exp_of_gate` S <- exp(g) S; `one_plus_gate` S <- (1 + g) S.
//! Evidence: `a_softplus` (or alpha and `ssm_dt.bias`), `ssm_a`, and what else goes into the recurrence; the output and the state.
//! What cannot tell them apart: one token from an empty state: nothing is there to decay.

use ndarray::ArrayView1;

use super::asking::{Probe, Rules, Site, Stop};
use super::{Candidate, Looked, Question, candidate, nothing_else};
use crate::ops::{Number, Tracked, softplus};

const CANDIDATES: &[Candidate] =
    &[candidate("exp_of_gate", "S <- exp(g) S"), candidate("one_plus_gate", "S <- (1 + g) S")];

pub(super) const QUESTION: Question = Question {
    name: "decay_form",
    asks: "how does the gate become the factor by which the state decays?",
    candidates: CANDIDATES,
    separated_by: "more than one token",
    probe: Probe::PLAIN,
    look,
    also: nothing_else,
};

fn look(site: &Site<'_>) -> Looked {
    let net = site.delta_net()?;
    let (dt, a) = (site.vector("ssm_dt.bias")?, site.vector("ssm_a")?);
    let extents = net.log_decay.raw_dim();
    let activated = match site.tensor("a_softplus") {
        Err(Stop::NotHeld(_)) => {
            let mut alpha = site.tensor("alpha")?.shaped(extents)?;
            for head in alpha.rows_mut() {
                head.into_iter().zip(&dt).for_each(|(alpha, &dt)| *alpha = softplus(*alpha + dt));
            }
            alpha
        }
        held => held?.shaped(extents)?,
    };
    let a = ArrayView1::from(&a);
    let gate = activated * a;
    let least = Tracked::exact(f32::MIN_POSITIVE.into());
    net.scored(site, &QUESTION, |candidate, result| {
        let decay = |g: Tracked| match candidate {
            "exp_of_gate" => g,
            // The recurrence takes the exponential of what it is given; a decay is more than 0.
            _ if Tracked::ONE + g > least => (Tracked::ONE + g).ln(),
            _ => least.ln(),
        };
        net.with_log_decay(gate.mapv(decay)).run(result, Rules::default())
    })
}
