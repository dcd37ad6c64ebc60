//! Answers as text: for each question its candidates with their worst scores, what is decided, and why if nothing is.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::number::{cosine, count, scientific, share, units};
use crate::compare::{Score, U};
use crate::question::{Answer, Group, Outcome, Question, TrialScores, Verdict};

/// Rows at most of one question's layers, unless all are asked for.
const ROWS: usize = 20;
/// Groups up to this many are not listed one by one.
const FEW_GROUPS: usize = 2;
/// Scaled errors below this many u are written in u.
const IN_UNITS: f64 = 1e4;

/// How much of the answers to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskOptions {
    /// Every layer and tensor too.
    pub layers: bool,
    /// All of them.
    pub all: bool,
}

/// The answer to one question.
pub fn answer_table(answer: &Answer, options: AskOptions) -> String {
    let question = answer.question;
    let mut lines = vec![head(answer)];
    match &answer.outcome {
        Outcome::NotApplicable(why) => {
            return format!("{}: does not apply: {why}\n", question.name);
        }
        Outcome::NoEvidence(why) => {
            return format!("{}: no evidence: {why}\n", question.name);
        }
        Outcome::Answered { scores, verdict } => lines.push(candidates(question, scores, verdict)),
        Outcome::ByGroup => {}
    }
    if answer.groups.len() > FEW_GROUPS || answer.outcome == Outcome::ByGroup {
        lines.push(groups(question, &answer.groups));
    }
    if options.layers {
        lines.push(layers(answer, options.all));
    }
    if let Outcome::Answered { verdict, .. } = &answer.outcome {
        lines.extend(conclusion(question, verdict));
    }
    lines.extend(answer.findings.iter().map(|finding| format!("  {finding}")));
    lines.join("\n") + "\n"
}

/// One line for each answer; where groups are decided differently, one for each of them.
pub fn brief_table(answers: &[&Answer]) -> String {
    let head = ["question", "", "answer", "cosine", "scaled err", "next", "scaled err", "margin"];
    let mut table = plain_table(&head, &[3, 4, 6, 7]);
    for answer in answers {
        let question = answer.question;
        match &answer.outcome {
            Outcome::Answered { scores, verdict } => {
                table.add_row(brief_row(question, question.name, "", scores, verdict));
            }
            Outcome::ByGroup => {
                for (i, group) in answer.groups.iter().enumerate() {
                    let name = if i == 0 { question.name } else { "" };
                    table.add_row(brief_row(question, name, &group.name, &group.scores, &group.verdict));
                }
            }
            Outcome::NoEvidence(why) => {
                table.add_row([question.name, "", &format!("no evidence: {why}")]);
            }
            Outcome::NotApplicable(why) => {
                table.add_row([question.name, "", &format!("does not apply: {why}")]);
            }
        }
    }
    laid_out(table) + "\n"
}

fn brief_row(
    question: &Question,
    name: &str,
    of: &str,
    scores: &[Option<Score>],
    verdict: &Verdict,
) -> Vec<Cell> {
    let (answer, best, next, margin) = summed_up(question, verdict);
    let score = |i: Option<usize>| i.and_then(|i| scores[i].as_ref());
    let text = |score: Option<&Score>, of: fn(&Score) -> String| score.map_or(String::new(), of);
    vec![
        Cell::new(name),
        Cell::new(of),
        Cell::new(answer),
        right(text(score(best), |s| cosine(s.one_minus_cosine))),
        right(text(score(best), |s| scaled(s.scaled_error))),
        Cell::new(next.map_or(String::new(), |i| question.candidates[i].name.to_owned())),
        right(text(score(next), |s| scaled(s.scaled_error))),
        right(margin),
    ]
}

