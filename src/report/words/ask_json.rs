//! Answers as versioned JSON, in the manner of the check's: fields are only ever added, and what is not finite is null.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ask::Counts;
use super::number::finite;
use crate::compare::Score;
use crate::question::{Answer, Group, Outcome, Question, TrialScores, Verdict};

/// The version of the schema.
const VERSION: u32 = 1;

/// The document for the answers of one invocation, each with the name of its dump; ends with a line feed.
pub fn ask_json(answers: &[(&str, &Answer)]) -> String {
    let mut counts = Counts::default();
    answers.iter().for_each(|(_, answer)| counts.add(answer));
    let document = Document {
        version: VERSION,
        summary: Summary {
            asked: counts.asked,
            decided: counts.decided,
            tie: counts.tie,
            none_fits: counts.none_fits,
            no_evidence: counts.no_evidence,
            not_applicable: counts.not_applicable,
        },
        answers: answers.iter().map(|(dump, answer)| answer_json(dump, answer)).collect(),
    };
    let mut text = serde_json::to_string(&document).expect("plain structs with string keys");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    summary: Summary,
    answers: Vec<AnswerJson<'a>>,
}

#[derive(Serialize)]
struct Summary {
    asked: u64,
    decided: u64,
    tie: u64,
    none_fits: u64,
    no_evidence: u64,
    not_applicable: u64,
}

#[derive(Serialize)]
struct AnswerJson<'a> {
    dump: &'a str,
    question: &'static str,
    asks: &'static str,
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
    reason: Option<&'a str>,
    layers: usize,
    tokens: usize,
    left_out: &'a BTreeMap<String, usize>,
    candidates: Vec<CandidateJson>,
    groups: Vec<GroupJson<'a>>,
    findings: &'a [String],
}

#[derive(Serialize)]
struct VerdictJson<'a> {
    outcome: &'static str,
    winner: Option<&'static str>,
    among: Vec<&'static str>,
    runner_up: Option<&'static str>,
    margin: Option<f64>,
    nearest: Option<&'static str>,
    diagnosis: &'a [String],
    separated_by: Option<&'static str>,
}

#[derive(Serialize)]
struct CandidateJson {
    name: &'static str,
    means: &'static str,
    same_as: Option<&'static str>,
    #[serde(flatten)]
    score: Option<ScoreJson>,
}

#[derive(Serialize)]
struct ScoreJson {
    elements: u64,
    one_minus_cosine: Option<f64>,
    scaled_error: Option<f64>,
    share: Option<f64>,
    worst_index: u64,
    reference: Option<f64>,
    value: Option<f64>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    name: &'a str,
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
    candidates: Vec<CandidateJson>,
    tensors: Vec<TensorJson<'a>>,
}

#[derive(Serialize)]
struct TensorJson<'a> {
    step: u32,
    name: &'a str,
    occurrence: u32,
    layer: Option<u32>,
    scaled_error: Vec<Option<f64>>,
    one_minus_cosine: Vec<Option<f64>>,
    share: Vec<Option<f64>>,
}

fn answer_json<'a>(dump: &'a str, answer: &'a Answer) -> AnswerJson<'a> {
    let question = answer.question;
    let plain = |outcome| VerdictJson { outcome, ..empty() };
    let (verdict, reason, scores) = match &answer.outcome {
        Outcome::Answered { scores, verdict } => (verdict_json(question, verdict), None, &scores[..]),
        Outcome::ByGroup => (plain("by_group"), None, &[][..]),
        Outcome::NoEvidence(why) => (plain("no_evidence"), Some(why.as_str()), &[][..]),
        Outcome::NotApplicable(why) => (plain("not_applicable"), Some(why.as_str()), &[][..]),
    };
    AnswerJson {
        dump,
        question: question.name,
        asks: question.asks,
        verdict,
        reason,
        layers: answer.layers,
        tokens: answer.tokens,
        left_out: &answer.left_out,
        candidates: candidates(question, scores),
        groups: answer.groups.iter().map(|group| group_json(question, group)).collect(),
        findings: &answer.findings,
    }
}

fn empty<'a>() -> VerdictJson<'a> {
    VerdictJson {
        outcome: "",
        winner: None,
        among: Vec::new(),
        runner_up: None,
        margin: None,
        nearest: None,
        diagnosis: &[],
        separated_by: None,
    }
}

fn verdict_json<'a>(question: &Question, verdict: &'a Verdict) -> VerdictJson<'a> {
    let name = |i: usize| question.candidates[i].name;
    let names = |list: &[usize]| list.iter().map(|&i| name(i)).collect();
    match verdict {
        Verdict::Decided { winner, runner_up, margin } => VerdictJson {
            outcome: "decided",
            winner: winner.first().map(|&i| name(i)),
            among: names(winner),
            runner_up: runner_up.map(name),
            margin: finite(*margin),
            ..empty()
        },
        Verdict::Tie { among } => VerdictJson {
            outcome: "tie",
            among: names(among),
            separated_by: Some(question.separated_by),
            ..empty()
        },
        Verdict::NoneFits { nearest, diagnosis, .. } => {
            VerdictJson { outcome: "none_fits", nearest: Some(name(*nearest)), diagnosis, ..empty() }
        }
    }
}

fn candidates(question: &Question, scores: &[Option<Score>]) -> Vec<CandidateJson> {
    let scores = scores.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let candidate = |(candidate, score): (&crate::question::Candidate, Option<&Score>)| CandidateJson {
        name: candidate.name,
        means: candidate.means,
        same_as: candidate.same_as,
        score: score.map(|score| ScoreJson {
            elements: score.elements,
            one_minus_cosine: finite(score.one_minus_cosine),
            scaled_error: finite(score.scaled_error),
            share: finite(score.share),
            worst_index: score.worst_index,
            reference: finite(score.reference),
            value: finite(score.value),
        }),
    };
    question.candidates.iter().zip(scores).map(candidate).collect()
}

fn group_json<'a>(question: &Question, group: &'a Group) -> GroupJson<'a> {
    let tensor = |trial: &'a TrialScores| {
        let of = |number: fn(&Score) -> f64| {
            trial.scores.iter().map(|score| score.as_ref().and_then(|s| finite(number(s)))).collect()
        };
        TensorJson {
            step: trial.id.step,
            name: &trial.id.name,
            occurrence: trial.id.occurrence,
            layer: trial.id.layer(),
            scaled_error: of(|s| s.scaled_error),
            one_minus_cosine: of(|s| s.one_minus_cosine),
            share: of(|s| s.share),
        }
    };
    GroupJson {
        name: &group.name,
        verdict: verdict_json(question, &group.verdict),
        candidates: candidates(question, &group.scores),
        tensors: group.trials.iter().map(tensor).collect(),
    }
}
