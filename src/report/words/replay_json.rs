//! Replays as versioned JSON, in the manner of the check's: fields are only ever added, and what is not finite is null.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::number::finite;
use crate::replay::{NodeResult, Outcome, Replay, ReplaySummary, Rounding};

/// The version of the schema.
const VERSION: u32 = 1;

/// The document for the replays of one invocation, each with the name of its dump; ends with a line feed.
pub fn replay_json(replays: &[(&str, &Replay)]) -> String {
    let results = || replays.iter().flat_map(|(dump, replay)| replay.results.iter().map(|r| (*dump, r)));
    let mut summary = ReplaySummary::default();
    replays.iter().for_each(|(_, replay)| summary += replay.summary());
    let is_bad = |r: &NodeResult| matches!(r.outcome, Outcome::Over | Outcome::NonFinite);
    let document = Document {
        version: VERSION,
        arithmetic: arithmetic(replays),
        is_pass: !replays.is_empty() && replays.iter().all(|(_, replay)| replay.is_pass()),
        summary: Counts {
            compared: summary.compared,
            within: summary.within,
            over: summary.over,
            nonfinite: summary.nonfinite,
            skipped: summary.skipped,
            not_held: replays.iter().map(|(_, replay)| replay.not_held).sum(),
            zero: summary.zero,
            coverage: summary.coverage(),
        },
        groups: groups(results()),
        nodes: results().map(|(dump, r)| node(dump, r)).collect(),
        first_over: results().find(|(_, r)| is_bad(r)).map(|(dump, r)| node(dump, r)),
    };
    let mut text = serde_json::to_string(&document).expect("plain structs with string keys");
    text.push('\n');
    text
}

/// What nodes were evaluated in.
fn arithmetic(replays: &[(&str, &Replay)]) -> String {
    let builds: BTreeSet<String> = replays
        .iter()
        .map(|(_, replay)| replay.arithmetic.map_or("exact".to_owned(), |isa| format!("ggml {isa}")))
        .collect();
    builds.into_iter().collect::<Vec<_>>().join(", ")
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    arithmetic: String,
    is_pass: bool,
    summary: Counts,
    groups: Vec<Group<'a>>,
    nodes: Vec<Node<'a>>,
    first_over: Option<Node<'a>>,
}

#[derive(Serialize)]
struct Counts {
    compared: u64,
    within: u64,
    over: u64,
    nonfinite: u64,
    skipped: u64,
    not_held: u64,
    zero: u64,
    coverage: f64,
}

/// Nodes of one operator, with sources of the same types, of one rounding.
#[derive(Serialize)]
struct Group<'a> {
    op: &'a str,
    types: &'a str,
    rounding: Option<String>,
    nodes: u64,
    worst_scaled_error_u: Option<f64>,
    worst_share: Option<f64>,
    worst: Option<Place<'a>>,
}

#[derive(Serialize)]
struct Place<'a> {
    dump: &'a str,
    step: u32,
    name: &'a str,
    occurrence: u32,
}

#[derive(Serialize)]
struct Node<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    layer: Option<u32>,
    op: &'a str,
    types: &'a str,
    outcome: &'static str,
    reason: Option<&'a str>,
    rounding: Option<String>,
    scaled_error_u: Option<f64>,
    share: Option<f64>,
    worst_index: Option<u64>,
    reference: Option<f64>,
    exact: Option<f64>,
    flips: Option<u64>,
    ties: Option<u64>,
    is_zero: Option<bool>,
    elements: Option<u64>,
    differing: Option<u64>,
    ulps: Option<u64>,
}

/// Operator, types and rounding.
type Key<'a> = (&'a str, &'a str, Option<Rounding>);

/// One group for each operator, types and rounding, in that order; of what was skipped no rounding is known.
fn groups<'a>(results: impl Iterator<Item = (&'a str, &'a NodeResult)>) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<Key<'a>, Vec<(&str, &NodeResult)>> = BTreeMap::new();
    for (dump, r) in results {
        let rounding = is_compared(r).then_some(r.rounding);
        groups.entry((&r.op[..], &r.types[..], rounding)).or_default().push((dump, r));
    }
    let group = |((op, types, rounding), results): (Key<'a>, Vec<(&'a str, &'a NodeResult)>)| {
        let compared = || results.iter().filter(|(_, r)| is_compared(r));
        let worst = compared().copied().reduce(|a, b| if b.1.share > a.1.share { b } else { a });
        let error = compared().map(|(_, r)| r.scaled_error).reduce(f64::max);
        Group {
            op,
            types,
            rounding: rounding.as_ref().map(Rounding::to_string),
            nodes: results.len() as u64,
            worst_scaled_error_u: error.and_then(finite),
            worst_share: worst.and_then(|(_, r)| finite(r.share)),
            worst: worst.map(|(dump, r)| place(dump, r)),
        }
    };
    groups.into_iter().map(group).collect()
}

fn place<'a>(dump: &'a str, r: &'a NodeResult) -> Place<'a> {
    Place { dump, step: r.id.step, name: &r.id.name, occurrence: r.id.occurrence }
}

fn node<'a>(dump: &'a str, r: &'a NodeResult) -> Node<'a> {
    let compared = is_compared(r).then_some(r);
    let (outcome, reason) = match &r.outcome {
        Outcome::Within => ("within", None),
        Outcome::Over => ("over", None),
        Outcome::NonFinite => ("nonfinite", None),
        Outcome::Skipped(reason) => ("skipped", Some(&reason[..])),
    };
    Node {
        place: place(dump, r),
        layer: r.id.layer(),
        op: &r.op,
        types: &r.types,
        outcome,
        reason,
        rounding: compared.map(|r| r.rounding.to_string()),
        scaled_error_u: compared.and_then(|r| finite(r.scaled_error)),
        share: compared.and_then(|r| finite(r.share)),
        worst_index: compared.map(|r| r.worst_index),
        reference: compared.and_then(|r| finite(r.reference)),
        exact: compared.and_then(|r| finite(r.exact)),
        flips: compared.map(|r| r.flips),
        ties: compared.map(|r| r.ties),
        is_zero: compared.map(|r| r.is_zero),
        elements: r.bits.map(|bits| bits.elements),
        differing: r.bits.map(|bits| bits.differing),
        ulps: r.bits.map(|bits| bits.ulps),
    }
}

