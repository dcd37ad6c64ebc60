//! A replay as text: the operators with their worst node, what is over its budget, one last sentence.

use std::collections::BTreeMap;

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::number::{count, decimal, percent, share, units};
use super::sentence::tensor_name;
use crate::replay::{NodeResult, Outcome, Replay, ReplaySummary, Rounding};

/// Rows at most of nodes over their budget, unless all are asked for.
pub(super) const ROWS: usize = 20;

/// The table per operator and types, then the nodes that are not within their budget, then the last line.
pub fn replay_table(replay: &Replay, all: bool) -> String {
    let mut lines = vec![operators(replay), String::new()];
    let bad: Vec<&NodeResult> =
        replay.results.iter().filter(|r| matches!(r.outcome, Outcome::Over | Outcome::NonFinite)).collect();
    let shown = if all { bad.len() } else { ROWS };
    lines.extend(bad.iter().take(shown).map(|r| format!("  over its budget: {}", node(r))));
    if bad.len() > shown {
        lines.push(format!("  (+{} more, --all)", count((bad.len() - shown) as u64)));
    }
    for (reason, (n, first)) in skips(replay) {
        lines.push(format!("  skipped {}: {reason}{first}", count(n)));
    }
    let flips: u64 = replay.results.iter().map(|r| r.flips).sum();
    if flips > 0 {
        lines.push(format!(
            "  explained: {} elements took the other side of a rounding at a tie (one step of a table, block or sum)",
            count(flips)
        ));
    }
    let tied: Vec<&NodeResult> = replay.results.iter().filter(|r| r.ties > 0).collect();
    if let Some(first) = tied.first() {
        lines.push(format!(
            "  explained: {} indices were chosen among equal scores, or scores as near as is known, in another order than by index (first {})",
            count(tied.iter().map(|r| r.ties).sum()),
            tensor_name(&first.id)
        ));
    }
    match replay.summary().zero {
        0 => {}
        n => lines.push(format!("  zero on both sides, which shows nothing: {} nodes", count(n))),
    }
    if replay.not_held > 0 {
        lines.push(format!("  not in this dump, and not counted: {} computed nodes", count(replay.not_held)));
    }
    lines.push(String::new());
    lines.push(replay_line(&[replay]));
    lines.join("\n") + "\n"
}

/// The last line, over one or more dumps.
pub fn replay_line(replays: &[&Replay]) -> String {
    let mut s = ReplaySummary::default();
    replays.iter().for_each(|replay| s += replay.summary());
    let worst = replays.iter().flat_map(|replay| &replay.results).filter(|r| is_compared(r));
    let worst = worst.reduce(|a, b| if b.share > a.share { b } else { a });
    let nonfinite =
        if s.nonfinite > 0 { format!(", {} non-finite", count(s.nonfinite)) } else { String::new() };
    format!(
        "{} nodes compared: {} within budget, {} over, {} skipped{nonfinite}; coverage {}; {}",
        count(s.compared),
        count(s.within),
        count(s.over),
        count(s.skipped),
        percent(s.compared, s.compared + s.skipped),
        match worst {
            Some(_) if s.zero == s.compared =>
                "every node is zero on both sides, which shows nothing".to_owned(),
            Some(r) => format!("worst {} {} of its budget", tensor_name(&r.id), share(r.share)),
            None => "nothing was compared".to_owned(),
        }
    )
}

pub(super) fn is_compared(result: &NodeResult) -> bool {
    !matches!(result.outcome, Outcome::Skipped(_))
}

