//! The shape of an error in words.

use std::iter;

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::number::{count, decimal, share};
use super::sentence::{reason, tensor_name};
use crate::compare::{Comparison, Finding, TensorResult};

/// Rows at most, unless all are asked for.
const ROWS: usize = 20;

/// What an error looks like, from the first thing that was found; none if it was not looked for.
pub(crate) fn looks_like(diagnosis: &[Finding]) -> Option<String> {
    let first = diagnosis.first()?;
    let is_likeness = first.is_verified && first.shape != "equal";
    Some(if is_likeness { format!("looks like {}", first.words) } else { first.words.clone() })
}

/// Everything that was found about one pair of tensors, one line each.
fn findings(diagnosis: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["shape", "explains", "what"]);
    for finding in diagnosis {
        let explains = finding.explains.map(percent).unwrap_or_default();
        let explains = Cell::new(explains).set_alignment(CellAlignment::Right);
        table.add_row([Cell::new(finding.shape), explains, Cell::new(&finding.words)]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt().lines().map(|line| format!("  {line}\n")).collect()
}

/// Of an error's energy; only what is left of nothing is `100%`.
fn percent(explains: f64) -> String {
    let percent = 100.0 * explains;
    if percent == 100.0 { "100%".to_owned() } else { format!("{:.2}%", (percent * 100.0).floor() / 100.0) }
}

/// The report on two tensors that have no graph: what was found, then one sentence.
pub fn diagnosis_of_pair(name: &str, diagnosis: &[Finding]) -> String {
    format!("{}\n{}\n", findings(diagnosis), sentence(name, diagnosis))
}

fn sentence(name: &str, diagnosis: &[Finding]) -> String {
    format!("{name}: {}", looks_like(diagnosis).unwrap_or_else(|| "not looked at".to_owned()))
}

/// The report on two dumps: the tensors that were diagnosed, each with all that was found if they are few, else one line each, and
/// as the last line one sentence about the first.
pub fn diagnosis_of_dumps(comparison: &Comparison, all: bool) -> String {
    let diagnosed: Vec<&TensorResult> =
        comparison.results.iter().filter(|result| !result.diagnosis.is_empty()).collect();
    let s = comparison.summary();
    let unusable: Vec<String> = comparison
        .results
        .iter()
        .filter(|result| {
            result.verdict.is_failure() && result.diagnosis.is_empty() && result.metrics.is_none()
        })
        .map(|result| format!("  {}: {}\n", title(result), reason(result).unwrap_or_default()))
        .collect();
    let mut out: String = unusable.iter().take(if all { usize::MAX } else { ROWS }).cloned().collect();
    let mut more = unusable.len().saturating_sub(ROWS);
    if let [one] = diagnosed[..] {
        out += &format!("  {}: {}\n\n", title(one), distance(one));
        out += &findings(&one.diagnosis);
    } else {
        let shown = if all { usize::MAX } else { ROWS };
        let line = |result: &&TensorResult| format!("  {}\n", line(result));
        out.extend(diagnosed.iter().take(shown).map(line));
        more += diagnosed.len().saturating_sub(ROWS);
    }
    if more > 0 && !all {
        out += &format!("  (+{} more, --all)\n", count(more as u64));
    }
    let compared =
        format!("{} compared, {} differ, {} missing", count(s.compared), count(s.differ), count(s.missing));
    let last = match diagnosed.first() {
        Some(first) => format!("{}; {compared}", line(first)),
        None if unusable.is_empty() => format!("no difference beyond its limit; {compared}"),
        None => format!("no values to diagnose; {compared}"),
    };
    let between = if out.is_empty() { "" } else { "\n" };
    format!("{out}{between}{last}\n")
}

fn title(result: &TensorResult) -> String {
    format!("{} (step {}, {})", tensor_name(&result.id), result.id.step, result.op)
}

fn line(result: &TensorResult) -> String {
    sentence(&title(result), &result.diagnosis)
}

fn distance(result: &TensorResult) -> String {
    let of_limit = result.share.map(|of_limit| format!(", {} of its limit", share(of_limit)));
    let metrics = result.metrics.as_ref();
    let apart = metrics.map(|m| format!("relative L2 {}", decimal(m.relative_l2)));
    iter::once(apart).chain(iter::once(of_limit)).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::words::example;

    fn finding(shape: &'static str, words: &str, explains: Option<f64>) -> Finding {
        Finding { shape, words: words.to_owned(), explains, is_verified: shape != "unknown" }
    }

    #[test]
    fn what_was_verified_looks_like_it() {
        let sign = finding("sign", "a sign: every value is negated", Some(1.0));
        assert_eq!(looks_like(&[sign]).unwrap(), "looks like a sign: every value is negated");
        let unknown = finding("unknown", "no known shape (cosine ..)", None);
        assert_eq!(looks_like(&[unknown]).unwrap(), "no known shape (cosine ..)");
        let equal = finding("equal", "no difference: the values are equal", None);
        assert_eq!(looks_like(&[equal]).unwrap(), "no difference: the values are equal");
        assert_eq!(looks_like(&[]), None);
    }

    #[test]
    fn one_tensor_with_all_that_was_found() {
        let mut comparison = example::passing();
        comparison.results[0] = example::tensor("kq-3", "MUL_MAT", 5.0);
        comparison.results[0].diagnosis = vec![
            finding("head", "an error in head 2 only", Some(0.99999)),
            finding("growth", "an error that grows", None),
        ];
        let text = diagnosis_of_dumps(&comparison, false);
        let expected = "  kq-3 (step 0, MUL_MAT): relative L2 1.00, 1000 of its limit

  shape   explains  what
  head      99.99%  an error in head 2 only
  growth            an error that grows

kq-3 (step 0, MUL_MAT): looks like an error in head 2 only; 3 compared, 1 differ, 0 missing
";
        assert_eq!(text, expected);
    }

    #[test]
    fn none_and_many() {
        let text = diagnosis_of_dumps(&example::passing(), false);
        assert_eq!(text, "no difference beyond its limit; 3 compared, 0 differ, 0 missing\n");
        let mut comparison = Comparison::default();
        for i in 0..23 {
            comparison.results.push(example::diagnosed(&format!("kq-{i}"), "a sign"));
        }
        let text = diagnosis_of_dumps(&comparison, false);
        assert!(
            text.contains("  kq-19 (step 0, MUL_MAT): looks like a sign\n  (+3 more, --all)\n"),
            "{text}"
        );
        assert_eq!(diagnosis_of_dumps(&comparison, true).matches("looks like").count(), 24);
    }

    #[test]
    fn what_is_missing_is_no_pass() {
        let missing = Comparison { results: example::failures()[1..2].to_vec(), logits: Vec::new() };
        let text = diagnosis_of_dumps(&missing, false);
        assert!(text.starts_with("  Kcur-1 (step 0, ROPE): missing from the actual run\n"), "{text}");
        assert!(text.ends_with("no values to diagnose; 0 compared, 0 differ, 1 missing\n"), "{text}");
    }
}
