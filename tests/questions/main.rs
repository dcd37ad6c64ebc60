//! Questions: every committed dump of llama.cpp is answered right, and every wrong candidate is named.

#[path = "../common/mod.rs"]
mod common;

mod committed;
mod exceptions;
mod run;
mod wrong;

use common::{MICRO_NODES, MINI_PROMPT, MINI_TOKEN, NANO_PROMPT};
use lockstep::question::{Outcome, QUESTIONS, Subject};

/// For working on a question: `ASK=name cargo test --release --test questions scratch -- --nocapture`.
#[test]
fn scratch() {
    let wanted = std::env::var("ASK").unwrap_or_default();
    for reference in [MICRO_NODES, MINI_TOKEN, MINI_PROMPT, NANO_PROMPT] {
        let (built, dump) = (reference.built(), reference.open());
        let subject = Subject::new(&built.model, &dump).unwrap();
        for question in QUESTIONS.iter().filter(|question| question.name.contains(&wanted)) {
            let start = std::time::Instant::now();
            let answer = question.ask(&subject).unwrap();
            println!("== {} {} {:?} {:?}", reference.file, question.name, start.elapsed(), answer.left_out);
            for group in &answer.groups {
                println!("  {} {} trials {:?}", group.name, group.trials.len(), group.verdict);
                for (c, s) in question.candidates.iter().zip(&group.scores) {
                    match s {
                        Some(s) => println!(
                            "     {:20} 1-cos {:.2e} scaled {:.2e} share {:.3}",
                            c.name, s.one_minus_cosine, s.scaled_error, s.share
                        ),
                        None => println!("     {:20} cannot be", c.name),
                    }
                }
            }
            match &answer.outcome {
                Outcome::Answered { verdict, .. } => println!("  -> {verdict:?}"),
                other => println!("  -> {other:?}"),
            }
            answer.findings.iter().for_each(|finding| println!("  {finding}"));
        }
    }
}
