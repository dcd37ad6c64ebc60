//! Diagnoses as versioned JSON: fields are only ever added, and what is not known is null.

use serde::Serialize;

use super::diagnosis::looks_like;
use super::number::finite;
use crate::compare::{Comparison, Finding, TensorResult};

/// The version of the schema.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    is_equal: bool,
    tensors: Vec<Tensor<'a>>,
}

#[derive(Serialize)]
struct Tensor<'a> {
    step: Option<u32>,
    name: &'a str,
    occurrence: Option<u32>,
    op: Option<&'a str>,
    verdict: &'static str,
    relative_l2: Option<f64>,
    diagnosis: Option<String>,
    findings: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    shape: &'a str,
    words: &'a str,
    explains: Option<f64>,
    is_verified: bool,
}

/// The document for two dumps: the tensors that failed or were diagnosed. Ends with a line feed.
pub fn diagnosis_json(comparison: &Comparison, is_equal: bool) -> String {
    let is_told = |result: &&TensorResult| result.verdict.is_failure() || !result.diagnosis.is_empty();
    document(is_equal, comparison.results.iter().filter(is_told).map(of_result).collect())
}

/// The document for two tensors without a graph.
pub fn diagnosis_of_pair_json(name: &str, diagnosis: &[Finding], is_equal: bool) -> String {
    let tensor = Tensor {
        step: None,
        name,
        occurrence: None,
        op: None,
        verdict: if is_equal { "pass" } else { "differ" },
        relative_l2: None,
        diagnosis: looks_like(diagnosis),
        findings: diagnosis.iter().map(one).collect(),
    };
    document(is_equal, vec![tensor])
}

fn document(is_equal: bool, tensors: Vec<Tensor<'_>>) -> String {
    let document = Document { version: VERSION, is_equal, tensors };
    let mut text = serde_json::to_string(&document).expect("plain structs with string keys");
    text.push('\n');
    text
}

fn of_result(result: &TensorResult) -> Tensor<'_> {
    Tensor {
        step: Some(result.id.step),
        name: &result.id.name,
        occurrence: Some(result.id.occurrence),
        op: Some(&result.op),
        verdict: result.verdict.name(),
        relative_l2: result.metrics.as_ref().and_then(|m| finite(m.relative_l2)),
        diagnosis: looks_like(&result.diagnosis),
        findings: result.diagnosis.iter().map(one).collect(),
    }
}

fn one(finding: &Finding) -> One<'_> {
    One {
        shape: finding.shape,
        words: &finding.words,
        explains: finding.explains.and_then(finite),
        is_verified: finding.is_verified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::words::example;
    use serde_json::{Value, json};

    #[test]
    fn what_was_found_is_in_the_json() {
        let mut comparison = example::passing();
        comparison.results[0] = example::diagnosed("kq-3", "a sign: every value is negated");
        let v: Value = serde_json::from_str(&diagnosis_json(&comparison, false)).unwrap();
        assert_eq!(
            v,
            json!({"version": 1, "is_equal": false, "tensors": [
                {"step": 0, "name": "kq-3", "occurrence": 0, "op": "MUL_MAT", "verdict": "differ", "relative_l2": 1.0,
                 "diagnosis": "looks like a sign: every value is negated",
                 "findings": [{"shape": "sign", "words": "a sign: every value is negated", "explains": 1.0,
                               "is_verified": true}]},
            ]})
        );
        let v: Value = serde_json::from_str(&diagnosis_of_pair_json("x", &[], true)).unwrap();
        assert_eq!((&v["is_equal"], &v["tensors"][0]["diagnosis"]), (&json!(true), &Value::Null));
    }
}
