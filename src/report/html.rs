//! One page for a browser, without scripts or outside files: what broke, a map of steps and layers, every kind of tensor.

use std::collections::BTreeMap;

use super::words::{self, cosine, count, escape, scientific, share};
use super::{Format, Options, Report};
use crate::compare::{Comparison, KindRow};

/// The report for a browser.
pub(super) struct Html;

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:76em;padding:0 1em}\
table{border-collapse:collapse}td,th{padding:.15em .7em;text-align:right;white-space:nowrap}\
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2),td:last-child,th:last-child{text-align:left}\
.map td{padding:0;width:.95em;height:1.1em}.map th{font-weight:normal}.fail,.bad{background:#d33;color:#fff}\
.pass{color:#287d3c}h2{margin-top:2em}pre{white-space:pre-wrap}.line{font-weight:600}";

impl Format for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn render(&self, reports: &[Report<'_>], _: Options) -> String {
        let comparisons: Vec<&Comparison> = reports.iter().map(|report| report.comparison).collect();
        let pass = !reports.is_empty() && comparisons.iter().all(|comparison| comparison.is_pass());
        let (class, word) = if pass { ("pass", "pass") } else { ("fail", "fail") };
        let line = escape(&words::summary_line(&comparisons));
        let sections: String = reports.iter().map(section).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>lockstep: {word}</title>\n\
             <style>{STYLE}</style>\n<h1>lockstep check: <span class=\"{class}\">{word}</span></h1>\n\
             <p class=\"line\">{line}</p>\n{sections}</html>\n"
        )
    }
}

fn section(report: &Report<'_>) -> String {
    let comparison = report.comparison;
    let mut out =
        format!("<h2>{}</h2>\n<pre>{}</pre>\n", escape(report.name), escape(&report.header.join("\n")));
    if let Some(first) = words::first_difference(comparison) {
        out += &format!("<p><span class=\"fail\">{}</span></p>\n", escape(&first));
    }
    out += &map(comparison);
    let view = words::step_view(comparison, report.steps, true);
    out += &lines(&view);
    out += &format!("<p>logits: {}</p>\n", escape(&words::logits_line(&comparison.logits)));
    let rows = words::token_rows(&comparison.logits, report.steps, true);
    out += &lines(&rows);
    for note in words::notes(comparison) {
        out += &format!("<p>note: {}</p>\n", escape(&note));
    }
    let rows: String = comparison.kinds().iter().map(kind).collect();
    out += &format!(
        "<table><tr><th>tensor<th>op<th>layers<th>tensors<th>fail<th>cosine<th>rel L2<th>max abs<th>vs limit<th>worst\n\
         {rows}</table>\n<p class=\"line\">{}</p>\n",
        escape(&words::summary_line(&[comparison])),
    );
    out
}

/// Lines as they stand in the table for people; nothing if there are none.
fn lines(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("<pre>{}</pre>\n", escape(&lines.join("\n"))) }
}

fn kind(row: &KindRow<'_>) -> String {
    let worst = row.worst;
    let numbers = match &worst.metrics {
        Some(m) => [cosine(m.one_minus_cosine), scientific(m.relative_l2, 1), scientific(m.max_abs, 1)],
        None => [const { String::new() }; 3],
    };
    let of_limit = worst.share.map_or_else(|| words::verdict(&worst.verdict).to_owned(), share);
    let place = match words::reason(worst) {
        Some(reason) if worst.share.is_none() => format!("{}: {reason}", words::place(worst)),
        _ => words::place(worst),
    };
    let cells = [
        row.kind.to_owned(),
        row.op.to_owned(),
        row.layers.to_string(),
        count(row.tensors as u64),
        count(row.failures as u64),
        numbers.join("<td>"),
        of_limit,
        escape(&place),
    ];
    let class = if row.failures > 0 { " class=\"bad\"" } else { "" };
    format!("<tr{class}><td>{}\n", cells.join("<td>"))
}

/// A row per step, a cell per layer, coloured by the worst share of the limit in it.
fn map(comparison: &Comparison) -> String {
    let mut cells: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for result in &comparison.results {
        if let (Some(layer), Some(share)) = (result.id.layer(), result.severity()) {
            let worst = cells.entry((result.id.step, layer)).or_insert(share);
            *worst = if share > *worst { share } else { *worst };
        }
    }
    let layers = cells.keys().map(|&(_, layer)| layer).max().map_or(0, |last| last + 1);
    let steps: std::collections::BTreeSet<u32> = cells.keys().map(|&(step, _)| step).collect();
    let rows: String = steps
        .iter()
        .map(|&step| {
            let row: String = (0..layers).map(|layer| cell(step, layer, cells.get(&(step, layer)))).collect();
            format!("<tr><th>step {step}{row}\n")
        })
        .collect();
    format!("<table class=\"map\" aria-label=\"worst share of the limit by step and layer\">{rows}</table>\n")
}

fn cell(step: u32, layer: u32, severity: Option<&f64>) -> String {
    match severity {
        None => "<td>".to_owned(),
        Some(&s) if s <= 1.0 => {
            // Three decades below the limit are told apart: pale is a thousandth or less.
            let strength = ((3.0 + s.max(1e-3).log10()) / 3.0 * 75.0 + 15.0).round();
            let title = format!("step {step}, layer {layer}: {} of the limit", share(s));
            format!(
                "<td title=\"{title}\" style=\"background:color-mix(in srgb,#e90 {strength}%,transparent)\">"
            )
        }
        Some(_) => format!("<td class=\"bad\" title=\"step {step}, layer {layer}: fails\">"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::words::example;

    fn render(comparison: &Comparison) -> String {
        let header = ["a <b>".to_owned()];
        Html.render(&[Report { name: "a & b", header: &header, steps: &[], comparison }], Options::default())
    }

    #[test]
    fn a_passing_run_says_pass_and_escapes_what_it_is_given() {
        let page = render(&example::passing());
        assert!(page.contains("lockstep check: <span class=\"pass\">pass"), "{page}");
        assert!(page.contains("<h2>a &amp; b</h2>\n<pre>a &lt;b&gt;</pre>"), "{page}");
        assert!(page.contains("<tr><td>l_out<td>ADD<td>2<td>2<td>0<td>"), "{page}");
    }

    #[test]
    fn each_failure_turns_the_page() {
        for bad in example::failures() {
            let mut comparison = example::passing();
            comparison.results.push(bad);
            let page = render(&comparison);
            assert!(
                page.contains("<span class=\"fail\">fail") && page.contains("first difference: "),
                "{page}"
            );
            assert!(page.contains("<td class=\"bad\" title=\"step 0, layer 1: fails\">"), "{page}");
        }
    }

    #[test]
    fn steps_and_tokens_are_there() {
        let mut comparison = example::passing();
        comparison.logits.push(example::logits(1, [1.0, 1.5, 2.0]));
        let page = render(&comparison);
        assert!(
            page.contains(
                "<pre>l_out by step (share of the limit that was carried there), layers 0 to 1&#10;  step 0  ▂▇  worst l_out-1"
            ),
            "{page}"
        );
        assert!(page.contains("&#10;  step 1  1 != 2, margin 0.50, actual 0.50  top-10 3/3;"), "{page}");
        assert!(
            page.contains("the next token differs first at step 1")
                && page.contains("<span class=\"fail\">fail")
        );
    }

    #[test]
    fn nothing_compared_is_no_pass() {
        assert!(Html.render(&[], Options::default()).contains("<span class=\"fail\">fail"));
        assert!(render(&Comparison::default()).contains("<span class=\"fail\">fail"));
    }
}
