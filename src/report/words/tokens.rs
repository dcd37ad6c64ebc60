//! The next token on both sides: in one line, and row by row.

use super::number::{cosine, count, decimal};
use super::steps::{Step, output, positions};
use crate::compare::{Comparison, Greedy, LogitsResult};

/// Rows at most, unless all are asked for; of more, only those that say something are shown.
const ROWS: usize = 12;

/// The next token on both sides; of several rows the worst, with how many agree.
pub(crate) fn logits_line(logits: &[LogitsResult]) -> String {
    let Some(worst) = worst(logits) else { return "none compared".to_owned() };
    let row = if worst.row == 0 { String::new() } else { format!(" row {}", worst.row) };
    let several = match logits.len() {
        1 => String::new(),
        n => format!("argmax {}; worst step {}{row}: ", of_several(logits, n), worst.step),
    };
    format!("{several}argmax {}{}; {}", chosen(worst), why(worst), nearness(worst))
}

/// What the last line says of tokens that are not equal; nothing if all are.
pub(crate) fn other_tokens(comparisons: &[&Comparison]) -> String {
    let number = |greedy| comparisons.iter().map(|comparison| comparison.tokens(greedy)).sum::<u64>();
    let [equal, near, different] = [Greedy::Equal, Greedy::NearTie, Greedy::Different].map(number);
    if near + different == 0 {
        return String::new();
    }
    let ties = if near == 1 { "near tie" } else { "near ties" };
    format!("; tokens: {} equal, {} {ties}, {} different", count(equal), count(near), count(different))
}

/// Why the next token of a run whose tensors are all within their limits is a difference.
pub(crate) fn other_token(logits: &LogitsResult) -> String {
    let row = if logits.row == 0 { String::new() } else { format!(" row {}", logits.row) };
    format!(
        "every tensor is within its limit, but the next token differs first at step {}{row}: {}{}",
        logits.step,
        chosen(logits),
        why(logits)
    )
}

