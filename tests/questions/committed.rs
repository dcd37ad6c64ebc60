//! Every committed dump of llama.cpp: each question is decided for what llama.cpp does, or is a tie that it belongs to.

use std::collections::BTreeMap;
use std::path::Path;

use lockstep::dump::Dump;
use lockstep::harness::Case;
use lockstep::model::Model;
use lockstep::question::{Answer, Group, Outcome, QUESTIONS, Question, Subject, Verdict};

use crate::common::{cache, case_folder};

/// What llama.cpp does, where that is not the question's first candidate: question, case, what the group's name ends with, and
/// the candidate.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    // The block of every folded preset.
    ("fold_block", "", "", "128"),
    // The March 2026 tree normalises by max(norm, eps).
    ("qk_l2_norm", "early-2026", "", "max_norm_eps"),
    // What ggml-cpu's products want, by the type that the reference ran.
    ("activation_rounding", "", " f16", "f16"),
    ("activation_rounding", "", " bf16", "bf16"),
    ("activation_rounding", "", " q1_0", "q8_0"),
    ("activation_rounding", "", " q2_0", "q8_0"),
    ("activation_rounding", "", " q4_0", "q8_0"),
    ("activation_rounding", "", " q8_0", "q8_0"),
    ("activation_rounding", "", " q4_K", "q8_K"),
    ("activation_rounding", "", " q6_K", "q8_K"),
    ("activation_rounding", "", " tq1_0", "q8_K"),
    ("activation_rounding", "", " tq2_0", "q8_K"),
];

/// What is known of the questions of one dump, apart from those that are decided.
const OPEN: &[(&str, &[&str])] = &[];

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference-dumps");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            path.join("case.toml").is_file().then(|| path.file_name().unwrap().to_string_lossy().into_owned())
        })
        .collect();
    names.sort();
    names.iter().map(|name| Case::open(&case_folder(name)).unwrap()).collect()
}

fn right(question: &Question, case: &str, group: &Group) -> &'static str {
    let other = OTHERS
        .iter()
        .find(|(q, c, g, _)| *q == question.name && (c.is_empty() || *c == case) && group.name.ends_with(g));
    other.map_or(question.candidates[0].name, |(.., candidate)| candidate)
}

/// What is wrong with an answer: a group that is decided for another candidate, or a tie without the right one.
fn problems(case: &str, answer: &Answer) -> Vec<String> {
    let mut problems = Vec::new();
    for group in &answer.groups {
        let right = right(answer.question, case, group);
        let index = answer.question.index(right).expect("a candidate's name");
        let fits = match &group.verdict {
            Verdict::Decided { winner, .. } => winner.contains(&index),
            Verdict::Tie { among } => among.contains(&index),
            Verdict::NoneFits { .. } => false,
        };
        if !fits {
            problems
                .push(format!("{} {}: {:?}, not {right}", answer.question.name, group.name, group.verdict));
        }
    }
    problems
}

fn is_decided(answer: &Answer) -> bool {
    match &answer.outcome {
        Outcome::Answered { verdict, .. } => matches!(verdict, Verdict::Decided { .. }),
        Outcome::ByGroup => answer.groups.iter().all(|g| matches!(g.verdict, Verdict::Decided { .. })),
        _ => false,
    }
}

#[test]
fn no_true_dump_decides_for_a_wrong_candidate() {
    let mut open: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in cases() {
        if case.check_made().is_err() {
            continue;
        }
        let Ok(model) = case.build_model(&cache(), &mut |_, _| {}) else { continue };
        let Ok(model) = Model::open(&model) else { continue }; // another architecture
        for dump in &case.dumps {
            let opened = Dump::open(&case.dump_path(dump)).unwrap();
            let subject = Subject::new(&model, &opened).unwrap();
            let name = format!("{}/{}", case.name, dump.file);
            for question in QUESTIONS {
                let answer = question.ask(&subject).unwrap();
                wrong.extend(problems(&case.name, &answer).into_iter().map(|p| format!("{name}: {p}")));
                if !is_decided(&answer) {
                    open.entry(name.clone()).or_default().push(question.name);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let expected: BTreeMap<String, Vec<&str>> =
        OPEN.iter().map(|(dump, questions)| ((*dump).to_owned(), questions.to_vec())).collect();
    assert_eq!(open, expected, "{open:#?}");
}
