//! Small comparisons for the tests of every format.

use crate::compare::{Comparison, Finding, Leg, Legs, Limit, LogitsResult, Shaped, TensorResult, U, Verdict};
use crate::replay::{NodeResult, Outcome, Rounding};
use crate::tensor::TensorId;
use crate::tensor::Values;

/// The identity of a tensor of step 0.
pub(crate) fn id(name: &str) -> TensorId {
    TensorId { step: 0, name: name.into(), occurrence: 0 }
}

/// A tensor of two rows of two whose reference is 3, 4, 0, 0 and whose last actual value is `last`.
pub(crate) fn tensor(name: &str, op: &str, last: f32) -> TensorResult {
    let ne = [2, 2, 1, 1];
    let reference = Shaped { ne, values: &[3.0, 4.0, 0.0, 0.0][..] };
    let actual = [3.0, 4.0, 0.0, last];
    let actual = Shaped { ne, values: Values::F32(&actual) };
    TensorResult::measure(id(name), op, reference, actual, None, Limit::CUMULATIVE)
        .expect("four values of two rows of two")
}

/// A tensor that differs, with a verified shape of its error.
pub(crate) fn diagnosed(name: &str, words: &str) -> TensorResult {
    let sign = Finding { shape: "sign", words: words.to_owned(), explains: Some(1.0), is_verified: true };
    TensorResult { diagnosis: vec![sign], ..tensor(name, "MUL_MAT", 5.0) }
}

/// Legs whose sides use these shares of their budget.
pub(crate) fn legs(actual: f64, reference: f64) -> Legs {
    let leg =
        |share: f64| Leg { scaled_error: share * U, share, worst_index: 3, value: 1.5, exact: 1.0, flips: 0 };
    Legs { introduced: 2.0 * U, actual: leg(actual), reference: leg(reference) }
}

/// Logits of one row: token 1 first, by 0.5.
pub(crate) fn logits(step: u32, actual: [f32; 3]) -> LogitsResult {
    LogitsResult::measure(step, 0, &[1.0, 2.0, 1.5], Values::F32(&actual), Limit::CUMULATIVE)
        .expect("three on both sides")
}

/// Four tensors that pass: an exact one, one at 0.4 and one at 0.002 of the limit, one skipped.
pub(crate) fn passing() -> Comparison {
    Comparison {
        results: vec![
            tensor("attn_norm-0", "RMS_NORM", 0.0),
            tensor("l_out-0", "ADD", 1e-5),
            tensor("l_out-1", "ADD", 0.002),
            TensorResult::skipped(id("view-1"), "VIEW", [1; 4], "a view", Limit::CUMULATIVE),
        ],
        logits: vec![logits(0, [1.0, 2.0, 1.5])],
    }
}

/// Each verdict that fails, once.
pub(crate) fn failures() -> Vec<TensorResult> {
    let missing = TensorResult::missing(id("Kcur-1"), "ROPE", [2, 2, 1, 1], Limit::CUMULATIVE);
    let shape = Verdict::Shape { reference: [4, 2, 1, 1], actual: [2, 4, 1, 1] };
    vec![
        tensor("attn_output-1", "MUL_MAT", 1.55),
        missing.clone(),
        TensorResult::extra(id("Vcur-1"), [2, 2, 1, 1], Limit::CUMULATIVE),
        TensorResult { id: id("Qcur-1"), verdict: shape, ..missing },
        tensor("norm-1", "NORM", f32::NAN),
    ]
}

/// A replayed node: an addition whose reference is 1 and whose exact value is 1.5, at element 7.
pub(crate) fn node(name: &str, outcome: Outcome, share: f64) -> NodeResult {
    NodeResult {
        id: id(name),
        op: "ADD".into(),
        types: "f32 x f32".into(),
        outcome,
        rounding: Rounding::None,
        is_zero: false,
        flips: 0,
        ties: 0,
        scaled_error: 4.0 * share,
        share,
        worst_index: 7,
        reference: 1.0,
        exact: 1.5,
        bits: None,
    }
}
