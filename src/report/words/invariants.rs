//! What the invariants gave, as text and as versioned JSON (fields are only ever added; what is not finite is null).

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use super::number::{count, finite, scientific, share};
use crate::harness::{Departure, INVARIANTS, Invariants, JudgedBy, Outcome};

/// The version of the schema.
const VERSION: u32 = 1;

/// Comparisons at most of those that fail, unless all are asked for.
const ROWS: usize = 12;

/// A row per invariant and engine, what fails, what was not tried, the last line.
pub fn invariants_table(found: &Invariants, all: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let head = ["invariant", "engine", "must be equal", "runs", "compared", "judged by", "worst", "verdict"];
    table.set_header(head.iter().enumerate().map(|(i, name)| {
        let is_number = matches!(i, 3 | 4 | 6);
        Cell::new(name).set_alignment(if is_number { CellAlignment::Right } else { CellAlignment::Left })
    }));
    for group in groups(found) {
        let failed = group.iter().filter(|outcome| !outcome.is_pass()).count();
        table.add_row([
            Cell::new(group[0].invariant),
            Cell::new(&group[0].subject),
            Cell::new(line(group[0].invariant)),
            right(count(group.len() as u64)),
            right(count(group.iter().map(|outcome| outcome.compared).sum())),
            Cell::new(judged_by(&group)),
            right(worst(&group)),
            Cell::new(if failed == 0 { "holds".to_owned() } else { format!("BROKEN in {failed}") }),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut lines: Vec<String> = table.trim_fmt().lines().map(|line| format!("  {line}")).collect();
    lines.push(String::new());
    let failed: Vec<&Outcome> = found.outcomes.iter().filter(|outcome| !outcome.is_pass()).collect();
    let shown = if all { failed.len() } else { ROWS };
    lines.extend(failed.iter().take(shown).map(|outcome| format!("  broken: {}", sentence(outcome))));
    if failed.len() > shown {
        lines.push(format!("  (+{} more, --all)", failed.len() - shown));
    }
    for not_tried in &found.not_tried {
        let (invariant, subject, reason) = (not_tried.invariant, &not_tried.subject, &not_tried.reason);
        lines.push(format!("  not tried: {invariant}, {subject}: {reason}"));
    }
    if lines.last().is_some_and(|line| !line.is_empty()) {
        lines.push(String::new());
    }
    lines.push(invariants_line(found));
    lines.join("\n") + "\n"
}

/// The last line.
fn invariants_line(found: &Invariants) -> String {
    let failed = found.outcomes.iter().filter(|outcome| !outcome.is_pass()).count();
    let compared = found.outcomes.iter().map(|outcome| outcome.compared).sum();
    let mut line = format!(
        "{} runs, {} rows and states compared: {} hold, {failed} broken",
        count(found.outcomes.len() as u64),
        count(compared),
        count((found.outcomes.len() - failed) as u64),
    );
    if let Some(first) = found.outcomes.iter().find(|outcome| !outcome.is_pass()) {
        line += &format!("; first: {}", sentence(first));
    }
    line
}

/// The outcomes of one invariant and engine together, in their order.
fn groups(found: &Invariants) -> Vec<Vec<&Outcome>> {
    let mut groups: Vec<Vec<&Outcome>> = Vec::new();
    for outcome in &found.outcomes {
        let is_it = |group: &&mut Vec<&Outcome>| {
            group[0].invariant == outcome.invariant && group[0].subject == outcome.subject
        };
        match groups.iter_mut().find(is_it) {
            Some(group) => group.push(outcome),
            None => groups.push(vec![outcome]),
        }
    }
    groups
}

fn line(invariant: &str) -> &'static str {
    let known = INVARIANTS.iter().find(|known| known.name == invariant);
    known.map_or("both routes on the same tokens", |known| known.line)
}

fn judged_by(group: &[&Outcome]) -> &'static str {
    let bits = group.iter().filter(|outcome| outcome.judged_by == JudgedBy::Bits).count();
    match bits {
        0 => "16 x floor",
        n if n == group.len() => "bits",
        _ => "bits, or 16 x floor",
    }
}

/// The largest distance; where a floor judges, with its share of the limit.
fn worst(group: &[&Outcome]) -> String {
    let largest =
        |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |a: f64, b| if a >= b { a } else { b });
    let distance = largest(&mut group.iter().map(|outcome| outcome.worst));
    if distance == 0.0 {
        return "0".to_owned();
    }
    let shares: Vec<f64> = group.iter().filter_map(|outcome| outcome.share).collect();
    match shares.is_empty() {
        true => scientific(distance, 1),
        false => format!("{}, {} of limit", scientific(distance, 1), share(largest(&mut shares.into_iter()))),
    }
}