fn operators(replay: &Replay) -> String {
    let mut groups: BTreeMap<(&str, &str), Vec<&NodeResult>> = BTreeMap::new();
    for result in &replay.results {
        groups.entry((&result.op, &result.types)).or_default().push(result);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let head = ["operator", "sources", "rounding", "nodes", "worst error", "of budget", "worst node"];
    table.set_header(head.iter().enumerate().map(|(i, name)| {
        Cell::new(name).set_alignment(if (3..6).contains(&i) {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        })
    }));
    for ((op, types), results) in groups {
        let compared = results.iter().filter(|r| is_compared(r));
        let worst = compared.reduce(|a, b| if b.share > a.share { b } else { a });
        let (error, of_budget, place) = match worst {
            Some(r) => {
                (units(r.scaled_error), share(r.share), format!("{} step {}", tensor_name(&r.id), r.id.step))
            }
            None => (String::new(), "skipped".to_owned(), String::new()),
        };
        let nodes = count(results.len() as u64);
        table.add_row([
            Cell::new(op),
            Cell::new(types),
            Cell::new(roundings(&results)),
            right(nodes),
            right(error),
            right(of_budget),
            Cell::new(place),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt().lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The roundings on purpose that were found; each with its nodes if they are several.
fn roundings(results: &[&NodeResult]) -> String {
    let mut found: BTreeMap<Rounding, u64> = BTreeMap::new();
    for result in results.iter().filter(|r| is_compared(r)) {
        *found.entry(result.rounding).or_default() += 1;
    }
    match found.len() {
        1 => found.keys().map(Rounding::to_string).collect(),
        _ => found.iter().map(|(name, n)| format!("{name} ({})", count(*n))).collect::<Vec<_>>().join(", "),
    }
}

fn node(r: &NodeResult) -> String {
    format!(
        "{} (step {}, {} {}): reference {}, exact {} at [{}]; {} of terms, {} of its budget",
        tensor_name(&r.id),
        r.id.step,
        r.op,
        r.types,
        decimal(r.reference),
        decimal(r.exact),
        r.worst_index,
        units(r.scaled_error),
        share(r.share)
    )
}

/// Each reason with how many nodes it holds for and what it named first: a reason is what stands before a colon.
pub(super) fn skips(replay: &Replay) -> BTreeMap<&str, (u64, String)> {
    let mut skips: BTreeMap<&str, (u64, String)> = BTreeMap::new();
    for result in &replay.results {
        if let Outcome::Skipped(reason) = &result.outcome {
            let (kind, first) = match reason.split_once(": ") {
                Some((kind, name)) => (kind, format!(" (first: {name})")),
                None => (reason.as_str(), String::new()),
            };
            skips.entry(kind).or_insert((0, first)).0 += 1;
        }
    }
    skips
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::ActivationRounding;
    use crate::report::words::example::node as result;

    #[test]
    fn what_is_over_its_budget_is_said_with_both_values() {
        let skipped = |name: &str| Outcome::Skipped(format!("a source is not in the dump: {name}"));
        let replay = Replay {
            results: vec![
                result("a-0", Outcome::Within, 0.5),
                result("b-0", Outcome::Over, 3.0),
                result("c-0", skipped("x"), 0.0),
                result("d-0", skipped("y"), 0.0),
            ],
            ..Replay::default()
        };
        let text = replay_table(&replay, false);
        for line in [
            "  ADD       f32 x f32  none          4      12.00 u          3  b-0 step 0",
            "  over its budget: b-0 (step 0, ADD f32 x f32): reference 1.00, exact 1.50 at [7]; 12.00 u of terms, 3 of its budget",
            "  skipped 2: a source is not in the dump (first: x)",
            "2 nodes compared: 1 within budget, 1 over, 2 skipped; coverage 50%; worst b-0 3 of its budget",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }

    #[test]
    fn ties_are_counted_and_the_first_is_named() {
        let tied = |ties: u64| Replay {
            results: ["a-0", "b-0"]
                .map(|name| NodeResult { ties, ..result(name, Outcome::Within, 0.0) })
                .into(),
            ..Replay::default()
        };
        let line = "  explained: 6 indices were chosen among equal scores, or scores as near as is known, in another order than by index (first a-0)";
        assert!(replay_table(&tied(3), false).lines().any(|own| own == line));
        assert!(!replay_table(&tied(0), false).contains("explained"));
    }

    #[test]
    fn several_roundings_of_an_operator_are_counted() {
        let rounded = Rounding::Activation(ActivationRounding::F16);
        let mut results = vec![result("a-0", Outcome::Within, 0.5); 3];
        results[1].rounding = rounded;
        results[2].rounding = rounded;
        assert_eq!(roundings(&results.iter().collect::<Vec<_>>()), "none (1), F16 (2)");
        assert_eq!(roundings(&[&results[1]]), "F16");
        assert_eq!(roundings(&[&result("b-0", Outcome::Skipped("unknown".into()), 0.0)]), "");
    }

    #[test]
    fn zeros_are_said_and_do_not_pass() {
        let zero = NodeResult { is_zero: true, ..result("a-0", Outcome::Within, 0.0) };
        let replay = Replay { results: vec![zero.clone()], ..Replay::default() };
        assert!(!replay.is_pass());
        let text = replay_table(&replay, false);
        assert!(text.contains("  zero on both sides, which shows nothing: 1 nodes\n"), "{text}");
        assert!(text.ends_with("every node is zero on both sides, which shows nothing\n"), "{text}");
        let replay = Replay { results: vec![zero, result("b-0", Outcome::Within, 0.5)], ..Replay::default() };
        assert!(replay.is_pass() && replay_line(&[&replay]).ends_with("worst b-0 0.5 of its budget"));
    }

    #[test]
    fn nothing_compared_is_said() {
        let line = replay_line(&[&Replay::default()]);
        assert!(line.ends_with("coverage 0%; nothing was compared"), "{line}");
    }
}
