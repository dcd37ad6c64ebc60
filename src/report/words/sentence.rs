//! Results in words.

use std::collections::BTreeMap;

use super::diagnosis::looks_like;
use super::number::{count, decimal, digits, index, limit, percent, scientific, share};
use super::tokens::{other_token, other_tokens};
use crate::compare::{Comparison, Departs, Leg, Metrics, Summary, TensorResult, Verdict, worst};
use crate::tensor::{Layout, TensorId};

/// The name, with its occurrence if it is not the first: `norm-3 #1`.
pub(crate) fn tensor_name(id: &TensorId) -> String {
    if id.occurrence == 0 { id.name.clone() } else { format!("{} #{}", id.name, id.occurrence) }
}

/// Where the worst element is: `blk.50 step 3 [417]`.
pub(crate) fn place(result: &TensorResult) -> String {
    let layer = result.id.layer().map(|layer| format!("blk.{layer} ")).unwrap_or_default();
    let at = result.worst_index().map(|at| format!(" {}", index(&at))).unwrap_or_default();
    format!("{layer}step {}{at}", result.id.step)
}

/// The verdict as a reader says it.
pub(crate) fn verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::NonFinite => "non-finite",
        other => other.name(),
    }
}

/// A shape outermost first: `[2,4]` for ne = {4, 2, 1, 1}.
pub(crate) fn shape(ne: [u64; 4]) -> String {
    index(&Layout { ne, nb: [0; 4] }.shape())
}

/// Why a tensor did not pass; `None` if it did.
pub(crate) fn reason(result: &TensorResult) -> Option<String> {
    Some(match (&result.verdict, &result.metrics) {
        (Verdict::Pass, _) => return None,
        (Verdict::Skipped(reason), _) => format!("skipped: {reason}"),
        (Verdict::Missing, _) => "missing from the actual run".to_owned(),
        (Verdict::Extra, _) => "extra, the reference does not have it".to_owned(),
        (Verdict::Shape { reference, actual }, _) => {
            format!("shape {} in the reference, {} in the actual run", shape(*reference), shape(*actual))
        }
        (Verdict::Differ, m) => differs(result, m.as_ref()),
        (Verdict::NonFinite, Some(m)) => format!(
            "{} non-finite in the reference, {} in the actual run; at {} reference {}, actual {}",
            count(m.reference_nonfinite.count),
            count(m.actual_nonfinite.count),
            index(&result.worst_index().unwrap_or_default()),
            decimal(m.reference),
            decimal(m.actual),
        ),
        (bad, None) => format!("{}, not measured", verdict(bad)),
    })
}

/// Who departed, where that was judged; else how far the two are apart.
fn differs(result: &TensorResult, metrics: Option<&Metrics>) -> String {
    let apart = || {
        let Some(metrics) = metrics else { return "differ, not measured".to_owned() };
        let limit = if result.floor.is_some() { scientific(result.limit, 1) } else { limit(result.limit) };
        let floor = result.times_floor().map(|times| format!(", {} x floor", share(times)));
        format!("relative L2 {}, limit {limit}{}", decimal(metrics.relative_l2), floor.unwrap_or_default())
    };
    let Some(legs) = &result.legs else { return apart() };
    let departed = |who: &str, leg: &Leg| {
        format!(
            "{who} departs, {} where {} is exact, {} x its budget",
            digits(leg.value),
            digits(leg.exact),
            share(leg.share)
        )
    };
    match legs.departs() {
        Departs::Neither => format!("{}; within rounding from the reference's inputs", apart()),
        Departs::Actual => departed("actual", &legs.actual),
        Departs::Reference => departed("reference", &legs.reference),
        Departs::Both => {
            format!(
                "both depart: {}; {}",
                departed("actual", &legs.actual),
                departed("reference", &legs.reference)
            )
        }
    }
}

/// What a failing run says first: which tensor failed first in graph order, why, and how many later ones
/// failed too; or, if none did, which token differs. `None` for a pass.
pub fn first_difference(comparison: &Comparison) -> Option<String> {
    let Some(first) = comparison.first_difference() else {
        return comparison.first_other_token().map(other_token);
    };
    let result = first.result;
    let layer = result.id.layer().map(|layer| format!("blk.{layer}"));
    let op = (!result.op.is_empty()).then(|| result.op.clone());
    let place: Vec<String> =
        [layer, op, Some(format!("step {}", result.id.step))].into_iter().flatten().collect();
    let later = later(comparison, first.later_failures, result);
    let mut reason = reason(result).unwrap_or_default();
    if let Some(looks_like) = looks_like(&result.diagnosis) {
        reason = format!("{reason}; {looks_like}");
    }
    Some(format!("first difference: {} ({}): {reason}; {later}", tensor_name(&result.id), place.join(", ")))
}