fn sentence(outcome: &Outcome) -> String {
    let Outcome { invariant, subject, what, .. } = outcome;
    match &outcome.first {
        Some(Departure { step, sequence, position, tensor, relative_l2, limit }) => {
            let accepted = match outcome.judged_by {
                JudgedBy::Bits => "bits should be equal".to_owned(),
                JudgedBy::Floor => format!("limit {}", scientific(*limit, 1)),
            };
            let distance = scientific(*relative_l2, 1);
            format!(
                "{invariant} ({subject}; {what}) from step {step}, sequence {sequence} position {position}, {tensor}: off by \
                 {distance} ({accepted})"
            )
        }
        None => format!("{invariant} ({subject}; {what}): nothing was compared"),
    }
}

/// The document for one invocation; ends with a line feed.
pub fn invariants_json(model: &str, found: &Invariants) -> String {
    let document = Document {
        version: VERSION,
        is_pass: found.is_pass(),
        model,
        outcomes: found.outcomes.iter().map(outcome_json).collect(),
        not_tried: found
            .not_tried
            .iter()
            .map(|n| NotTriedJson { invariant: n.invariant, engine: &n.subject, reason: &n.reason })
            .collect(),
    };
    let mut text = serde_json::to_string(&document).expect("plain structs with string keys");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    is_pass: bool,
    model: &'a str,
    outcomes: Vec<OutcomeJson<'a>>,
    not_tried: Vec<NotTriedJson<'a>>,
}

#[derive(Serialize)]
struct OutcomeJson<'a> {
    invariant: &'a str,
    engine: &'a str,
    length: usize,
    what: &'a str,
    judged_by: &'static str,
    compared: u64,
    worst: Option<f64>,
    share: Option<f64>,
    is_pass: bool,
    first: Option<FirstJson<'a>>,
}

#[derive(Serialize)]
struct FirstJson<'a> {
    step: u32,
    sequence: i32,
    position: i64,
    tensor: &'a str,
    relative_l2: Option<f64>,
    limit: Option<f64>,
}

#[derive(Serialize)]
struct NotTriedJson<'a> {
    invariant: &'a str,
    engine: &'a str,
    reason: &'a str,
}

fn outcome_json(outcome: &Outcome) -> OutcomeJson<'_> {
    OutcomeJson {
        invariant: outcome.invariant,
        engine: &outcome.subject,
        length: outcome.length,
        what: &outcome.what,
        judged_by: match outcome.judged_by {
            JudgedBy::Bits => "bits",
            JudgedBy::Floor => "floor",
        },
        compared: outcome.compared,
        worst: finite(outcome.worst),
        share: outcome.share.and_then(finite),
        is_pass: outcome.is_pass(),
        first: outcome.first.as_ref().map(|first| FirstJson {
            step: first.step,
            sequence: first.sequence,
            position: first.position,
            tensor: &first.tensor,
            relative_l2: finite(first.relative_l2),
            limit: finite(first.limit),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::NotTried;

    fn found() -> Invariants {
        let holds = Outcome {
            invariant: "split",
            subject: "cpu f32".to_owned(),
            length: 65,
            what: "64 + 1".to_owned(),
            judged_by: JudgedBy::Bits,
            compared: 260,
            worst: 0.0,
            share: None,
            first: None,
        };
        let first = Departure {
            step: 1,
            sequence: 0,
            position: 64,
            tensor: "l_out-0".to_owned(),
            relative_l2: 0.25,
            limit: 0.0,
        };
        let broken = Outcome { what: "65 x 1".to_owned(), worst: 0.25, first: Some(first), ..holds.clone() };
        let not_tried = NotTried {
            invariant: "rollback",
            subject: "cpu f32".to_owned(),
            reason: "it keeps no earlier states".to_owned(),
        };
        Invariants { outcomes: vec![holds, broken], not_tried: vec![not_tried] }
    }

    #[test]
    fn says_what_is_broken_and_where() {
        let text = invariants_table(&found(), false);
        assert!(text.contains("BROKEN in 1") && text.contains("not tried: rollback"), "{text}");
        assert_eq!(
            text.lines().last().unwrap(),
            "2 runs, 520 rows and states compared: 1 hold, 1 broken; first: split (cpu f32; 65 x 1) from step 1, sequence 0 \
             position 64, l_out-0: off by 2.5e-01 (bits should be equal)"
        );
        let json: serde_json::Value = serde_json::from_str(&invariants_json("m", &found())).unwrap();
        assert_eq!(json["is_pass"], false);
        assert_eq!(json["outcomes"][1]["first"]["position"], 64);
    }

    #[test]
    fn nothing_compared_does_not_hold() {
        assert!(!Invariants::default().is_pass());
        let mut found = found();
        found.outcomes.truncate(1);
        assert!(found.is_pass());
        found.outcomes[0].compared = 0;
        assert!(!found.is_pass());
        assert!(invariants_line(&found).ends_with("nothing was compared"));
    }
}
