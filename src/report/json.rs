//! The stable, versioned JSON. Fields are only ever added; what is not measured is null, and so is a
//! number that is not finite (its tensor then has the verdict `nonfinite` or `differ`).

use serde::Serialize;

use super::words::{self, LogitsJson, StepJson, finite};
use super::{Format, Options, Report};
use crate::compare::{Departs, Summary, TensorResult};

/// The version of the schema.
const VERSION: u32 = 1;

/// The report for programs.
pub(super) struct Json;

impl Format for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn render(&self, reports: &[Report<'_>], _: Options) -> String {
        let mut total = Summary::default();
        for report in reports {
            total += report.comparison.summary();
        }
        let results = || reports.iter().flat_map(|r| r.comparison.results.iter().map(|t| (r.name, t)));
        let document = Document {
            version: VERSION,
            is_pass: !reports.is_empty() && reports.iter().all(|r| r.comparison.is_pass()),
            summary: summary(&total),
            tensors: results().map(|(dump, result)| tensor(dump, result)).collect(),
            first_difference: reports.iter().find_map(first_difference),
            logits: words::logits_json(reports),
            steps: reports.iter().flat_map(words::steps_json).collect(),
        };
        let mut text = serde_json::to_string(&document).expect("plain structs with string keys");
        text.push('\n');
        text
    }
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    is_pass: bool,
    summary: Counts,
    tensors: Vec<Tensor<'a>>,
    first_difference: Option<First<'a>>,
    logits: Option<LogitsJson<'a>>,
    steps: Vec<StepJson<'a>>,
}

#[derive(Serialize)]
struct Counts {
    compared: u64,
    pass: u64,
    differ: u64,
    missing: u64,
    extra: u64,
    shape: u64,
    nonfinite: u64,
    skipped: u64,
    coverage: f64,
}

#[derive(Serialize)]
struct Tensor<'a> {
    dump: &'a str,
    step: u32,
    name: &'a str,
    occurrence: u32,
    layer: Option<u32>,
    op: &'a str,
    shape: Vec<usize>, // outermost first
    verdict: &'static str,
    reason: Option<String>,
    cosine: Option<f64>,
    one_minus_cosine: Option<f64>,
    relative_l2: Option<f64>,
    scaled_error: Option<f64>,
    max_abs: Option<f64>,
    worst_index: Option<Vec<usize>>, // outermost first
    reference: Option<f64>,
    actual: Option<f64>,
    introduced: Option<f64>,
    amplification: Option<f64>,
    actual_vs_exact: Option<f64>,
    reference_vs_exact: Option<f64>,
    departs: Option<&'static str>,
    floor: Option<f64>,
    times_floor: Option<f64>,
    zero: Option<bool>,
    limit: Option<f64>,
    share: Option<f64>,
}

#[derive(Serialize)]
struct First<'a> {
    dump: &'a str,
    step: u32,
    name: &'a str,
    occurrence: u32,
    layer: Option<u32>,
    op: &'a str,
    verdict: &'static str,
    later_failures: usize,
    text: String,
    diagnosis: Option<String>, // what the error looks like
}

fn summary(s: &Summary) -> Counts {
    let Summary { compared, pass, differ, missing, extra, shape, nonfinite, skipped, zero: _ } = *s;
    Counts { compared, pass, differ, missing, extra, shape, nonfinite, skipped, coverage: s.coverage() }
}

fn tensor<'a>(dump: &'a str, result: &'a TensorResult) -> Tensor<'a> {
    let (metrics, legs) = (result.metrics.as_ref(), result.legs.as_ref());
    let scaled_error = metrics.and_then(|m| m.scaled_error);
    Tensor {
        dump,
        step: result.id.step,
        name: &result.id.name,
        occurrence: result.id.occurrence,
        layer: result.id.layer(),
        op: &result.op,
        shape: result.shape(),
        verdict: result.verdict.name(),
        reason: words::reason(result),
        cosine: metrics.and_then(|m| finite(m.cosine)),
        one_minus_cosine: metrics.and_then(|m| finite(m.one_minus_cosine)),
        relative_l2: metrics.and_then(|m| finite(m.relative_l2)),
        scaled_error: scaled_error.and_then(finite),
        max_abs: metrics.and_then(|m| finite(m.max_abs)),
        worst_index: result.worst_index(),
        reference: metrics.and_then(|m| finite(m.reference)),
        actual: metrics.and_then(|m| finite(m.actual)),
        introduced: legs.and_then(|legs| finite(legs.introduced)),
        amplification: legs
            .zip(scaled_error)
            .and_then(|(legs, cumulative)| legs.amplification(cumulative))
            .and_then(finite),
        actual_vs_exact: legs.and_then(|legs| finite(legs.actual.scaled_error)),
        reference_vs_exact: legs.and_then(|legs| finite(legs.reference.scaled_error)),
        departs: result.departs().map(Departs::name),
        floor: result.floor.and_then(finite),
        times_floor: result.times_floor().and_then(finite),
        zero: metrics.map(|m| m.both_zero),
        limit: finite(result.limit),
        share: result.share.and_then(finite),
    }
}

