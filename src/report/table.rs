//! The report for people: what broke, the worst of each tensor kind, layers, logits, one last sentence.

use std::iter;

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, presets};

use super::words::{self, bars, cosine, count, decimal, index, scientific, share, units};
use super::{Format, Options, Report};
use crate::compare::{Comparison, TensorResult, U, Verdict};

/// Rows at most, unless all are asked for.
const ROWS: usize = 20;

/// The human report.
pub(super) struct Table;

impl Format for Table {
    fn name(&self) -> &'static str {
        "table"
    }

    /// One block per report, each with its last line; after several blocks, the line over all of them.
    fn render(&self, reports: &[Report<'_>], options: Options) -> String {
        let mut out: String = reports.iter().map(|report| block(report, options) + "\n").collect();
        if reports.len() == 1 {
            out.pop(); // the empty line between blocks
        } else {
            let comparisons: Vec<&Comparison> = reports.iter().map(|report| report.comparison).collect();
            out += &words::summary_line(&comparisons);
            out.push('\n');
        }
        out
    }
}

fn block(report: &Report<'_>, options: Options) -> String {
    let comparison = report.comparison;
    let mut lines: Vec<String> = report.header.to_vec();
    if !lines.is_empty() {
        lines.push(String::new());
    }
    if let Some(first) = words::first_difference(comparison) {
        lines.extend([first, String::new()]);
    }
    if !comparison.results.is_empty() {
        if options.all {
            lines.push(every_tensor(comparison, options.width));
        } else {
            lines.extend(worst_of_kinds(comparison, options.width));
        }
        lines.push(String::new());
    }
    lines.extend(overview(report, options).into_iter().map(|line| format!("  {line}")));
    lines.extend([String::new(), words::summary_line(&[comparison]), String::new()]);
    lines.join("\n")
}

/// The lines below the table.
fn overview(report: &Report<'_>, options: Options) -> Vec<String> {
    let comparison = report.comparison;
    let layers: Vec<(u32, f64)> = comparison.layers().iter().map(|l| (l.layer, l.share)).collect();
    let steps: Vec<(u32, f64)> = comparison.steps().iter().map(|s| (s.step, s.share)).collect();
    let mut lines = Vec::new();
    for (what, shares) in [("layer", layers), ("step", steps)] {
        if let [(first, _), .., (last, _)] = shares[..] {
            let shares: Vec<f64> = shares.iter().map(|&(_, share)| share).collect();
            lines.push(format!("by {what:<5} (worst share of limit)   {first} {} {last}", bars(&shares)));
        }
    }
    lines.extend(words::step_view(comparison, report.steps, options.all));
    lines.push(format!("logits   {}", words::logits_line(&comparison.logits)));
    lines.extend(words::token_rows(&comparison.logits, report.steps, options.all));
    lines.extend(words::floor_line(comparison).map(|line| format!("noise    {line}")));
    lines.extend(words::notes(comparison).into_iter().map(|note| format!("note     {note}")));
    lines
}

fn worst_of_kinds(comparison: &Comparison, width: u16) -> Vec<String> {
    let kinds = comparison.kinds();
    let fails = kinds.iter().any(|row| row.failures > 0);
    let has_legs = comparison.results.iter().any(|result| result.legs.is_some());
    let mut head = [&["tensor", "op", "layers"], columns(has_legs)].concat();
    let mut right: Vec<usize> = (2..head.len()).collect();
    if fails {
        right.push(head.len());
        head.push("fail");
    }
    head.push("worst at");
    let rows = kinds.iter().take(ROWS).map(|row| {
        let start = [row.kind.to_owned(), row.op.to_owned(), row.layers.to_string()];
        let mut cells: Vec<String> = start.into_iter().chain(numbers(row.worst, has_legs)).collect();
        if fails {
            cells.push(format!("{}/{}", row.failures, row.tensors));
        }
        cells.push(format!("{}{}", words::place(row.worst), detail(row.worst)));
        cells
    });
    let table = grid(&head, &right, rows, width);
    let more = kinds.len().saturating_sub(ROWS);
    iter::once(table).chain((more > 0).then(|| format!("  (+{} more, --all)", count(more as u64)))).collect()
}

fn every_tensor(comparison: &Comparison, width: u16) -> String {
    let has_legs = comparison.results.iter().any(|result| result.legs.is_some());
    let head = [&["tensor", "op", "step"], columns(has_legs), &["worst at"]].concat();
    let right: Vec<usize> = (2..head.len() - 1).collect();
    let rows = comparison.results.iter().map(|r| {
        let start = [words::tensor_name(&r.id), r.op.clone(), r.id.step.to_string()];
        let at = r.worst_index().map(|at| index(&at)).unwrap_or_default();
        let at = format!("{at}{}", detail(r));
        let at = at.strip_prefix(": ").unwrap_or(&at).to_owned();
        start.into_iter().chain(numbers(r, has_legs)).chain([at]).collect()
    });
    grid(&head, &right, rows, width)
}

/// The columns of [`numbers`].
fn columns(has_legs: bool) -> &'static [&'static str] {
    match has_legs {
        true => &["cosine", "scaled err", "introduced", "ampl.", "vs limit"],
        false => &["cosine", "rel L2", "max abs", "vs limit"],
    }
}

