//! For every question and every candidate: an engine that runs it, on the question's own probe, makes the question name it.

use std::collections::BTreeSet;
use std::sync::Mutex;

use lockstep::engine::{ActivationMode, Conventions, CpuKernel};
use lockstep::question::{Answer, Candidate, Outcome, QUESTIONS, Question, Verdict, question};
use lockstep::synth::{Variant, preset};
use lockstep::tensor::GgmlType;
use rayon::prelude::*;

use crate::exceptions::{ELSEWHERE, EXCEPTIONS};
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
        let got = named(&answer, i);
        // Those that are the same by algebra, and no other.
        let of_class = |name: &&str| {
            let j = question.index(name).expect("a candidate's name");
            question.class_of(j) == question.class_of(i)
        };
        let is_named = |names: &[&str]| names.contains(&candidate.name) && names.iter().all(of_class);
        let cannot_be = answer.groups.iter().all(|group| group.scores[i].is_none());
        let fits = match ELSEWHERE.iter().find(|(q, c, _)| (*q, *c) == (question.name, candidate.name)) {
            Some((.., reason)) => cannot_be && !reason.is_empty(),
            None => got.as_ref().is_ok_and(|names| is_named(names)),
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
fn a_wrong_candidate_misleads_no_other_question() {
    let probe = question("fold_order").unwrap();
    let probed = Probed::write(probe);
    let wrong: Vec<(&str, &str)> =
        Conventions::ALL.iter().flat_map(|(name, all)| all[1..].iter().map(|c| (*name, *c))).collect();
    let refused = Mutex::new(BTreeSet::new());
    let misled: Vec<String> = wrong
        .par_iter()
        .flat_map(|&(convention, candidate)| {
            let setting: &'static [(&str, &str)] = Box::leak(Box::new([(convention, candidate)]));
            let Ok(answers) = probed.answers(QUESTIONS, With::Conventions(setting)) else {
                refused.lock().unwrap().insert((convention, candidate));
                return Vec::new();
            };
            // `ssm_out_permutation_time` is part of `ssm_out_permutation`.
            let others = answers.iter().filter(|answer| !convention.starts_with(answer.question.name));
            let names_another = |answer: &&Answer| {
                let right = if answer.question.name == "fold_block" {
                    "128"
                } else {
                    answer.question.candidates[0].name
                };
                named(answer, 0).is_ok_and(|names| !names.contains(&right))
            };
            let misled = others.filter(names_another);
            misled
                .map(|answer| {
                    format!("{convention} = {candidate}: {} {:?}", answer.question.name, named(answer, 0))
                })
                .collect::<Vec<String>>()
        })
        .collect();
    assert!(misled.is_empty(), "{misled:#?}");
    // What the engine cannot run on this model, and nothing else, was not asked.
    let expected =
        [("attn_gate", "after_output"), ("fold_block", "1024"), ("fold_block", "256"), ("fold_block", "512")];
    assert_eq!(refused.into_inner().unwrap(), BTreeSet::from(expected));
}

/// An engine that runs the folded file itself and rounds the transformed activation, as the PrismML fork does.
const NATIVE: With =
    With::Numerics(|numerics| numerics.activations = ActivationMode::Rounded(CpuKernel::X86));

#[test]
fn a_run_of_the_folded_file_itself_may_round_behind_the_transform() {
    let probed = Probed::write(question("fold_order").unwrap());
    for answer in probed.answers(QUESTIONS, NATIVE).unwrap() {
        let name = answer.question.name;
        for group in &answer.groups {
            let right = match name {
                "fold_block" => "128",
                "activation_rounding" if group.name.ends_with(" pq2_0") => "q8_0",
                "activation_rounding" if group.name.ends_with(" bf16") => "bf16",
                _ => answer.question.candidates[0].name,
            };
            let right = answer.question.index(right).unwrap();
            let is_right = match &group.verdict {
                Verdict::Decided { winner, .. } => winner.contains(&right),
                Verdict::Tie { among } => among.contains(&right),
                Verdict::NoneFits { .. } => false,
            };
            assert!(is_right, "{name} {}: {:?}", group.name, group.verdict);
        }
    }
}

#[test]
fn a_block_that_is_none_of_the_others_is_the_files() {
    let mut variant = Variant::from(preset("micro-bonsai").unwrap());
    variant.preset.fold_block = 32;
    let probed = Probed::of(question("fold_block").unwrap(), &variant, GgmlType::PQ2_0);
    assert_eq!(
        named(&probed.answer("from_file", With::Conventions(&[])).unwrap(), 5).unwrap(),
        ["from_file"]
    );
}

#[test]
fn an_error_that_no_candidate_explains_is_none_of_them_and_its_shape_is_named() {
    // Queries twice as large, behind norm and rotation.
    let double = With::Dump(|copy| {
        let names: Vec<(u32, String)> = copy
            .manifest
            .nodes
            .iter()
            .filter(|node| node.name.starts_with("Qcur-"))
            .map(|node| (node.step, node.name.clone()))
            .collect();
        for (step, name) in names {
            copy.change(step, &name, |values| values.iter_mut().for_each(|x| *x *= 2.0));
        }
    });
    let probed = Probed::write(question("rope_pairing").unwrap());
    let answer = probed.answer("half", double).unwrap();
    let Outcome::Answered { verdict: Verdict::NoneFits { at, diagnosis, .. }, .. } = &answer.outcome else {
        panic!("{:?}", answer.outcome);
    };
    assert_eq!(at.kind(), "Qcur");
    assert_eq!(diagnosis.first().map(String::as_str), Some("a factor 2"), "{diagnosis:?}");
    // Keys are as they were.
    let keys = answer.groups.iter().find(|group| group.name == "Kcur").unwrap();
    assert!(matches!(keys.verdict, Verdict::Decided { .. }), "{:?}", keys.verdict);
}

#[test]
fn a_value_that_is_no_number_fits_nothing() {
    let spoiled = With::Dump(|copy| copy.change(0, "kq_soft_max-1", |values| values[0] = f32::NAN));
    let probed = Probed::write(question("attn_scale").unwrap());
    let answer = probed.answer("inverse_sqrt", spoiled).unwrap();
    let is_none = |verdict: &Verdict| matches!(verdict, Verdict::NoneFits { .. });
    assert!(answer.groups.iter().any(|group| is_none(&group.verdict)), "{:?}", answer.groups);
}

#[test]
fn the_exceptions_are_of_candidates_that_exist() {
    let all = EXCEPTIONS.iter().map(|&(q, c, _)| (q, c)).chain(ELSEWHERE.iter().map(|&(q, c, _)| (q, c)));
    for (name, candidate) in all {
        let question = question(name).unwrap();
        assert!(question.index(candidate).is_some(), "{name} = {candidate}");
    }
}
