//! What each order of operations and each rounding does to a result: the figures of docs/arithmetic.md.

use std::fs;
use std::path::Path;

use lockstep::replay::{Arithmetic, Assumed, Walk};
use serde_json::{Value, json};

use crate::mistakes::{MISTAKES, Mistake, opened};

/// u, which errors are given in.
const U: f64 = 1.0 / 16_777_216.0;

/// How many elements change, of how many, and the largest change as a share of the terms, in u.
fn measured(mistake: &Mistake) -> Option<(u64, u64, f64)> {
    let (gguf, hash, dump) = opened(mistake.dump)?;
    let of = |arithmetic| Walk::new(arithmetic, &gguf, &hash, &dump).unwrap();
    let (mut exact, mut own) = (of(Arithmetic::Exact(Assumed::None)), of(Arithmetic::Ggml));
    let mut wrong = of(Arithmetic::Ggml).with_primitives(mistake.primitives);
    let (mut changed, mut all, mut largest) = (0, 0, 0.0f64);
    while let (Some(exact), Some(own), Some(wrong)) =
        (exact.step().unwrap(), own.step().unwrap(), wrong.step().unwrap())
    {
        for ((exact, own), wrong) in exact.iter().zip(&own).zip(&wrong) {
            let (Some(terms), Some(own_values), Some(values)) = (exact.terms(), own.exact(), wrong.exact())
            else {
                continue;
            };
            if own.result.op != mistake.red {
                continue;
            }
            for ((own, wrong), terms) in own_values.iter().zip(values).zip(terms) {
                all += 1;
                if own != wrong {
                    changed += 1;
                }
                // What is moved, or 0 by its function's limits, has no terms.
                if own != wrong && *terms > 0.0 {
                    largest = largest.max((own - wrong).abs() / terms / U);
                }
            }
        }
    }
    Some((changed, all, largest))
}

fn row(mistake: &Mistake) -> Option<Value> {
    let (changed, all, largest) = measured(mistake)?;
    let largest: f64 = format!("{largest:.1e}").parse().unwrap();
    Some(json!({
        "operator": mistake.red, "otherwise": mistake.what, "dump": format!("{}/{}", mistake.dump.0, mistake.dump.1),
        "changed": changed, "elements": all, "largest_u": largest,
    }))
}

fn file() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/measured/arithmetic.json")
}

/// Measures all of it anew: `cargo test --release --test to_the_bit -- --ignored measure`, then scripts/arithmetic-table.py --write.
#[test]
#[ignore = "it writes docs/measured/arithmetic.json"]
fn measure() {
    let rows: Vec<Value> =
        MISTAKES.iter().map(|mistake| row(mistake).expect("scripts/real-models.sh --fetch")).collect();
    fs::write(file(), serde_json::to_string_pretty(&json!({ "rows": rows })).unwrap() + "\n").unwrap();
}

/// Every order that is tested is in the table, and what is in the table is tested.
#[test]
fn the_table_has_every_order_and_rounding_that_is_tested() {
    let table: Value = serde_json::from_str(&fs::read_to_string(file()).unwrap()).unwrap();
    let listed: Vec<(&str, &str)> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["operator"].as_str().unwrap(), row["otherwise"].as_str().unwrap()))
        .collect();
    let tested: Vec<(&str, &str)> = MISTAKES.iter().map(|mistake| (mistake.red, mistake.what)).collect();
    assert_eq!(listed, tested);
    for row in table["rows"].as_array().unwrap() {
        assert!(row["changed"].as_u64().unwrap() > 0, "{row}");
    }
}