/// How far a tensor is: where operators were judged alone in units of their terms, with what the operator itself introduces;
/// else by norm. Then the share of the limit, with the verdict where it is not a pass.
fn numbers(result: &TensorResult, has_legs: bool) -> Vec<String> {
    let metrics = result.metrics.as_ref();
    let mut cells = vec![metrics.map(|m| cosine(m.one_minus_cosine))];
    if has_legs {
        let scaled_error = metrics.and_then(|m| m.scaled_error);
        let legs = result.legs.as_ref();
        let amplified = legs.zip(scaled_error).and_then(|(legs, error)| legs.amplification(error));
        cells.push(scaled_error.map(|error| units(error / U)));
        cells.push(legs.map(|legs| units(legs.introduced_u())));
        cells.push(amplified.map(share));
    } else {
        cells.push(metrics.map(|m| scientific(m.relative_l2, 1)));
        cells.push(metrics.map(|m| scientific(m.max_abs, 1)));
    }
    let verdict = words::verdict(&result.verdict);
    cells.push(Some(match (&result.verdict, result.share) {
        (Verdict::Pass, Some(of_limit)) => share(of_limit),
        (_, Some(of_limit)) => format!("{verdict} {}", share(of_limit)),
        (_, None) => verdict.to_owned(),
    }));
    cells.into_iter().map(Option::unwrap_or_default).collect()
}

/// What the numbers do not say about a tensor that did not pass.
fn detail(result: &TensorResult) -> String {
    match (&result.verdict, &result.metrics) {
        (Verdict::Skipped(reason), _) => format!(": {reason}"),
        (Verdict::Shape { reference, actual }, _) => {
            format!(": reference {}, actual {}", words::shape(*reference), words::shape(*actual))
        }
        (Verdict::NonFinite, Some(m)) => {
            format!(": reference {}, actual {}", decimal(m.reference), decimal(m.actual))
        }
        _ => String::new(),
    }
}

