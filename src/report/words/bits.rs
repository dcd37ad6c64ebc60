//! A replay to the bit as text: the operators with how many of their nodes have the reference's bits, what has others, one last
//! sentence.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::number::{count, decimal, percent};
use super::replay::{ROWS, is_compared, skips};
use super::sentence::tensor_name;
use crate::arithmetic::Isa;
use crate::replay::{Bits, NodeResult, Outcome, Replay, ReplaySummary};

/// The table per operator and types, then the nodes that are not bit-equal, then the last line.
pub fn bits_table(replay: &Replay, all: bool) -> String {
    let mut lines = vec![operators(replay), String::new()];
    let bad: Vec<&NodeResult> =
        replay.results.iter().filter(|r| is_compared(r) && r.outcome != Outcome::Within).collect();
    let shown = if all { bad.len() } else { ROWS };
    lines.extend(bad.iter().take(shown).map(|r| format!("  other bits: {}", node(r))));
    if bad.len() > shown {
        lines.push(format!("  (+{} more, --all)", count((bad.len() - shown) as u64)));
    }
    for (reason, (n, first)) in skips(replay) {
        lines.push(format!("  skipped {}: {reason}{first}", count(n)));
    }
    if replay.not_held > 0 {
        lines.push(format!("  not in this dump, and not counted: {} computed nodes", count(replay.not_held)));
    }
    lines.push(String::new());
    lines.push(bits_line(&[replay]));
    lines.join("\n") + "\n"
}

/// The last line, over one or more dumps.
pub fn bits_line(replays: &[&Replay]) -> String {
    let builds: BTreeSet<Isa> = replays.iter().filter_map(|replay| replay.arithmetic).collect();
    let builds = builds.iter().map(Isa::to_string).collect::<Vec<_>>().join(" and ");
    let mut s = ReplaySummary::default();
    replays.iter().for_each(|replay| s += replay.summary());
    let ulps =
        replays.iter().flat_map(|replay| &replay.results).filter_map(|r| r.bits).map(|bits| bits.ulps).max();
    let worst = match ulps {
        None | Some(0) => String::new(),
        Some(ulps) => format!(", {} ulp at most", count(ulps)),
    };
    format!(
        "{} nodes compared: {} bit-equal, {} not{worst}, {} skipped; coverage {}; arithmetic: ggml-cpu {builds}",
        count(s.compared),
        count(s.within),
        count(s.compared - s.within),
        count(s.skipped),
        percent(s.compared, s.compared + s.skipped),
    )
}

/// What is added up over the nodes of an operator.
#[derive(Default)]
struct Row<'a> {
    nodes: u64,
    equal: u64,
    elements: u64,
    differing: u64,
    worst: Option<(u64, &'a NodeResult)>,
}

fn operators(replay: &Replay) -> String {
    let mut rows: BTreeMap<(&str, &str), Row<'_>> = BTreeMap::new();
    for result in &replay.results {
        let row = rows.entry((&result.op, &result.types)).or_default();
        row.nodes += 1;
        let Some(Bits { elements, differing, ulps }) = result.bits else { continue };
        row.equal += u64::from(differing == 0);
        row.elements += elements;
        row.differing += differing;
        if differing > 0 && row.worst.is_none_or(|(most, _)| ulps > most) {
            row.worst = Some((ulps, result));
        }
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let head = ["operator", "sources", "nodes", "bit-equal", "other elements", "ulp", "worst node"];
    table.set_header(head.iter().enumerate().map(|(i, name)| {
        Cell::new(name).set_alignment(if (2..6).contains(&i) {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        })
    }));
    for ((op, types), row) in rows {
        let (ulps, place) = match row.worst {
            Some((ulps, r)) => (count(ulps), format!("{} step {}", tensor_name(&r.id), r.id.step)),
            None => (String::new(), String::new()),
        };
        let others = match row.differing {
            0 => "0".to_owned(),
            n => format!("{} of {}", count(n), count(row.elements)),
        };
        let cells = [count(row.nodes), count(row.equal), others, ulps].map(right);
        let names = [Cell::new(op), Cell::new(types)];
        table.add_row(names.into_iter().chain(cells).chain([Cell::new(place)]));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt().lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn node(r: &NodeResult) -> String {
    let Bits { elements, differing, ulps } = r.bits.unwrap_or_default();
    format!(
        "{} (step {}, {} {}): {} of {} elements, {} ulp at [{}]: reference {}, computed {}",
        tensor_name(&r.id),
        r.id.step,
        r.op,
        r.types,
        count(differing),
        count(elements),
        count(ulps),
        r.worst_index,
        decimal(r.reference),
        decimal(r.exact)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::words::example;

    #[test]
    fn what_has_other_bits_is_said_with_its_distance() {
        let with = |name, outcome, differing, ulps| NodeResult {
            bits: Some(Bits { elements: 64, differing, ulps }),
            ..example::node(name, outcome, 0.0)
        };
        let replay = Replay {
            results: vec![
                with("a-0", Outcome::Within, 0, 0),
                with("b-0", Outcome::Over, 3, 2),
                example::node("c-0", Outcome::Skipped("no order is known: MUL_MAT".into()), 0.0),
            ],
            arithmetic: Some(Isa::Avx2),
            ..Replay::default()
        };
        let text = bits_table(&replay, false);
        for line in [
            "  ADD       f32 x f32      3          1        3 of 128    2  b-0 step 0",
            "  other bits: b-0 (step 0, ADD f32 x f32): 3 of 64 elements, 2 ulp at [7]: reference 1.00, computed 1.50",
            "  skipped 1: no order is known (first: MUL_MAT)",
            "2 nodes compared: 1 bit-equal, 1 not, 2 ulp at most, 1 skipped; coverage 66.6%; arithmetic: ggml-cpu AVX2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!replay.is_pass());
        let results = replay.results[..1].to_vec();
        let equal = Replay { results, arithmetic: Some(Isa::Sse2), not_held: 0 };
        let line = bits_line(&[&equal]);
        assert!(line.starts_with("1 nodes compared: 1 bit-equal, 0 not, 0 skipped;"), "{line}");
        assert!(bits_line(&[&equal, &replay]).ends_with("ggml-cpu scalar and AVX2"));
    }
}
