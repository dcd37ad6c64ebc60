//! Invariants: what an engine must do whatever the model, found without a reference. One run that cannot go wrong in the way
//! that is looked for stands beside another that can.
//!
//! Compared are, for every token by its sequence and position, `l_out` of every layer and the logits, and at the end the
//! state of every sequence. Where both runs do the same arithmetic the bits must be equal; where sums are taken in another order, the
//! distance is judged against the noise floor, as a cumulative check is ([`Limit::of_floor`]).

mod floor;
mod plans;
mod script;
mod subject;
mod trace;

use std::collections::BTreeMap;

pub use plans::INVARIANTS;
pub use subject::{CpuSubject, GpuSubject, Subject, SumOrder};

use self::floor::TokenFloor;
use self::plans::{Cuts, Plan, Prompts};
use self::script::Script;
use self::trace::Trace;
use super::HarnessError;
use crate::compare::Limit;

/// What two runs are judged by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JudgedBy {
    /// Both do the same arithmetic: every bit is equal.
    Bits,
    /// Sums are taken in another order: 16 times the noise floor.
    Floor,
}

/// The first place where two runs are too far apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Departure {
    /// The step of the second run.
    pub step: u32,
    /// The token's sequence.
    pub sequence: i32,
    /// Its position; of a state, the last one that went into it.
    pub position: i64,
    /// `l_out-5`, `result_output`, or `recurrent state of blk.5`.
    pub tensor: String,
    /// The distance, relative L2.
    pub relative_l2: f64,
    /// What was accepted.
    pub limit: f64,
}

/// Two runs compared.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Which invariant.
    pub invariant: &'static str,
    /// Which engine, in which arithmetic and by which route.
    pub subject: String,
    /// Tokens of the longest sequence.
    pub length: usize,
    /// What the second run did: `64 + 1`.
    pub what: String,
    /// What they were judged by.
    pub judged_by: JudgedBy,
    /// Rows and states that were compared.
    pub compared: u64,
    /// The largest distance, relative L2.
    pub worst: f64,
    /// The largest share of a limit; only where a floor judges.
    pub share: Option<f64>,
    /// Where they first differ, if they do.
    pub first: Option<Departure>,
}

impl Outcome {
    /// Whether something was compared and nothing was off.
    pub fn is_pass(&self) -> bool {
        self.compared > 0 && self.first.is_none()
    }
}

/// What was not tried, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotTried {
    /// Which invariant.
    pub invariant: &'static str,
    /// Which engine.
    pub subject: String,
    /// Why.
    pub reason: String,
}

/// What all invariants gave.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Invariants {
    /// Two runs each.
    pub outcomes: Vec<Outcome>,
    /// What could not be tried.
    pub not_tried: Vec<NotTried>,
}

impl Invariants {
    /// Whether something was compared, and all of it passes.
    pub fn is_pass(&self) -> bool {
        !self.outcomes.is_empty() && self.outcomes.iter().all(Outcome::is_pass)
    }
}

/// Lengths at which state goes wrong: one token, fewer than the convolution's columns, and around chunks of 64.
pub const LENGTHS: [usize; 11] = [1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 130];

/// Holds every engine to every invariant at the given lengths. `tokens` are cut into prompts; they are repeated if they are
/// too few.
///
/// # Errors
/// If an engine cannot run.
pub fn invariants(
    subjects: &[&dyn Subject],
    tokens: &[u32],
    lengths: &[usize],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Invariants, HarnessError> {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let prompts = Prompts::cut(tokens, longest + plans::EXTRA)?;
    let mut planned = Vec::new();
    let mut result = Invariants::default();
    for &subject in subjects {
        for invariant in INVARIANTS {
            if let Err(reason) = invariant.applies(subject) {
                let (invariant, subject) = (invariant.name, subject.name());
                result.not_tried.push(NotTried { invariant, subject, reason });
                continue;
            }
            for &length in lengths {
                let plans = (invariant.plan)(&prompts, length);
                planned.extend(plans.into_iter().map(|plan| (subject, invariant.name, length, plan)));
            }
        }
    }
    for (at, &subject) in subjects.iter().enumerate() {
        for &other in &subjects[at + 1..] {
            for &length in lengths {
                planned.push((other, plans::ROUTES, length, plans::routes(&prompts, length, subject)));
            }
        }
    }
    let mut runner = Runner { floors: BTreeMap::new(), last: None, prompts: &prompts };
    let total = planned.len() as u64;
    for (done, (subject, invariant, length, plan)) in planned.into_iter().enumerate() {
        progress(done as u64, total);
        result.outcomes.push(runner.run(subject, invariant, length, plan)?);
    }
    progress(total, total);
    Ok(result)
}

/// Keeps what several comparisons need.
struct Runner<'a> {
    /// By subject.
    floors: BTreeMap<String, TokenFloor>,
    /// The expected run of the last comparison, which the next one often shares.
    last: Option<(String, Script, Trace)>,
    prompts: &'a Prompts,
}

impl Runner<'_> {
    fn run(
        &mut self,
        subject: &dyn Subject,
        invariant: &'static str,
        length: usize,
        plan: Plan<'_>,
    ) -> Result<Outcome, HarnessError> {
        let of = plan.of.unwrap_or(subject);
        let is_alike = match subject.sum_order() {
            SumOrder::ByToken => true,
            SumOrder::ByUbatch => plan.cuts != Cuts::Other,
            SumOrder::ByBatch => plan.cuts == Cuts::Same,
        };
        let judged_by = if is_alike && plan.of.is_none() { JudgedBy::Bits } else { JudgedBy::Floor };
        let is_known = |last: &(String, Script, Trace)| last.0 == of.name() && last.1 == plan.expected;
        if !self.last.as_ref().is_some_and(is_known) {
            let trace = script::record(of, &plan.expected)?;
            self.last = Some((of.name(), plan.expected.clone(), trace));
        }
        if judged_by == JudgedBy::Floor && !self.floors.contains_key(&of.name()) {
            self.floors.insert(of.name(), TokenFloor::measure(of, self.prompts)?);
        }
        let floor = match judged_by {
            JudgedBy::Bits => None,
            JudgedBy::Floor => self.floors.get(&of.name()),
        };
        let Some((_, _, expected)) = &self.last else { unreachable!("recorded above") };
        let limit = |sequence, position, layer| match floor {
            None => Limit::EQUAL,
            Some(floor) => Limit::of_floor(floor.at(sequence, position, layer)),
        };
        let found = script::compare(subject, &plan.actual, expected, &limit)?;
        Ok(Outcome {
            invariant,
            subject: match plan.of {
                None => subject.name(),
                Some(of) => format!("{}, {}", of.name(), subject.name()),
            },
            length,
            what: plan.what,
            judged_by,
            compared: found.compared,
            worst: found.worst,
            share: floor.map(|_| found.share),
            first: found.first,
        })
    }
}