/// A table without borders, indented by two; the last column is wrapped if the table is wider than `width`.
fn grid(head: &[&str], right: &[usize], rows: impl Iterator<Item = Vec<String>>, width: u16) -> String {
    let cells = |row: Vec<String>| {
        row.into_iter().enumerate().map(|(column, text)| {
            let right = right.contains(&column);
            Cell::new(text).set_alignment(if right { CellAlignment::Right } else { CellAlignment::Left })
        })
    };
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING);
    grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    grid.set_header(cells(head.iter().map(|&name| name.to_owned()).collect()).collect::<Vec<_>>());
    for row in rows {
        grid.add_row(cells(row).collect::<Vec<_>>());
    }
    let last = head.len() - 1;
    for (column, place) in grid.column_iter_mut().enumerate() {
        place.set_padding((if column == 0 { 2 } else { 0 }, if column == last { 0 } else { 2 }));
        if column != last {
            place.set_constraint(ColumnConstraint::ContentWidth); // a name that is cut cannot be searched for
        }
    }
    grid.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::words::example;

    fn render(comparison: &Comparison, all: bool) -> String {
        let header = ["mini   qwen35 2 layers".to_owned()];
        let report = Report { name: "mini", header: &header, steps: &[], comparison };
        Table.render(&[report], Options { all, ..Options::default() })
    }

    #[test]
    fn a_passing_run() {
        let expected = "\
mini   qwen35 2 layers

  tensor     op        layers       cosine   rel L2  max abs  vs limit  worst at
  l_out      ADD            2  1 - 8.0e-08  4.0e-04  2.0e-03       0.4  blk.1 step 0 [1,1]
  attn_norm  RMS_NORM       1            1        0        0         0  blk.0 step 0 [0,0]
  view       VIEW           1                                  skipped  blk.1 step 0: a view

  by layer (worst share of limit)   0 ▂▇ 1
  l_out by step (share of the limit that was carried there), layers 0 to 1
    step 0  ▂▇  worst l_out-1 0.4 of its limit
  logits   argmax 1 = 1, margin 0.50, actual 0.50; top-10 3/3; cosine 1
  note     1 skipped: a view

3 compared: 3 pass, 0 differ, 0 missing, 0 extra, 1 skipped; coverage 75%; worst l_out-1 0.4 of its limit
";
        assert_eq!(render(&example::passing(), false), expected);
    }

    #[test]
    fn a_failing_run() {
        let mut comparison = example::passing();
        comparison.results.extend(example::failures());
        comparison.results.push(example::tensor("l_out-50", "ADD", 3.0));
        let expected = "\
mini   qwen35 2 layers

first difference: attn_output-1 (blk.1, MUL_MAT, step 0): relative L2 0.31, limit 1e-03; inherited by 5 later tensors

  tensor       op        layers       cosine   rel L2  max abs    vs limit  fail  worst at
  Kcur         ROPE           1                                    missing   1/1  blk.1 step 0
  Vcur                        1                                      extra   1/1  blk.1 step 0
  Qcur         ROPE           1                                      shape   1/1  blk.1 step 0: reference [2,4], actual
                                                                                  [4,2]
  norm         NORM           1          NaN      NaN      NaN  non-finite   1/1  blk.1 step 0 [1,1]: reference 0,
                                                                                  actual NaN
  l_out        ADD            3       0.8575  6.0e-01  3.0e+00  differ 600   1/3  blk.50 step 0 [1,1]
  attn_output  MUL_MAT        1  1 - 4.5e-02  3.1e-01  1.5e+00  differ 310   1/1  blk.1 step 0 [1,1]
  attn_norm    RMS_NORM       1            1        0        0           0   0/1  blk.0 step 0 [0,0]
  view         VIEW           1                                    skipped   0/1  blk.1 step 0: a view

  by layer (worst share of limit)   0 ▂██ 50
  l_out by step (share of the limit that was carried there), layers 0 to 50
    step 0  ▂▇█  worst l_out-50 600 of its limit
  first step over its limit: step 0: l_out-50 600 of its limit
  logits   argmax 1 = 1, margin 0.50, actual 0.50; top-10 3/3; cosine 1
  note     1 skipped: a view

6 compared: 3 pass, 2 differ, 1 missing, 1 extra, 1 skipped, 1 shape, 1 non-finite; coverage 66.6%; worst norm-1 non-finite
";
        assert_eq!(render(&comparison, false), expected);
    }

    #[test]
    fn the_legs_stand_in_the_same_row() {
        let mut result = example::tensor("l_out-0", "ADD", 1e-5).with_legs(example::legs(0.5, 0.25));
        result.metrics.as_mut().unwrap().scaled_error = Some(8.0 * U);
        let comparison = Comparison { results: vec![result], logits: Vec::new() };
        let text = render(&comparison, false);
        let table: Vec<&str> = text.lines().skip(2).take(2).collect();
        assert_eq!(
            table,
            [
                "  tensor  op   layers       cosine  scaled err  introduced  ampl.  vs limit  worst at",
                "  l_out   ADD       1  1 - 2.0e-12      8.00 u      2.00 u      4       0.5  blk.0 step 0 [1,1]",
            ]
        );
    }

    #[test]
    fn each_bad_verdict_is_said_first_and_in_its_row() {
        let words = ["differ 310", "missing", "extra", "shape", "non-finite"];
        for (bad, word) in example::failures().into_iter().zip(words) {
            let mut comparison = example::passing();
            comparison.results.push(bad.clone());
            let text = render(&comparison, false);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines[2].starts_with(&format!("first difference: {} (", bad.id.name)), "{text}");
            assert!(lines[5].contains(bad.id.kind()) && lines[5].contains(word), "{text}");
        }
    }

    #[test]
    fn all_tensors_in_graph_order() {
        let mut comparison = example::passing();
        comparison.results.insert(1, example::tensor("norm-1", "NORM", f32::NAN));
        let text = render(&comparison, true);
        let table: Vec<&str> = text.lines().skip(4).take(6).collect();
        assert_eq!(
            table,
            [
                "  tensor       op        step       cosine   rel L2  max abs    vs limit  worst at",
                "  attn_norm-0  RMS_NORM     0            1        0        0           0  [0,0]",
                "  norm-1       NORM         0          NaN      NaN      NaN  non-finite  [1,1]: reference 0, actual NaN",
                "  l_out-0      ADD          0  1 - 2.0e-12  2.0e-06  1.0e-05       0.002  [1,1]",
                "  l_out-1      ADD          0  1 - 8.0e-08  4.0e-04  2.0e-03         0.4  [1,1]",
                "  view-1       VIEW         0                                    skipped  a view",
            ]
        );
    }

    #[test]
    fn twenty_rows_then_how_many_more_and_never_wider_than_asked() {
        let mut comparison = Comparison::default();
        for i in 0..1023 {
            let name = format!("a_tensor_of_quite_a_long_name_{}-{}", i % 23, i / 23);
            comparison.results.push(example::tensor(&name, "GATED_DELTA_NET", f32::NAN));
        }
        let text = render(&comparison, false);
        assert!(text.contains("\n  (+3 more, --all)\n"), "{text}");
        let table: Vec<&str> = text.lines().skip(4).take_while(|line| !line.is_empty()).collect();
        assert!(table.len() > 20 && table.iter().all(|line| line.chars().count() <= 120), "{text}");
        assert!(table[1].starts_with("  a_tensor_of_quite_a_long_name_0   GATED_DELTA_NET"), "{text}");
    }

    #[test]
    fn several_reports_end_with_the_line_over_all() {
        let (good, empty) = (example::passing(), Comparison::default());
        let report = |comparison| Report { name: "mini", header: &[], steps: &[], comparison };
        let text = Table.render(&[report(&good), report(&empty)], Options::default());
        let last = words::summary_line(&[&good, &empty]);
        assert!(text.contains("0 skipped; coverage 0%; nothing was compared\n\n3 compared"), "{text}");
        assert_eq!(text.lines().last(), Some(last.as_str()));
        assert!(Table.render(&[], Options::default()).ends_with("nothing was compared\n"));
    }
}
