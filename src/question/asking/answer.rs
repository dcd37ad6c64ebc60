//! What a question's candidates came to.

use std::collections::{BTreeMap, BTreeSet};

use super::{Stop, Trial};
use crate::compare::Score;
use crate::question::Question;
use crate::tensor::TensorId;

/// What the candidates' scores say.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// One candidate explains everything by rounding, and no other does (those that are the same apart).
    Decided {
        /// Indices of the candidate, and of those that are the same by algebra.
        winner: Vec<usize>,
        /// The nearest of the others; none if there is no other.
        runner_up: Option<usize>,
        /// How many times larger the runner-up's scaled error is; infinite if the winner has none.
        margin: f64,
    },
    /// Several explain everything: this dump cannot tell them apart.
    Tie {
        /// Indices of the candidates.
        among: Vec<usize>,
    },
    /// No candidate explains everything.
    NoneFits {
        /// The one that comes nearest.
        nearest: usize,
        /// The tensor where that one is farthest off.
        at: TensorId,
        /// What its error looks like.
        diagnosis: Vec<String>,
    },
}

/// What is found for one kind of weight or tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Which kind.
    pub name: String,
    /// Tensors looked at, in the order of the graph.
    pub trials: Vec<TrialScores>,
    /// The worst of each candidate; none where it cannot be on this model.
    pub scores: Vec<Option<Score>>,
    /// What they say.
    pub verdict: Verdict,
}

/// The scores at one tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct TrialScores {
    /// The reference's tensor.
    pub id: TensorId,
    /// One for each candidate.
    pub scores: Vec<Option<Score>>,
}

/// What became of a question.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// It was asked, and all groups together say this.
    Answered {
        /// The worst of each candidate over all groups.
        scores: Vec<Option<Score>>,
        /// What they say.
        verdict: Verdict,
    },
    /// Each group is decided, and not all for the same candidate.
    ByGroup,
    /// The dump holds nothing that it could be asked of.
    NoEvidence(String),
    /// It is not a question about this model.
    NotApplicable(String),
}

/// The answer to a question.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The question.
    pub question: &'static Question,
    /// One for each kind of weight or tensor, in the order in which they were met.
    pub groups: Vec<Group>,
    /// All together.
    pub outcome: Outcome,
    /// Layers looked at.
    pub layers: usize,
    /// Tokens of the steps that were looked at.
    pub tokens: usize,
    /// How many sites could not be looked at, by reason.
    pub left_out: BTreeMap<String, usize>,
    /// What else was found.
    pub findings: Vec<String>,
}

impl Answer {
    /// The steps that were looked at, ascending.
    pub(in crate::question) fn steps(&self) -> impl Iterator<Item = u32> {
        let trials = self.groups.iter().flat_map(|group| &group.trials);
        trials.map(|trial| trial.id.step).collect::<BTreeSet<u32>>().into_iter()
    }
}

/// The worst of each candidate.
pub(in crate::question) fn worst<'a>(
    trials: impl Iterator<Item = &'a [Option<Score>]>,
    candidates: usize,
) -> Vec<Option<Score>> {
    let mut worst: Vec<Option<Score>> = Vec::new();
    for scores in trials {
        if worst.is_empty() {
            worst = scores.to_vec();
            continue;
        }
        for (worst, score) in worst.iter_mut().zip(scores) {
            match (worst.as_mut(), score) {
                (Some(worst), Some(score)) => worst.join(score),
                // What cannot be somewhere cannot be the answer.
                _ => *worst = None,
            }
        }
    }
    worst.resize(candidates, None);
    worst
}

/// What scores say, the diagnosis apart.
pub(in crate::question) fn judge(
    question: &Question,
    scores: &[Option<Score>],
    trials: &[TrialScores],
) -> Verdict {
    let fits: Vec<usize> = indices(scores, Score::fits);
    let class = |i: usize| question.class_of(i);
    match fits.first() {
        None => {
            let nearest = nearest(scores, |_| true).unwrap_or(0);
            let share =
                |trial: &&TrialScores| trial.scores[nearest].as_ref().map_or(0.0, |score| score.share);
            let at = trials.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
            let nowhere = TensorId { step: 0, name: String::new(), occurrence: 0 };
            let at = at.map_or(nowhere, |trial| trial.id.clone());
            Verdict::NoneFits { nearest, at, diagnosis: Vec::new() }
        }
        Some(&first) if fits.iter().all(|&i| class(i) == class(first)) => {
            let runner_up = nearest(scores, |i| class(i) != class(first));
            let error = |i: usize| scores[i].as_ref().map_or(f64::INFINITY, |score| score.scaled_error);
            let margin = runner_up.map_or(f64::INFINITY, |other| error(other) / error(first));
            Verdict::Decided { winner: fits, runner_up, margin }
        }
        Some(_) => Verdict::Tie { among: fits },
    }
}

