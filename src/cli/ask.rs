//! `lockstep ask`: which convention a dump follows.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

use super::header::{model_line, reference_line};
use super::output::{require_folder, write};
use super::subject::{Subject as Files, SubjectArgs, Which};
use super::{COULD_NOT_RUN, DIFFERENCE, probe, progress};
use crate::dump::Dump;
use crate::gguf::sha256;
use crate::harness::check_model;
use crate::model::Model;
use crate::question::{Answer, Outcome, QUESTIONS, Question, Subject, Verdict, question};
use crate::report::{AskOptions, answer_table, ask_json, ask_line, brief_table};

/// The architecture that questions are about.
const ARCHITECTURE: &str = "qwen35";

#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  lockstep ask --list
  lockstep ask reference-dumps/mini-bonsai
      every question, of every dump of the case
  lockstep ask reference-dumps/mini-bonsai gdn_head_map rope_sections --layers
  lockstep ask reference-dumps/mini-bonsai --brief
      the same, one line for each question
  lockstep ask --model my-model.gguf --dump my-dump.npz
      what an engine's or another llama.cpp's dump of this model follows
  lockstep ask --probe rope_sections
      writes the smallest model that separates the candidates, and says how to dump it

Every candidate is evaluated in f64 from what the dump holds in front of an operator, and compared with what it holds behind it. One
that rounding explains everywhere, alone, is decided; several are a tie; none is an answer too, with the shape of its error.

Exit codes: 0 every question that was asked is decided or a tie; 1 one has no fitting candidate; 2 nothing could be asked, or
it could not run.")]
pub(super) struct Args {
    /// Case folders (with a case.toml), and questions; without a question all are asked
    #[arg(value_name = "CASE|QUESTION")]
    names: Vec<String>,
    /// The model: a GGUF file, or the first part of a split one
    #[arg(long, value_name = "M", requires = "dump")]
    model: Option<PathBuf>,
    /// What was computed from it, or from its unfolded twin
    #[arg(long, value_name = "D", requires = "model")]
    dump: Option<PathBuf>,
    /// Name every question, with one line each
    #[arg(long, conflicts_with_all = ["names", "model", "probe"])]
    list: bool,
    /// One line for each question
    #[arg(long, conflicts_with = "layers")]
    brief: bool,
    /// Show the scores of every layer and tensor too
    #[arg(long)]
    layers: bool,
    /// Show all of them, not only the first 20
    #[arg(long, requires = "layers")]
    all: bool,
    /// Write the answers as JSON
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Write the smallest model that separates the candidates of this question
    #[arg(long, value_name = "QUESTION", conflicts_with_all = ["names", "model", "json", "layers"])]
    probe: Option<String>,
    /// Where to write it
    #[arg(long, value_name = "FOLDER", requires = "probe")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    if args.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &args.probe {
        let question = question(name)?;
        let out = args.out.unwrap_or_else(|| PathBuf::from(format!("probe-{name}")));
        probe::write(question, &out)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.json {
        require_folder(path)?;
    }
    let (questions, cases) = sorted(&args.names)?;
    if let (Some(case), Some(_)) = (cases.first(), &args.model) {
        bail!("both the case folder `{}` and --model are given: ask one after the other", case.display());
    }
    let options = AskOptions { layers: args.layers, all: args.all };
    let subjects = SubjectArgs::new(cases, args.model, args.dump).resolve(Which::Folded)?;
    let skipped = subjects.skipped.clone();
    let mut answers: Vec<(String, Answer)> = Vec::new();
    for Files { model, dumps, .. } in subjects {
        let mut opened = None;
        for (name, path) in dumps {
            let dump = Dump::open(&path)?;
            let architecture = &dump.manifest().model.architecture;
            if architecture != ARCHITECTURE {
                println!("{name}: questions are about {ARCHITECTURE}, this is {architecture}\n");
                continue;
            }
            if opened.is_none() {
                opened = Some((Model::open(&model)?, sha256(&model)?));
            }
            let (model, sha256) = opened.as_ref().expect("just opened");
            check_model(sha256, &dump)?;
            println!("{}\n{}\n", model_line(&name, model), reference_line(&dump));
            let subject = Subject::new(model, &dump)?;
            let of_dump = ask(&name, &questions, &subject, (!args.brief).then_some(options))?;
            if args.brief {
                let of_dump: Vec<&Answer> = of_dump.iter().map(|(_, answer)| answer).collect();
                println!("{}", brief_table(&of_dump));
            }
            answers.extend(of_dump);
        }
    }
    if let Some(path) = &args.json {
        let named: Vec<(&str, &Answer)> = answers.iter().map(|(name, answer)| (&name[..], answer)).collect();
        write(path, &ask_json(&named))?;
    }
    let all: Vec<&Answer> = answers.iter().map(|(_, answer)| answer).collect();
    let skipped = match &skipped[..] {
        [] => String::new(),
        names => format!("; {} of the cases SKIPPED: {}", names.len(), names.join(", ")),
    };
    println!("{}{skipped}", ask_line(&all));
    Ok(ExitCode::from(exit_code(&all)))
}

/// Asks all questions of one dump, and prints each answer as it comes if options for that are given.
fn ask(
    name: &str,
    questions: &[&'static Question],
    subject: &Subject<'_>,
    printed: Option<AskOptions>,
) -> Result<Vec<(String, Answer)>> {
    let bar = progress::bar(name);
    let mut progress = progress::callback(&bar);
    let mut answers = Vec::new();
    for (i, question) in questions.iter().enumerate() {
        progress(i as u64, questions.len() as u64);
        let answer = question.ask(subject);
        let answer = answer.inspect_err(|_| bar.finish_and_clear())?;
        if let Some(options) = printed {
            bar.suspend(|| println!("{}", answer_table(&answer, options)));
        }
        answers.push((name.to_owned(), answer));
    }
    bar.finish_and_clear();
    Ok(answers)
}

/// Which of the names are questions, and which case folders.
fn sorted(names: &[String]) -> Result<(Vec<&'static Question>, Vec<PathBuf>)> {
    let (mut questions, mut cases) = (Vec::new(), Vec::new());
    for name in names {
        match question(name) {
            Ok(question) => questions.push(question),
            Err(_) if PathBuf::from(name).is_dir() => cases.push(PathBuf::from(name)),
            Err(unknown) => bail!("{unknown}; and there is no folder `{name}`"),
        }
    }
    if questions.is_empty() {
        questions = QUESTIONS.to_vec();
    }
    Ok((questions, cases))
}

fn list() {
    let width = QUESTIONS.iter().map(|question| question.name.len()).max().unwrap_or(0);
    for question in QUESTIONS {
        println!("{:width$}  {}", question.name, question.asks);
    }
    println!("\n{} questions", QUESTIONS.len());
}

/// Says on stderr why it is 2.
fn exit_code(answers: &[&Answer]) -> u8 {
    let is_asked =
        |answer: &&&Answer| !matches!(answer.outcome, Outcome::NoEvidence(_) | Outcome::NotApplicable(_));
    if answers.iter().filter(is_asked).count() == 0 {
        eprintln!("error: nothing could be asked");
        return COULD_NOT_RUN;
    }
    let fits_nowhere = |answer: &&Answer| {
        let by_group = answer.groups.iter().map(|group| &group.verdict);
        let together = match &answer.outcome {
            Outcome::Answered { verdict, .. } => Some(verdict),
            _ => None,
        };
        by_group.chain(together).any(|verdict| matches!(verdict, Verdict::NoneFits { .. }))
    };
    if answers.iter().any(fits_nowhere) { DIFFERENCE } else { 0 }
}