fn is_compared(r: &NodeResult) -> bool {
    !matches!(r.outcome, Outcome::Skipped(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::Isa;
    use crate::replay::{ActivationRounding, Bits};
    use crate::report::words::example;
    use serde_json::{Value, json};

    fn parsed(replays: &[(&str, &Replay)]) -> Value {
        serde_json::from_str(&replay_json(replays)).unwrap()
    }

    fn replay(results: Vec<NodeResult>) -> Replay {
        Replay { results, not_held: 3, arithmetic: None }
    }

    #[test]
    fn every_node_and_every_group_is_in_the_json() {
        let skipped = Outcome::Skipped("a source is not in the dump: x".into());
        let replay = replay(vec![
            example::node("norm-1", Outcome::Within, 0.25),
            example::node("l_out-1", Outcome::Within, 0.5),
            example::node("kq-1", skipped, 0.0),
        ]);
        let v = parsed(&[("micro / nodes-5", &replay)]);
        assert_eq!((&v["version"], &v["is_pass"], &v["first_over"]), (&json!(1), &json!(true), &Value::Null));
        assert_eq!(v["arithmetic"], "exact");
        assert_eq!(
            v["summary"],
            json!({"compared": 2, "within": 2, "over": 0, "nonfinite": 0, "skipped": 1, "not_held": 3, "zero": 0,
                   "coverage": 2.0 / 3.0})
        );
        let place = json!({"dump": "micro / nodes-5", "step": 0, "name": "l_out-1", "occurrence": 0});
        assert_eq!(
            v["groups"],
            json!([
                {"op": "ADD", "types": "f32 x f32", "rounding": null, "nodes": 1, "worst_scaled_error_u": null,
                 "worst_share": null, "worst": null},
                {"op": "ADD", "types": "f32 x f32", "rounding": "none", "nodes": 2, "worst_scaled_error_u": 2.0,
                 "worst_share": 0.5, "worst": place},
            ])
        );
        assert_eq!(
            v["nodes"][0],
            json!({"dump": "micro / nodes-5", "step": 0, "name": "norm-1", "occurrence": 0, "layer": 1, "op": "ADD",
                   "types": "f32 x f32", "outcome": "within", "reason": null, "rounding": "none",
                   "scaled_error_u": 1.0, "share": 0.25, "worst_index": 7, "reference": 1.0, "exact": 1.5,
                   "flips": 0, "ties": 0, "is_zero": false,
                   "elements": null, "differing": null, "ulps": null})
        );
        let skipped = &v["nodes"][2];
        assert_eq!(
            (&skipped["outcome"], &skipped["reason"], &skipped["share"], &skipped["rounding"]),
            (&json!("skipped"), &json!("a source is not in the dump: x"), &Value::Null, &Value::Null)
        );
    }

    #[test]
    fn the_first_that_is_not_within_its_budget_is_told() {
        for (outcome, name) in [(Outcome::Over, "over"), (Outcome::NonFinite, "nonfinite")] {
            let good = replay(vec![example::node("norm-1", Outcome::Within, 0.25)]);
            let bad = replay(vec![example::node("norm-2", outcome, f64::INFINITY)]);
            let v = parsed(&[("a", &good), ("b", &bad)]);
            assert_eq!((&v["is_pass"], &v["summary"][name]), (&json!(false), &json!(1)));
            let first = &v["first_over"];
            assert_eq!(
                (&first["dump"], &first["name"], &first["outcome"]),
                (&json!("b"), &json!("norm-2"), &json!(name))
            );
            assert_eq!((&first["share"], &first["scaled_error_u"]), (&Value::Null, &Value::Null));
            assert_eq!(v["groups"][0]["worst"]["name"], "norm-2");
        }
    }

    #[test]
    fn each_rounding_is_a_group() {
        let mut rounded = example::node("kq-1", Outcome::Within, 0.125);
        rounded.rounding = Rounding::Activation(ActivationRounding::Bf16);
        let replay = replay(vec![example::node("kq-0", Outcome::Within, 0.25), rounded]);
        let v = parsed(&[("a", &replay)]);
        let names: Vec<&Value> = v["groups"].as_array().unwrap().iter().map(|g| &g["rounding"]).collect();
        assert_eq!(names, [&json!("none"), &json!("BF16")]);
    }

    #[test]
    fn bits_are_counted() {
        let bits = Some(Bits { elements: 8, differing: 2, ulps: 3 });
        let node = NodeResult { bits, ..example::node("kq-1", Outcome::Over, f64::INFINITY) };
        let v = parsed(&[("a", &Replay { results: vec![node], not_held: 0, arithmetic: Some(Isa::Avx2) })]);
        assert_eq!((&v["arithmetic"], &v["is_pass"]), (&json!("ggml AVX2"), &json!(false)));
        let node = &v["nodes"][0];
        assert_eq!((&node["elements"], &node["differing"], &node["ulps"]), (&json!(8), &json!(2), &json!(3)));
    }

    #[test]
    fn nothing_is_no_pass() {
        assert_eq!(parsed(&[])["is_pass"], false);
        assert_eq!(parsed(&[("a", &Replay::default())])["is_pass"], false);
    }
}
