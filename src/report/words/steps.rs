//! A run step by step: what each step evaluated, and how far its residual stream is.

use super::number::{index, share};
use super::sentence::{of_limit, tensor_name};
use super::sparkline::bars_with_gaps;
use crate::compare::{ByStep, Comparison, StepRow, TensorResult};

/// The residual stream behind each layer.
pub(crate) const RESIDUAL: &str = "l_out";

/// Rows at most, unless all are asked for; of more, only those that say something are shown.
const ROWS: usize = 12;

/// Token ids at most in a sentence.
const IDS: usize = 8;

/// What one step evaluated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Which step, from 0.
    pub step: u32,
    /// Its tokens, in the order of the ubatch.
    pub tokens: Vec<StepToken>,
}

/// One token of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepToken {
    /// Its id.
    pub id: i32,
    /// Its position in its sequence.
    pub position: i32,
    /// The sequences that it belongs to.
    pub seq_ids: Vec<i32>,
    /// Whether its logits were asked for.
    pub is_output: bool,
}

/// The step with this number.
pub(crate) fn find(steps: &[Step], step: u32) -> Option<&Step> {
    steps.iter().find(|known| known.step == step)
}

/// The token that a row of a step's logits follows.
pub(crate) fn output(steps: &[Step], step: u32, row: u32) -> Option<&StepToken> {
    find(steps, step)?.tokens.iter().filter(|token| token.is_output).nth(row as usize)
}