fn first_difference<'a>(report: &Report<'a>) -> Option<First<'a>> {
    let first = report.comparison.first_difference()?;
    let id = &first.result.id;
    Some(First {
        dump: report.name,
        step: id.step,
        name: &id.name,
        occurrence: id.occurrence,
        layer: id.layer(),
        op: &first.result.op,
        verdict: first.result.verdict.name(),
        later_failures: first.later_failures,
        text: words::first_difference(report.comparison)?,
        diagnosis: words::looks_like(&first.result.diagnosis),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Comparison;
    use crate::report::words::example;
    use serde_json::{Value, json};

    fn parse(reports: &[Report<'_>]) -> Value {
        serde_json::from_str(&Json.render(reports, Options::default())).expect("valid JSON")
    }

    fn one(comparison: &Comparison) -> Value {
        parse(&[Report { name: "mini", header: &[], steps: &[], comparison }])
    }

    #[test]
    fn the_schema_of_version_1() {
        let v = one(&example::passing());
        let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&v), "version is_pass summary tensors first_difference logits steps");
        assert_eq!(
            v["summary"],
            json!({"compared": 3, "pass": 3, "differ": 0, "missing": 0, "extra": 0, "shape": 0, "nonfinite": 0,
                "skipped": 1, "coverage": 0.75})
        );
        assert_eq!(
            keys(&v["tensors"][2]),
            "dump step name occurrence layer op shape verdict reason cosine one_minus_cosine relative_l2 \
             scaled_error max_abs worst_index reference actual introduced amplification actual_vs_exact reference_vs_exact departs floor times_floor zero limit share"
        );
        let t = &v["tensors"][2];
        assert_eq!((&t["name"], &t["layer"], &t["verdict"]), (&json!("l_out-1"), &json!(1), &json!("pass")));
        assert_eq!((&t["shape"], &t["worst_index"]), (&json!([2, 2]), &json!([1, 1])));
        assert_eq!(
            (&t["reference"], &t["introduced"], &t["limit"]),
            (&json!(0.0), &Value::Null, &json!(1e-3))
        );
        assert_eq!(
            (&v["version"], &v["is_pass"], &v["first_difference"]),
            (&json!(1), &json!(true), &Value::Null)
        );
        assert_eq!(v["logits"]["argmax_reference"], 1);
        assert_eq!(v["logits"]["rows"][0]["top10_agreement"], 3);
    }

    #[test]
    fn each_bad_verdict_is_in_the_json() {
        let names = ["differ", "missing", "extra", "shape", "nonfinite"];
        for (bad, name) in example::failures().into_iter().zip(names) {
            let mut comparison = example::passing();
            comparison.results.push(bad);
            let v = one(&comparison);
            assert_eq!((&v["is_pass"], &v["summary"][name]), (&json!(false), &json!(1)), "{name}");
            assert_eq!(
                (&v["tensors"][4]["verdict"], &v["first_difference"]["verdict"]),
                (&json!(name), &json!(name))
            );
            assert!(v["tensors"][4]["reason"].is_string());
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_null() {
        let comparison = Comparison {
            results: vec![example::tensor("norm-1", "NORM", f32::INFINITY)],
            logits: Vec::new(),
        };
        let v = one(&comparison);
        let t = &v["tensors"][0];
        assert_eq!((&t["actual"], &t["cosine"], &t["max_abs"]), (&Value::Null, &Value::Null, &Value::Null));
        assert_eq!((&t["verdict"], &v["logits"]), (&json!("nonfinite"), &Value::Null));
    }

    #[test]
    fn what_the_first_difference_looks_like() {
        for (result, diagnosis) in [
            (example::diagnosed("kq-3", "a factor 2"), json!("looks like a factor 2")),
            (example::failures().remove(1), Value::Null),
        ] {
            let comparison = Comparison { results: vec![result], logits: Vec::new() };
            let v = parse(&[Report { name: "mini", header: &[], steps: &[], comparison: &comparison }]);
            assert_eq!(v["first_difference"]["diagnosis"], diagnosis);
        }
    }

    #[test]
    fn no_report_and_several() {
        assert_eq!(parse(&[])["is_pass"], false);
        let (a, b) = (example::passing(), Comparison { results: example::failures(), logits: Vec::new() });
        let v = parse(&[
            Report { name: "a", header: &[], steps: &[], comparison: &a },
            Report { name: "b", header: &[], steps: &[], comparison: &b },
        ]);
        assert_eq!((&v["summary"]["compared"], &v["first_difference"]["dump"]), (&json!(5), &json!("b")));
    }
}
