//! For every question and every candidate: an engine that runs it, on the question's own probe, makes the question name it.

use lockstep::question::{Answer, Candidate, Outcome, QUESTIONS, Question, Verdict};
use rayon::prelude::*;

use crate::exceptions::{EXCEPTIONS, TIES};
use crate::run::{Probed, With};

/// How an engine is made to run a candidate: by the convention of the same name, unless there is none.
fn with(question: &Question, candidate: &Candidate) -> With {
    let exception = EXCEPTIONS
        .iter()
        .find(|(q, c, _)| (*q, *c) == (question.name, candidate.name))
        .map(|(.., with)| *with);
    exception.unwrap_or_else(|| {
        let setting: &'static [(&str, &str)] = Box::leak(Box::new([(question.name, candidate.name)]));
        With::Conventions(setting)
    })
}

/// The names of the candidates that an answer is for; where groups are decided apart, those of the groups in which candidate `i` can
/// be.
fn named(answer: &Answer, i: usize) -> Result<Vec<&'static str>, String> {
    let names = |list: &[usize]| list.iter().map(|&i| answer.question.candidates[i].name).collect();
    let of = |verdict: &Verdict| match verdict {
        Verdict::Decided { winner, .. } => Ok(names(winner)),
        other => Err(format!("{other:?}")),
    };
    match &answer.outcome {
        Outcome::Answered { verdict, .. } => of(verdict),
        Outcome::ByGroup => {
            let groups = answer.groups.iter().filter(|group| group.scores[i].is_some());
            let names: Result<Vec<Vec<&str>>, String> = groups.map(|group| of(&group.verdict)).collect();
            names.map(|names| names.concat())
        }
        other => Err(format!("{other:?}")),
    }
}

/// What is wrong with the answers of one question, over all its candidates.
fn problems(question: &'static Question) -> Vec<String> {
    let probed = Probed::write(question);
    let mut problems = Vec::new();
    for (i, candidate) in question.candidates.iter().enumerate() {
        let answer = match probed.answer(candidate.name, with(question, candidate)) {
            Ok(answer) => answer,
            Err(error) => {
                problems.push(format!("{} = {}: {error}", question.name, candidate.name));
                continue;
            }
        };
        let tie = TIES.iter().find(|(q, c, ..)| (*q, *c) == (question.name, candidate.name));
        let got = named(&answer, i);
        let fits = match (&got, tie) {
            (Ok(names), None) => {
                // Those that are the same by algebra, and no other.
                let of_class = |name: &&str| {
                    let j = question.index(name).expect("a candidate's name");
                    question.class_of(j) == question.class_of(i)
                };
                names.contains(&candidate.name) && names.iter().all(|name| of_class(name))
            }
            (Err(_), Some((.., reason))) => !reason.is_empty(),
            _ => false,
        };
        if !fits {
            let scores: Vec<String> = answer
                .groups
                .iter()
                .map(|group| {
                    let shares = group.scores.iter().map(|s| s.as_ref().map_or(f64::NAN, |s| s.share));
                    format!("{} {:.3?}", group.name, shares.collect::<Vec<f64>>())
                })
                .collect();
            problems.push(format!("{} = {}: {got:?}; {scores:?}", question.name, candidate.name));
        }
    }
    problems
}

#[test]
fn every_candidate_is_named_on_the_probe_of_its_question() {
    let problems: Vec<String> = QUESTIONS.par_iter().flat_map(|question| problems(question)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn the_exceptions_are_of_candidates_that_exist() {
    let all = EXCEPTIONS.iter().map(|&(q, c, _)| (q, c)).chain(TIES.iter().map(|&(q, c, _)| (q, c)));
    for (name, candidate) in all {
        let question = lockstep::question::question(name).unwrap();
        assert!(question.index(candidate).is_some(), "{name} = {candidate}");
    }
}