/// Of several rows one line each; nothing of a single one, of which [`logits_line`] says everything.
pub(crate) fn token_rows(logits: &[LogitsResult], steps: &[Step], all: bool) -> Vec<String> {
    if logits.len() < 2 {
        return Vec::new();
    }
    let shown: Vec<&LogitsResult> = if all { logits.iter().collect() } else { telling(logits) };
    let rows: Vec<[String; 3]> = shown.iter().map(|logits| cells(logits, steps)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (place, tokens) = (width(0), width(1));
    let mut lines: Vec<String> =
        rows.iter().map(|[a, b, c]| format!("  {a:place$}  {b:tokens$}  {c}")).collect();
    match logits.len() - shown.len() {
        0 => {}
        left_out => lines.push(format!("  (+{} more, --all)", count(left_out as u64))),
    }
    lines
}

/// Where a row stands, its two tokens with their margins, how near the rows are.
fn cells(logits: &LogitsResult, steps: &[Step]) -> [String; 3] {
    let row = if logits.row == 0 { String::new() } else { format!(" row {}", logits.row) };
    let at = output(steps, logits.step, logits.row).map(|token| format!("  {}", positions(steps, [token])));
    let place = format!("step {}{row}{}", logits.step, at.unwrap_or_default());
    [place, chosen(logits), format!("{}{}", nearness(logits), why(logits))]
}

/// `231 = 231, margin 0.15, actual 0.15`
fn chosen(logits: &LogitsResult) -> String {
    let token = |id: Option<u32>| id.map_or("none".to_owned(), |id| id.to_string());
    let margin = |margin: Option<f64>| margin.map_or("none".to_owned(), decimal);
    format!(
        "{} {} {}, margin {}, actual {}",
        token(logits.argmax_reference()),
        if logits.greedy == Greedy::Equal { "=" } else { "!=" },
        token(logits.argmax_actual()),
        margin(logits.margin),
        margin(logits.margin_actual),
    )
}

fn nearness(logits: &LogitsResult) -> String {
    let best = logits.best_reference.len().max(logits.best_actual.len());
    format!("top-10 {}/{best}; cosine {}", logits.top10_agreement, cosine(logits.one_minus_cosine))
}

/// What tells a near tie from another token; empty if the tokens are equal.
fn why(logits: &LogitsResult) -> String {
    let verdict = match logits.greedy {
        Greedy::Equal => return String::new(),
        Greedy::NearTie => "near tie",
        Greedy::Different => "different",
    };
    match (logits.rank, logits.behind) {
        (Some(rank), Some(behind)) => {
            format!(", {verdict}: rank {rank}, {} behind, noise {}", decimal(behind), decimal(logits.noise))
        }
        _ => format!(", {verdict}"),
    }
}

fn of_several(logits: &[LogitsResult], n: usize) -> String {
    let number = |greedy| logits.iter().filter(|l| l.greedy == greedy).count();
    let mut text = format!("equal in {} of {n}", number(Greedy::Equal));
    for (greedy, what) in [(Greedy::NearTie, "near tie"), (Greedy::Different, "different")] {
        match number(greedy) {
            0 => {}
            some => text += &format!(", {what} in {some}"),
        }
    }
    text
}

fn worst(logits: &[LogitsResult]) -> Option<&LogitsResult> {
    logits.iter().reduce(|a, b| if b.cmp_severity(a).is_gt() { b } else { a })
}

/// Of many rows the first, the last, the worst, that of the smallest margin, and those that are not equal, as many as fit.
fn telling(logits: &[LogitsResult]) -> Vec<&LogitsResult> {
    if logits.len() <= ROWS {
        return logits.iter().collect();
    }
    let closest = logits.iter().reduce(|a, b| if b.margin < a.margin { b } else { a });
    let always = [logits.first(), worst(logits), closest, logits.last()];
    let not_equal = logits.iter().filter(|l| l.greedy != Greedy::Equal).take(ROWS - always.len());
    let mut shown: Vec<&LogitsResult> = always.into_iter().flatten().chain(not_equal).collect();
    shown.sort_by_key(|logits| (logits.step, logits.row));
    shown.dedup_by_key(|logits| (logits.step, logits.row));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Limit;
    use crate::report::words::StepToken;
    use crate::report::words::example;
    use crate::tensor::Values;

    /// Tokens 1 and 2 are a hundredth apart in the reference; noise allows sqrt(2) 1e-2 x 1.63.
    fn near_tie(step: u32) -> LogitsResult {
        let limit = Limit { relative_l2: 1e-2 };
        LogitsResult::measure(step, 0, &[0.0, 2.0, 1.99], Values::F32(&[0.0, 1.99, 2.0]), limit).unwrap()
    }

    fn different(step: u32) -> LogitsResult {
        example::logits(step, [1.0, 1.5, 2.0])
    }

    fn equal(step: u32) -> LogitsResult {
        example::logits(step, [1.0, 2.0, 1.5])
    }

    #[test]
    fn logits_of_one_row_and_of_several() {
        assert_eq!(logits_line(&[equal(0)]), "argmax 1 = 1, margin 0.50, actual 0.50; top-10 3/3; cosine 1");
        assert_eq!(
            logits_line(&[near_tie(0)]),
            "argmax 1 != 2, margin 1.0e-02, actual 1.0e-02, near tie: rank 2, 1.0e-02 behind, noise 2.3e-02; top-10 3/3; cosine 1 - 1.3e-05"
        );
        assert_eq!(
            logits_line(&[equal(0), different(3), near_tie(4)]),
            "argmax equal in 1 of 3, near tie in 1, different in 1; worst step 3: argmax 1 != 2, margin 0.50, actual 0.50, \
             different: rank 2, 0.50 behind, noise 2.2e-03; top-10 3/3; cosine 1 - 3.4e-02"
        );
        assert_eq!(logits_line(&[]), "none compared");
    }

    #[test]
    fn the_last_line_counts_tokens_unless_all_are_equal() {
        let of = |logits| Comparison { results: Vec::new(), logits };
        let (good, bad) = (of(vec![equal(0)]), of(vec![equal(0), near_tie(1), different(2)]));
        assert_eq!(other_tokens(&[&good]), "");
        assert_eq!(other_tokens(&[&good, &bad]), "; tokens: 2 equal, 1 near tie, 1 different");
        assert_eq!(other_tokens(&[]), "");
    }

    #[test]
    fn a_row_each_with_its_position() {
        let token = |position, is_output| StepToken { id: 7, position, seq_ids: vec![0], is_output };
        let steps = [
            Step { step: 0, tokens: vec![token(0, false), token(1, true)] },
            Step { step: 1, tokens: vec![token(2, true)] },
        ];
        assert_eq!(
            token_rows(&[equal(0), near_tie(1)], &steps, false),
            [
                "  step 0  pos 1  1 = 1, margin 0.50, actual 0.50         top-10 3/3; cosine 1",
                "  step 1  pos 2  1 != 2, margin 1.0e-02, actual 1.0e-02  top-10 3/3; cosine 1 - 1.3e-05, near tie: rank 2, 1.0e-02 behind, noise 2.3e-02",
            ]
        );
        assert!(token_rows(&[equal(0)], &steps, false).is_empty());
    }

    #[test]
    fn of_many_rows_those_that_tell_something() {
        let mut logits: Vec<LogitsResult> = (0..20).map(equal).collect();
        logits[4] = near_tie(4);
        logits[9] = different(9);
        logits[12].margin = Some(0.001);
        let lines = token_rows(&logits, &[], false);
        let steps: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(steps, ["0", "4", "9", "12", "19", "more,"]);
        assert_eq!(lines.last().unwrap(), "  (+15 more, --all)");
        assert_eq!(token_rows(&logits, &[], true).len(), 20);
    }
}
