//! What the error looks like where no candidate fits.

use super::answer::{Answer, Outcome, Verdict};
use super::{AskError, Site, Stop, Subject};
use crate::compare::{Finding, budget};
use crate::harness::diagnose_node;
use crate::ops::Tracked;
use crate::question::Question;
use crate::tensor::{TensorId, Values};

/// Names the shape of the error of each verdict that no candidate fits: what was done to the values of the nearest one to give
/// those of the dump.
///
/// # Errors
/// If the dump is damaged.
pub(in crate::question) fn diagnose(
    question: &Question,
    subject: &Subject<'_>,
    answer: &mut Answer,
) -> Result<(), AskError> {
    let together = match &mut answer.outcome {
        Outcome::Answered { verdict, .. } => Some(verdict),
        _ => None,
    };
    for verdict in answer.groups.iter_mut().map(|group| &mut group.verdict).chain(together) {
        if let Verdict::NoneFits { nearest, at, diagnosis } = verdict {
            *diagnosis = shapes(question, subject, *nearest, at)?;
        }
    }
    Ok(())
}

/// The shapes of the error of one candidate at one tensor, in words.
fn shapes(
    question: &Question,
    subject: &Subject<'_>,
    candidate: usize,
    at: &TensorId,
) -> Result<Vec<String>, AskError> {
    let layer = at.layer().map(|layer| layer as usize);
    let site = Site { subject: *subject, step: at.step, layer, keep: Some((at, candidate)) };
    let trials = match (question.look)(&site) {
        Ok(trials) => trials,
        Err(Stop::Failed(error)) => return Err(error),
        Err(_) => return Ok(Vec::new()),
    };
    let kept = trials.into_iter().find_map(|trial| Some((trial.kept?, trial.reference)));
    let (Some((numbers, held)), Some(node)) = (kept, subject.dump.find(at)) else { return Ok(Vec::new()) };
    let expected: Vec<f32> = numbers.iter().map(|x| x.value() as f32).collect();
    let found =
        diagnose_node(subject.dump, node, relative_budget(&numbers), &expected, Values::F32(&held.values))?;
    // What an error does not look like is no answer to what it looks like.
    let is_told = |finding: &Finding| finding.is_verified && finding.shape != "equal";
    Ok(found.into_iter().filter(is_told).map(|finding| finding.words).collect())
}

/// How far two right results may be apart, as a share of their length: what rounding may do to every element at once.
fn relative_budget(numbers: &[Tracked]) -> f64 {
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let budgets = length(&mut numbers.iter().map(|x| budget(x.spread(), 1.0)));
    budgets / length(&mut numbers.iter().map(Tracked::value))
}