/// What a verdict is for, the candidates whose scores say so, and the margin.
fn summed_up(question: &Question, verdict: &Verdict) -> (String, Option<usize>, Option<usize>, String) {
    let names = |list: &[usize]| list.iter().map(|&i| question.candidates[i].name).collect::<Vec<_>>();
    match verdict {
        Verdict::Decided { winner, runner_up, margin } => {
            let margin = match runner_up {
                Some(_) if margin.is_finite() => scientific(*margin, 1),
                Some(_) => "exact".to_owned(),
                None => String::new(),
            };
            (names(winner).join(" = "), winner.first().copied(), *runner_up, margin)
        }
        Verdict::Tie { among } => {
            (format!("tie: {}", names(among).join(", ")), among.first().copied(), None, String::new())
        }
        Verdict::NoneFits { nearest, .. } => {
            let name = question.candidates[*nearest].name;
            (format!("none fits, nearest {name}"), Some(*nearest), None, String::new())
        }
    }
}

/// The last line, over all answers: what became of them.
pub fn ask_line(answers: &[&Answer]) -> String {
    let mut counts = Counts::default();
    answers.iter().for_each(|answer| counts.add(answer));
    let mut line = format!(
        "{} asked: {} decided, {} tie, {} none fits",
        count(counts.asked),
        count(counts.decided),
        count(counts.tie),
        count(counts.none_fits)
    );
    for (n, what) in [(counts.no_evidence, "without evidence"), (counts.not_applicable, "not applicable")] {
        if n > 0 {
            line += &format!("; {} {what}", count(n));
        }
    }
    line
}

/// How many answers there are of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) asked: u64,
    pub(super) decided: u64,
    pub(super) tie: u64,
    pub(super) none_fits: u64,
    pub(super) no_evidence: u64,
    pub(super) not_applicable: u64,
}

impl Counts {
    pub(super) fn add(&mut self, answer: &Answer) {
        let counter = match &answer.outcome {
            Outcome::NotApplicable(_) => &mut self.not_applicable,
            Outcome::NoEvidence(_) => &mut self.no_evidence,
            Outcome::Answered { verdict: Verdict::Tie { .. }, .. } => &mut self.tie,
            Outcome::Answered { verdict: Verdict::NoneFits { .. }, .. } => &mut self.none_fits,
            Outcome::Answered { verdict: Verdict::Decided { .. }, .. } => &mut self.decided,
            // One group that is a tie leaves the question open there.
            Outcome::ByGroup if answer.groups.iter().any(|g| matches!(g.verdict, Verdict::Tie { .. })) => {
                &mut self.tie
            }
            Outcome::ByGroup => &mut self.decided,
        };
        *counter += 1;
        let is_asked = !matches!(answer.outcome, Outcome::NotApplicable(_) | Outcome::NoEvidence(_));
        self.asked += u64::from(is_asked);
    }
}

/// A, B, C ..
pub(super) fn letter(index: usize) -> char {
    char::from(b'A' + (index % 26) as u8)
}

fn head(answer: &Answer) -> String {
    let Answer { question, groups, .. } = answer;
    let mut names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    if names.len() > 4 {
        names.truncate(0);
    }
    let of = if names.is_empty() { format!("{} kinds", groups.len()) } else { names.join(" + ") };
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut places = Vec::new();
    if answer.layers > 0 {
        places.push(plural(answer.layers, "layer"));
    }
    places.push(plural(answer.tokens, "token"));
    let left = match answer.left_out.iter().max_by_key(|(_, n)| **n) {
        Some((reason, n)) => format!("; left out: {n} places ({reason})"),
        None => String::new(),
    };
    format!("{}: {}   {}, {of}{left}", question.name, question.asks, places.join(", "))
}

/// A scaled error: in u where it may be rounding, else plain.
fn scaled(error: f64) -> String {
    let in_u = error / U;
    if in_u < IN_UNITS { units(in_u) } else { scientific(error, 1) }
}

fn better(margin: f64) -> String {
    if margin.is_infinite() {
        "exact, unlike".to_owned()
    } else {
        format!("{} x better than", scientific(margin, 1))
    }
}