/// What became of the tensors behind the first that failed: an error that was carried on, or one of their own.
fn later(comparison: &Comparison, failures: usize, first: &TensorResult) -> String {
    let tensors = |n: usize| {
        if n == 1 { "1 later tensor".to_owned() } else { format!("{} later tensors", count(n as u64)) }
    };
    let s = |n: usize| if n == 1 { "s" } else { "" };
    if failures == 0 {
        return "no later tensor fails".to_owned();
    }
    if !first.verdict.is_compared() {
        return format!("{} fail{} too", tensors(failures), s(failures));
    }
    let departs = |r: &&TensorResult| r.departs().is_some_and(|departs| departs != Departs::Neither);
    let departing = comparison.results.iter().filter(|r| r.verdict.is_failure()).filter(departs).count();
    let departing = departing - usize::from(departs(&first));
    let inherited = failures.saturating_sub(departing);
    let mut parts = Vec::new();
    if inherited > 0 {
        parts.push(format!("inherited by {}", tensors(inherited)));
    }
    if departing > 0 {
        parts.push(format!("{} depart{} too", tensors(departing), s(departing)));
    }
    parts.join(", ")
}

/// The last line of every output, over one or more comparisons.
pub fn summary_line(comparisons: &[&Comparison]) -> String {
    let mut s = Summary::default();
    for comparison in comparisons {
        s += comparison.summary();
    }
    let mut line = format!(
        "{} compared: {} pass, {} differ, {} missing, {} extra, {} skipped",
        count(s.compared),
        count(s.pass),
        count(s.differ),
        count(s.missing),
        count(s.extra),
        count(s.skipped),
    );
    for (n, what) in [(s.shape, "shape"), (s.nonfinite, "non-finite")] {
        if n > 0 {
            line += &format!(", {} {what}", count(n));
        }
    }
    line += &format!("; coverage {}; ", percent(s.compared, s.expected()));
    if s.compared > 0 && s.zero == s.compared {
        return line + "every tensor is zero on both sides, which shows nothing";
    }
    line += &match worst(comparisons.iter().filter_map(|c| c.worst())) {
        None => "nothing was compared".to_owned(),
        Some(result) => format!("worst {}", of_limit(result)),
    };
    line + &other_tokens(comparisons)
}

/// How much of its limit a tensor uses, or how it ended if it has no share: `l_out-50 0.4 of its limit`, `norm-1 non-finite`.
pub(crate) fn of_limit(result: &TensorResult) -> String {
    let name = tensor_name(&result.id);
    match result.share {
        Some(of_limit) => format!("{name} {} of its limit", share(of_limit)),
        None => format!("{name} {}", verdict(&result.verdict)),
    }
}

/// The tensor whose error is the most times its noise floor; none if no floor was measured.
pub(crate) fn floor_line(comparison: &Comparison) -> Option<String> {
    let times = comparison.results.iter().filter_map(|r| Some((r.times_floor()?, r)));
    let (times, result) = times.reduce(|a, b| if b.0 > a.0 { b } else { a })?;
    Some(format!("worst {} {} x its noise floor", tensor_name(&result.id), share(times)))
}

