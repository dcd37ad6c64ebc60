//! Every committed dump of llama.cpp: each question is decided for what llama.cpp does, or is a tie that it belongs to.

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

/// For each dump: how many questions are decided, and which are a tie. The others are without evidence there, or do not apply.
const DUMPS: &[(&str, usize, &[&str])] = &[
    ("early-2026/nodes-4.npz", 22, &[]),
    ("micro-bonsai/nodes-5.npz", 38, &["rope_sections", "rms_norm_eps_place"]),
    ("micro-bonsai/prompt-130.npz", 6, &[]),
    // One token at position 0: nothing rotates, one key has all the attention, the state predicts nothing.
    (
        "mini-bonsai/token-1.npz",
        31,
        &[
            "qk_norm",
            "rope_pairing",
            "rope_dims",
            "rope_base",
            "rope_sections",
            "attn_scale",
            "decay_form",
            "update_rule",
            "rms_norm_eps_place",
        ],
    ),
    ("mini-bonsai/prompt-7-decode-4.npz", 39, &["rope_sections"]),
    ("nano-mixed-prompt/prompt-2.npz", 31, &["rope_sections", "rms_norm_eps_place"]),
    ("nano-mixed-prompt/prompt-2-scalar.npz", 31, &["rope_sections", "rms_norm_eps_place"]),
    ("nano-mixed-prompt/logits-11.npz", 3, &[]),
    ("nano-mixed-prompt/logits-11-scalar.npz", 3, &[]),
    ("nano-mixed-token/token-1.npz", 19, &["decay_form", "update_rule", "view_layout", "rms_norm_eps_place"]),
    ("rollback/back-1.npz", 22, &[]),
    // A head of 64 with sections that reach the fourth channel: its pairs do not turn, which shows which they are.
    ("sequences/interleaved.npz", 38, &[]),
    ("unfused/prompt-65-decode-2.npz", 1, &[]),
    // One token in each step: a view of one token lies as its root does.
    ("unfused/nodes-2.npz", 21, &["view_layout"]),
];

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

/// What became of an answer.
#[derive(PartialEq, Eq)]
enum Kind {
    Decided,
    Tie,
    NotAsked,
}

fn kind(answer: &Answer) -> Kind {
    let of = |verdict: &Verdict| match verdict {
        Verdict::Decided { .. } => Kind::Decided,
        _ => Kind::Tie,
    };
    match &answer.outcome {
        Outcome::Answered { verdict, .. } => of(verdict),
        Outcome::ByGroup if answer.groups.iter().all(|group| of(&group.verdict) == Kind::Decided) => {
            Kind::Decided
        }
        Outcome::ByGroup => Kind::Tie,
        Outcome::NoEvidence(_) | Outcome::NotApplicable(_) => Kind::NotAsked,
    }
}

#[test]
fn no_true_dump_decides_for_a_wrong_candidate() {
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    for case in cases() {
        if case.dumps.iter().any(|dump| !dump.committed) {
            continue; // it is made on demand, and need not be here
        }
        let Ok(path) = case.build_model(&cache(), &mut |_, _| {}) else { continue }; // it is fetched
        let Ok(model) = Model::open(&path) else { continue }; // another architecture
        for dump in &case.dumps {
            let opened = Dump::open(&case.dump_path(dump)).unwrap();
            let subject = Subject::new(&model, &opened).unwrap();
            let answers: Vec<Answer> =
                QUESTIONS.iter().map(|question| question.ask(&subject).unwrap()).collect();
            let name = format!("{}/{}", case.name, dump.file);
            wrong.extend(
                answers
                    .iter()
                    .flat_map(|answer| problems(&case.name, answer))
                    .map(|p| format!("{name}: {p}")),
            );
            let decided = answers.iter().filter(|answer| kind(answer) == Kind::Decided).count();
            let ties: Vec<&str> = answers
                .iter()
                .filter(|answer| kind(answer) == Kind::Tie)
                .map(|answer| answer.question.name)
                .collect();
            found.push((name, decided, ties));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let expected: Vec<(String, usize, Vec<&str>)> =
        DUMPS.iter().map(|(dump, decided, ties)| ((*dump).to_owned(), *decided, ties.to_vec())).collect();
    assert_eq!(found, expected);
}
