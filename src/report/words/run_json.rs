//! Tokens and steps in the JSON of a check.

use std::collections::BTreeMap;

use serde::Serialize;

use super::number::finite;
use super::steps::{RESIDUAL, Step, output};
use crate::compare::{Comparison, Greedy, LogitsResult, StepRow};
use crate::report::Report;

/// The worst row's fields, then all rows.
#[derive(Serialize)]
pub(crate) struct LogitsJson<'a> {
    #[serde(flatten)]
    worst: Row<'a>,
    rows: Vec<Row<'a>>,
    equal: u64,
    near_tie: u64,
    different: u64,
}

#[derive(Serialize)]
struct Row<'a> {
    dump: &'a str,
    step: u32,
    row: u32,
    argmax_reference: Option<u32>,
    argmax_actual: Option<u32>,
    top10_agreement: u32,
    margin: Option<f64>,
    cosine: Option<f64>,
    one_minus_cosine: Option<f64>,
    seq_ids: Option<&'a [i32]>,
    position: Option<i32>,
    margin_reference: Option<f64>, // the same as `margin`
    margin_actual: Option<f64>,
    greedy: &'static str,
    rank: Option<u32>,   // of the actual best token in the reference, from 1
    behind: Option<f64>, // the reference's best logit less that of the actual best token
    noise: Option<f64>,  // a near tie is behind by no more
}

/// What a step evaluated, and how far its residual stream is.
#[derive(Serialize)]
pub(crate) struct StepJson<'a> {
    dump: &'a str,
    step: u32,
    tokens: Vec<i32>,
    positions: Vec<i32>,
    seq_ids: Vec<&'a [i32]>,
    failures: usize, // of all its tensors
    l_out: Option<Residual<'a>>,
}

/// The worst `l_out` of a step, and the first that failed.
#[derive(Serialize)]
struct Residual<'a> {
    worst: &'a str,
    verdict: &'static str,
    share: Option<f64>,
    first_failure: Option<&'a str>,
}

/// Every row of logits of some reports, and the worst of them; none if there is none.
pub(crate) fn logits_json<'a>(reports: &'a [Report<'a>]) -> Option<LogitsJson<'a>> {
    let rows = || reports.iter().flat_map(|r| r.comparison.logits.iter().map(move |l| (r, l)));
    let (of, worst) = rows().reduce(|a, b| if b.1.cmp_severity(a.1).is_gt() { b } else { a })?;
    let tokens = |greedy| reports.iter().map(|r| r.comparison.tokens(greedy)).sum();
    Some(LogitsJson {
        worst: row(of, worst),
        rows: rows().map(|(report, logits)| row(report, logits)).collect(),
        equal: tokens(Greedy::Equal),
        near_tie: tokens(Greedy::NearTie),
        different: tokens(Greedy::Different),
    })
}

fn row<'a>(report: &Report<'a>, logits: &LogitsResult) -> Row<'a> {
    let token = output(report.steps, logits.step, logits.row);
    Row {
        dump: report.name,
        step: logits.step,
        row: logits.row,
        argmax_reference: logits.argmax_reference(),
        argmax_actual: logits.argmax_actual(),
        top10_agreement: logits.top10_agreement,
        margin: logits.margin.and_then(finite),
        cosine: finite(logits.cosine),
        one_minus_cosine: finite(logits.one_minus_cosine),
        seq_ids: token.map(|token| &token.seq_ids[..]),
        position: token.map(|token| token.position),
        margin_reference: logits.margin.and_then(finite),
        margin_actual: logits.margin_actual.and_then(finite),
        greedy: logits.greedy.name(),
        rank: logits.rank,
        behind: logits.behind.and_then(finite),
        noise: finite(logits.noise),
    }
}

/// Every step of a report.
pub(crate) fn steps_json<'a>(report: &Report<'a>) -> Vec<StepJson<'a>> {
    let comparison: &'a Comparison = report.comparison;
    let residual: BTreeMap<u32, StepRow<'a>> =
        comparison.by_step(RESIDUAL).rows.into_iter().map(|row| (row.step, row)).collect();
    let mut failures: BTreeMap<u32, usize> = BTreeMap::new();
    for result in comparison.results.iter().filter(|result| result.verdict.is_failure()) {
        *failures.entry(result.id.step).or_default() += 1;
    }
    let of = |step: &'a Step| StepJson {
        dump: report.name,
        step: step.step,
        tokens: step.tokens.iter().map(|token| token.id).collect(),
        positions: step.tokens.iter().map(|token| token.position).collect(),
        seq_ids: step.tokens.iter().map(|token| &token.seq_ids[..]).collect(),
        failures: failures.get(&step.step).copied().unwrap_or(0),
        l_out: residual.get(&step.step).map(|row| Residual {
            worst: &row.worst.id.name,
            verdict: row.worst.verdict.name(),
            share: row.worst.carried().and_then(finite),
            first_failure: row.first_failure.map(|first| first.id.name.as_str()),
        }),
    };
    report.steps.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::StepToken;
    use crate::report::words::example;
    use serde_json::{Value, json};

    #[test]
    fn tokens_and_steps() {
        let token = |id, position, is_output| StepToken { id, position, seq_ids: vec![2], is_output };
        let steps = [
            Step { step: 0, tokens: vec![token(7, 0, false), token(8, 1, true)] },
            Step { step: 1, tokens: vec![token(9, 2, true)] },
        ];
        let mut comparison = example::passing();
        comparison.logits.push(example::logits(1, [1.0, 1.5, 2.0]));
        comparison.results.push(example::tensor("l_out-2", "ADD", 3.0));
        let reports = [Report { name: "mini", header: &[], steps: &steps, comparison: &comparison }];
        let logits: Value = serde_json::to_value(logits_json(&reports)).unwrap();
        assert_eq!([&logits["equal"], &logits["near_tie"], &logits["different"]], [1, 0, 1]);
        let [good, bad] = [&logits["rows"][0], &logits["rows"][1]];
        assert_eq!([&good["greedy"], &bad["greedy"]], ["equal", "different"]);
        assert_eq!([&good["rank"], &bad["rank"], &good["position"], &bad["position"]], [1, 2, 1, 2]);
        assert_eq!([&good["margin_reference"], &good["margin_actual"], &bad["behind"]], [0.5; 3]);
        assert_eq!(bad["seq_ids"], json!([2]));
        assert!((bad["noise"].as_f64().unwrap() - 2f64.sqrt() * 1e-3 * (7.25f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!(
            serde_json::to_value(steps_json(&reports[0])).unwrap(),
            json!([
                {"dump": "mini", "step": 0, "tokens": [7, 8], "positions": [0, 1], "seq_ids": [[2], [2]], "failures": 1,
                    "l_out": {"worst": "l_out-2", "verdict": "differ", "share": 3.0 / 5.0 / 1e-3, "first_failure": "l_out-2"}},
                {"dump": "mini", "step": 1, "tokens": [9], "positions": [2], "seq_ids": [[2]], "failures": 0, "l_out": null},
            ])
        );
    }
}