/// What a reader should know although nothing failed by it.
pub(crate) fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let is_zero = |r: &&TensorResult| r.metrics.as_ref().is_some_and(|m| m.both_zero);
    match comparison.results.iter().filter(is_zero).count() as u64 {
        0 => {}
        1 => notes.push("1 tensor is zero on both sides".to_owned()),
        n => notes.push(format!("{} tensors are zero on both sides", count(n))),
    }
    let mut skipped: BTreeMap<&str, u64> = BTreeMap::new();
    for result in &comparison.results {
        if let Verdict::Skipped(reason) = &result.verdict {
            *skipped.entry(reason).or_default() += 1;
        }
    }
    notes.extend(skipped.into_iter().map(|(reason, n)| format!("{} skipped: {reason}", count(n))));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::words::example;

    #[test]
    fn each_failure_says_what_broke() {
        let expected = [
            "attn_output-1 (blk.1, MUL_MAT, step 0): relative L2 0.31, limit 1e-03; inherited by 1 later tensor",
            "Kcur-1 (blk.1, ROPE, step 0): missing from the actual run; 1 later tensor fails too",
            "Vcur-1 (blk.1, step 0): extra, the reference does not have it; 1 later tensor fails too",
            "Qcur-1 (blk.1, ROPE, step 0): shape [2,4] in the reference, [4,2] in the actual run; 1 later tensor fails too",
            "norm-1 (blk.1, NORM, step 0): 0 non-finite in the reference, 1 in the actual run; at [1,1] reference 0, actual NaN; inherited by 1 later tensor",
        ];
        for (bad, expected) in example::failures().into_iter().zip(expected) {
            let mut comparison = example::passing();
            comparison.results.push(bad);
            comparison.results.push(example::tensor("l_out-2", "ADD", 9.0));
            assert_eq!(first_difference(&comparison).unwrap(), format!("first difference: {expected}"));
        }
        assert_eq!(first_difference(&example::passing()), None);
    }

    #[test]
    fn who_departed_is_said() {
        let said = |actual: f64, reference: f64| {
            let result = example::tensor("l_out-0", "ADD", 0.0).with_legs(example::legs(actual, reference));
            reason(&result)
        };
        assert_eq!(said(0.5, 0.5), None);
        assert_eq!(
            said(3.0, 0.5).unwrap(),
            "actual departs, 1.5000000 where 1.0000000 is exact, 3 x its budget"
        );
        assert_eq!(
            said(0.5, 3.0).unwrap(),
            "reference departs, 1.5000000 where 1.0000000 is exact, 3 x its budget"
        );
        assert!(said(2.0, 3.0).unwrap().starts_with("both depart: actual departs"));
        // Too far from the reference, and yet every operator is right: the error was carried in.
        let inherited = TensorResult { floor: Some(1e-6), ..example::tensor("l_out-0", "ADD", 0.5) };
        let inherited = inherited.with_legs(example::legs(0.5, 0.5));
        assert_eq!(
            reason(&inherited).unwrap(),
            "relative L2 0.10, limit 1.0e-03, 1e+05 x floor; within rounding from the reference's inputs"
        );
    }

    #[test]
    fn what_is_inherited_is_told_from_what_departs_too() {
        let departs = |name| example::tensor(name, "ADD", 9.0).with_legs(example::legs(3.0, 0.5));
        let inherits = |name| example::tensor(name, "ADD", 9.0).with_legs(example::legs(0.5, 0.5));
        let results = vec![departs("a-0"), inherits("b-0"), inherits("c-0"), departs("d-0")];
        let said = first_difference(&Comparison { results, logits: Vec::new() }).unwrap();
        assert!(said.ends_with("; inherited by 2 later tensors, 1 later tensor departs too"), "{said}");
    }

    #[test]
    fn what_the_first_difference_looks_like_stands_behind_it() {
        let results = vec![example::diagnosed("kq-3", "a factor 2")];
        let said = first_difference(&Comparison { results, logits: Vec::new() }).unwrap();
        assert_eq!(
            said,
            "first difference: kq-3 (blk.3, MUL_MAT, step 0): relative L2 1.00, limit 1e-03; looks like a factor 2; \
             no later tensor fails"
        );
    }

    #[test]
    fn the_last_line_counts_everything() {
        let passing = example::passing();
        assert_eq!(
            summary_line(&[&passing]),
            "3 compared: 3 pass, 0 differ, 0 missing, 0 extra, 1 skipped; coverage 75%; worst l_out-1 0.4 of its limit"
        );
        let failing = Comparison { results: example::failures(), ..Comparison::default() };
        assert_eq!(
            summary_line(&[&passing, &failing]),
            "5 compared: 3 pass, 1 differ, 1 missing, 1 extra, 1 skipped, 1 shape, 1 non-finite; \
             coverage 62.5%; worst norm-1 non-finite"
        );
        assert_eq!(
            summary_line(&[]),
            "0 compared: 0 pass, 0 differ, 0 missing, 0 extra, 0 skipped; coverage 0%; nothing was compared"
        );
    }

    #[test]
    fn another_token_alone_is_said() {
        let mut comparison = example::passing();
        comparison.logits.push(example::logits(3, [1.0, 1.5, 2.0]));
        assert_eq!(
            first_difference(&comparison).unwrap(),
            "every tensor is within its limit, but the next token differs first at step 3: 1 != 2, margin 0.50, actual 0.50, \
             different: rank 2, 0.50 behind, noise 2.2e-03"
        );
        assert!(
            summary_line(&[&comparison]).ends_with("of its limit; tokens: 1 equal, 0 near ties, 1 different")
        );
    }

    #[test]
    fn notes_tell_zeros_and_skips() {
        let mut comparison = example::passing();
        comparison.results[0].metrics.as_mut().unwrap().both_zero = true;
        assert_eq!(notes(&comparison), ["1 tensor is zero on both sides", "1 skipped: a view"]);
    }
}