fn indices(scores: &[Option<Score>], of: impl Fn(&Score) -> bool) -> Vec<usize> {
    (0..scores.len()).filter(|&i| scores[i].as_ref().is_some_and(&of)).collect()
}

/// The candidate with the smallest scaled error.
fn nearest(scores: &[Option<Score>], wanted: impl Fn(usize) -> bool) -> Option<usize> {
    let error = |i: &usize| scores[*i].as_ref().map_or(f64::INFINITY, |score| score.scaled_error);
    let possible = (0..scores.len()).filter(|&i| scores[i].is_some() && wanted(i));
    possible.min_by(|a, b| error(a).total_cmp(&error(b)))
}

/// Sorts what was found at all sites.
pub(in crate::question) fn sort(
    question: &'static Question,
    looked: Vec<Result<Vec<Trial>, Stop>>,
) -> Result<Answer, super::AskError> {
    let mut answer = Answer {
        question,
        groups: Vec::new(),
        outcome: Outcome::ByGroup,
        layers: 0,
        tokens: 0,
        left_out: BTreeMap::new(),
        findings: Vec::new(),
    };
    let mut not_applicable = None;
    let mut layers = BTreeSet::new();
    for found in looked {
        let reason = match found {
            Ok(trials) => {
                for trial in trials {
                    layers.insert(trial.layer);
                    let scores = TrialScores { id: trial.reference.id, scores: trial.scores };
                    match answer.groups.iter_mut().find(|group| group.name == trial.group) {
                        Some(group) => group.trials.push(scores),
                        None => answer.groups.push(Group {
                            name: trial.group,
                            trials: vec![scores],
                            scores: Vec::new(),
                            verdict: Verdict::Tie { among: Vec::new() },
                        }),
                    }
                }
                continue;
            }
            Err(Stop::Elsewhere) => continue,
            Err(Stop::NotHeld(kind)) => format!("{kind} is not in the dump"),
            Err(Stop::OtherType { kind, ty }) => format!("{kind} is in the dump as {ty}, not as f32"),
            Err(Stop::NotKnown(what)) => format!("not known: {what}"),
            Err(Stop::NotApplicable(why)) => {
                not_applicable.get_or_insert(why);
                continue;
            }
            Err(Stop::Failed(error)) => return Err(error),
        };
        *answer.left_out.entry(reason).or_default() += 1;
    }
    answer.layers = layers.iter().flatten().count();
    let n = question.candidates.len();
    for group in &mut answer.groups {
        group.scores = worst(group.trials.iter().map(|trial| &trial.scores[..]), n);
        group.verdict = judge(question, &group.scores, &group.trials);
    }
    answer.outcome = outcome(question, &answer, not_applicable);
    Ok(answer)
}

fn outcome(question: &Question, answer: &Answer, not_applicable: Option<String>) -> Outcome {
    if answer.groups.is_empty() {
        return match (not_applicable, answer.left_out.iter().max_by_key(|(_, n)| **n)) {
            (Some(why), _) => Outcome::NotApplicable(why),
            (None, Some((reason, _))) => Outcome::NoEvidence(reason.clone()),
            (None, None) => Outcome::NotApplicable("no layer of the model has it".to_owned()),
        };
    }
    let scores = worst(answer.groups.iter().map(|group| &group.scores[..]), question.candidates.len());
    let trials: Vec<TrialScores> = answer.groups.iter().flat_map(|group| group.trials.clone()).collect();
    let verdict = judge(question, &scores, &trials);
    let all_answered = answer.groups.iter().all(|group| !matches!(group.verdict, Verdict::NoneFits { .. }));
    if matches!(verdict, Verdict::NoneFits { .. }) && all_answered {
        return Outcome::ByGroup;
    }
    Outcome::Answered { scores, verdict }
}