fn candidates(question: &Question, scores: &[Option<Score>], verdict: &Verdict) -> String {
    let mut table = plain_table(&["", "candidate", "", "cosine", "scaled err", "of budget", ""], &[3, 4, 5]);
    for (i, (candidate, score)) in question.candidates.iter().zip(scores).enumerate() {
        let mark = match verdict {
            Verdict::Decided { winner, runner_up, margin } if winner.first() == Some(&i) => match runner_up {
                Some(other) => format!("<- decided, {} {}", better(*margin), letter(*other)),
                None => "<- decided".to_owned(),
            },
            Verdict::Decided { winner, .. } if winner.contains(&i) => {
                format!("same as {}", letter(question.class_of(i)))
            }
            Verdict::Tie { among } if among.contains(&i) => "<- tie".to_owned(),
            Verdict::NoneFits { nearest, .. } if *nearest == i => "<- nearest, does not fit".to_owned(),
            _ => String::new(),
        };
        let name = format!("({})", candidate.name);
        let numbers = match score {
            Some(score) => [cosine(score.one_minus_cosine), scaled(score.scaled_error), share(score.share)],
            None => ["cannot be".to_owned(), String::new(), String::new()],
        };
        let [cosine, error, budget] = numbers.map(right);
        table.add_row([
            Cell::new(letter(i)),
            Cell::new(candidate.means),
            Cell::new(name),
            cosine,
            error,
            budget,
            Cell::new(mark),
        ]);
    }
    laid_out(table)
}

/// One line for each kind of weight or tensor.
fn groups(question: &Question, groups: &[Group]) -> String {
    let head = ["of", "tensors", "answer", "cosine", "scaled err", "next", "scaled err", "margin"];
    let mut table = plain_table(&head, &[1, 3, 4, 6, 7]);
    for group in groups {
        let tensors = count(group.trials.len() as u64);
        let mut row = brief_row(question, &group.name, "", &group.scores, &group.verdict);
        row[1] = right(tensors);
        table.add_row(row);
    }
    laid_out(table)
}

/// One line for each tensor: scaled error and cosine of every candidate.
fn layers(answer: &Answer, all: bool) -> String {
    let letters: Vec<String> = (0..answer.question.candidates.len()).map(|i| letter(i).to_string()).collect();
    let mut head = vec!["scaled err, cosine of"];
    letters.iter().for_each(|letter| head.extend([letter.as_str(), ""]));
    let numbers: Vec<usize> = (1..head.len()).step_by(2).collect();
    let mut table = plain_table(&head, &numbers);
    let trials: Vec<&TrialScores> = answer.groups.iter().flat_map(|group| &group.trials).collect();
    let shown = if all { trials.len() } else { ROWS };
    for trial in trials.iter().take(shown) {
        let mut row = vec![Cell::new(&trial.id)];
        for score in &trial.scores {
            let [error, cosine] = match score {
                Some(score) => [scaled(score.scaled_error), cosine(score.one_minus_cosine)],
                None => ["-".to_owned(), String::new()],
            };
            row.extend([right(error), Cell::new(cosine)]);
        }
        table.add_row(row);
    }
    let more = trials.len().saturating_sub(shown);
    let more = if more > 0 { format!("\n  (+{} more, --all)", count(more as u64)) } else { String::new() };
    laid_out(table) + &more
}

/// What a table alone does not say.
fn conclusion(question: &Question, verdict: &Verdict) -> Vec<String> {
    match verdict {
        Verdict::Decided { .. } => Vec::new(),
        Verdict::Tie { among } => {
            let letters: Vec<String> = among.iter().map(|&i| letter(i).to_string()).collect();
            vec![format!(
                "  tie: {} cannot be told apart on this dump. It takes {} (`lockstep ask --probe {}`)",
                letters.join(" and "),
                question.separated_by,
                question.name
            )]
        }
        Verdict::NoneFits { nearest, at, diagnosis } => {
            let looks = if diagnosis.is_empty() {
                String::new()
            } else {
                format!("; looks like {}", diagnosis.join(", or "))
            };
            vec![format!("  none fits: {} comes nearest, farthest off at {at}{looks}", letter(*nearest))]
        }
    }
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn plain_table(head: &[&str], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(head.iter().enumerate().map(|(i, name)| match numbers.contains(&i) {
        true => right((*name).to_owned()),
        false => Cell::new(name),
    }));
    table
}

fn laid_out(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt().lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