/// Where some tokens of a run stand: `pos 65`, `pos 0-6`; with their sequences if the run has others than 0:
/// `seq 0 pos 4-6, seq 1 pos 2`.
pub(crate) fn positions<'a>(steps: &[Step], tokens: impl IntoIterator<Item = &'a StepToken>) -> String {
    let named = steps.iter().flat_map(|step| &step.tokens).any(|token| token.seq_ids != [0]);
    let mut sequences: Vec<(&[i32], Vec<i32>)> = Vec::new();
    for token in tokens {
        match sequences.iter_mut().find(|(seq_ids, _)| *seq_ids == token.seq_ids) {
            Some((_, positions)) => positions.push(token.position),
            None => sequences.push((&token.seq_ids, vec![token.position])),
        }
    }
    let texts = sequences.iter().map(|(seq_ids, positions)| {
        let ids: Vec<String> = seq_ids.iter().map(i32::to_string).collect();
        let seq = if named { format!("seq {} ", ids.join("+")) } else { String::new() };
        format!("{seq}pos {}", ranges(positions))
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Runs of consecutive numbers: `0-3,7`.
fn ranges(numbers: &[i32]) -> String {
    let is_next = |a: &i32, b: &i32| a.checked_add(1) == Some(*b);
    let runs = numbers.chunk_by(is_next).filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// The residual stream of each step, a bar per layer: a heading, the rows, and which step is the first over its limit. Empty if
/// the run was not compared there.
pub(crate) fn step_view(comparison: &Comparison, steps: &[Step], all: bool) -> Vec<String> {
    let by_step = comparison.by_step(RESIDUAL);
    let (Some(first), Some(last)) = (by_step.layers.first(), by_step.layers.last()) else {
        return Vec::new();
    };
    let shown = if all { (0..by_step.rows.len()).collect() } else { telling(comparison, &by_step) };
    let labels: Vec<String> = shown.iter().map(|&at| label(&by_step.rows[at], steps)).collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let mut lines = vec![format!(
        "{RESIDUAL} by step (share of the limit that was carried there), layers {first} to {last}"
    )];
    for (&at, label) in shown.iter().zip(&labels) {
        let row = &by_step.rows[at];
        let bars = bars_with_gaps(&row.shares);
        lines.push(format!("  {label:width$}  {bars}  worst {}", carried(row.worst)));
    }
    match by_step.rows.len() - shown.len() {
        0 => {}
        left_out => lines.push(format!("  (+{left_out} more, --all)")),
    }
    lines.extend(first_step_over(&by_step, steps));
    lines
}

/// How much of its limit a tensor uses by what was carried to it, or how it ended: `l_out-50 0.4 of its limit`.
fn carried(result: &TensorResult) -> String {
    match result.carried() {
        Some(of_limit) if !result.verdict.is_failure() => {
            format!("{} {} of its limit", tensor_name(&result.id), share(of_limit))
        }
        _ => of_limit(result),
    }
}

fn label(row: &StepRow<'_>, steps: &[Step]) -> String {
    match find(steps, row.step) {
        Some(step) => format!("step {}  {}", row.step, positions(steps, &step.tokens)),
        None => format!("step {}", row.step),
    }
}

/// Of many rows the first, the worst, the last, the first over its limit, and that of the first difference.
fn telling(comparison: &Comparison, by_step: &ByStep<'_>) -> Vec<usize> {
    let rows = &by_step.rows;
    if rows.len() <= ROWS {
        return (0..rows.len()).collect();
    }
    let place = |step: u32| rows.iter().position(|row| row.step == step);
    let worst = rows.iter().reduce(|a, b| if b.worst.cmp_severity(a.worst).is_gt() { b } else { a });
    let mut shown = vec![0, rows.len() - 1];
    shown.extend(worst.and_then(|row| place(row.step)));
    shown.extend(by_step.first_failure().and_then(|row| place(row.step)));
    shown.extend(comparison.first_difference().and_then(|first| place(first.result.id.step)));
    shown.sort_unstable();
    shown.dedup();
    shown
}

/// The first step whose residual stream is over its limit, with its tokens; none if no step's is.
fn first_step_over(by_step: &ByStep<'_>, steps: &[Step]) -> Option<String> {
    let row = by_step.first_failure()?;
    let what = of_limit(row.first_failure?);
    let tokens = find(steps, row.step).map(|step| {
        let ids: Vec<i32> = step.tokens.iter().take(IDS).map(|token| token.id).collect();
        let more = match step.tokens.len() - ids.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(", {}, tokens {}{more}", positions(steps, &step.tokens), index(&ids))
    });
    Some(format!("first step over its limit: step {}{}: {what}", row.step, tokens.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::words::example;
    use crate::tensor::TensorId;

    /// A step of tokens given as id, position, sequence; the last one's logits are asked for.
    fn step(step: u32, tokens: &[(i32, i32, i32)]) -> Step {
        let token = |(at, &(id, position, seq)): (usize, &(i32, i32, i32))| StepToken {
            id,
            position,
            seq_ids: vec![seq],
            is_output: at + 1 == tokens.len(),
        };
        Step { step, tokens: tokens.iter().enumerate().map(token).collect() }
    }

    fn l_out(step: u32, layer: u32, last: f32) -> TensorResult {
        let result = example::tensor(&format!("l_out-{layer}"), "ADD", last);
        TensorResult { id: TensorId { step, ..result.id }, ..result }
    }

    #[test]
    fn positions_are_said_with_their_sequences_if_there_are_several() {
        let one = [step(0, &[(7, 0, 0), (8, 1, 0), (9, 2, 0)]), step(1, &[(7, 3, 0)])];
        let said = |steps: &[Step], at: usize| positions(steps, &steps[at].tokens);
        assert_eq!([said(&one, 0), said(&one, 1)], ["pos 0-2", "pos 3"]);
        let two = [step(0, &[(7, 0, 0), (7, 4, 1), (8, 1, 0), (8, 6, 1)]), step(1, &[(9, 2, 0)])];
        assert_eq!([said(&two, 0), said(&two, 1)], ["seq 0 pos 0-1, seq 1 pos 4,6", "seq 0 pos 2"]);
        let mut shared = step(0, &[(7, 0, 0)]);
        shared.tokens[0].seq_ids = vec![0, 2];
        assert_eq!(said(&[shared], 0), "seq 0+2 pos 0");
    }

    #[test]
    fn a_row_of_logits_belongs_to_a_token_that_asked_for_them() {
        let mut steps = [step(0, &[(7, 0, 0), (8, 1, 0), (9, 2, 0)])];
        steps[0].tokens[0].is_output = true;
        let id = |row| output(&steps, 0, row).map(|token| token.id);
        assert_eq!([id(0), id(1), id(2)], [Some(7), Some(9), None]);
    }

    #[test]
    fn a_row_per_step_and_the_first_over_its_limit() {
        let results = vec![l_out(0, 0, 0.0), l_out(0, 1, 0.002), l_out(1, 0, 0.002), l_out(1, 1, 3.0)];
        let mut comparison = Comparison { results, logits: Vec::new() };
        let steps = [step(0, &[(7, 0, 0), (8, 1, 0)]), step(1, &[(9, 2, 0)])];
        assert_eq!(
            step_view(&comparison, &steps, false),
            [
                "l_out by step (share of the limit that was carried there), layers 0 to 1",
                "  step 0  pos 0-1  ▁▇  worst l_out-1 0.4 of its limit",
                "  step 1  pos 2    ▇█  worst l_out-1 600 of its limit",
                "first step over its limit: step 1, pos 2, tokens [9]: l_out-1 600 of its limit",
            ]
        );
        comparison.results.pop();
        let view = step_view(&comparison, &steps, false);
        assert_eq!(view.last().unwrap(), "  step 1  pos 2    ▇·  worst l_out-0 0.4 of its limit");
        assert!(step_view(&Comparison::default(), &steps, false).is_empty());
    }

    #[test]
    fn of_many_steps_those_that_tell_something() {
        let mut results: Vec<TensorResult> = (0..20).map(|at| l_out(at, 0, 0.0)).collect();
        results[7] = l_out(7, 0, 0.02);
        results[9] = l_out(9, 0, 0.2);
        let other = example::tensor("attn_norm-0", "MUL", 0.02);
        results[3] = TensorResult { id: TensorId { step: 5, ..other.id }, ..other };
        let comparison = Comparison { results, logits: Vec::new() };
        let view = |all| step_view(&comparison, &[], all);
        let numbers = |lines: &[String]| -> Vec<String> {
            let rows = lines.iter().filter_map(|line| line.strip_prefix("  step "));
            rows.filter_map(|row| Some(row.split_once(' ')?.0.to_owned())).collect()
        };
        assert_eq!(numbers(&view(false)), ["0", "5", "7", "9", "19"]);
        assert!(view(false).contains(&"  (+14 more, --all)".to_owned()));
        assert_eq!(numbers(&view(true)).len(), 19);
    }

    #[test]
    fn many_tokens_are_cut_short() {
        let tokens: Vec<(i32, i32, i32)> = (0..20).map(|at| (100 + at, at, 0)).collect();
        let comparison = Comparison { results: vec![l_out(0, 0, 3.0)], logits: Vec::new() };
        let view = step_view(&comparison, &[step(0, &tokens)], false);
        assert_eq!(
            view.last().unwrap(),
            "first step over its limit: step 0, pos 0-19, tokens [100,101,102,103,104,105,106,107] and 12 more: \
             l_out-0 600 of its limit"
        );
    }
}
