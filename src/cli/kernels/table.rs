//! What kernels take of a multiprocessor, as text and as versioned JSON (fields are only ever added).

use std::cmp::Reverse;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use crate::engine::gpu::{Checked, Resources};

/// The version of the schema.
const VERSION: u32 = 1;
/// Rows at most, unless all are asked for.
const ROWS: usize = 20;

/// Every kernel with its file and a letter for each parameter.
pub(super) fn kernels_list(kernels: &[(String, &str, String)]) -> String {
    let mut table = table(&[("kernel", false), ("file", false), ("parameters", false)]);
    for (kernel, file, parameters) in kernels {
        table.add_row([kernel.as_str(), file, parameters]);
    }
    let mut files: Vec<&str> = kernels.iter().map(|(_, file, _)| *file).collect();
    files.dedup();
    let legend = "r reads a buffer, w writes one, i, u and f are a number of 32 bits";
    format!("{}\n  {legend}\n\n{} kernels in {} files\n", text(table), kernels.len(), files.len())
}

/// A row per kernel, the worst first, what is wrong, the last line.
pub(super) fn kernels_table(checked: &[Checked], archs: &[String], all: bool) -> String {
    let mut rows: Vec<&Checked> = checked.iter().collect();
    let share = |of: &Checked| (of.registers() * 1000).checked_div(of.limit).unwrap_or(usize::MAX);
    rows.sort_by_key(|of| Reverse((!of.problems(archs).is_empty(), share(of), of.registers())));
    let mut head = vec![("kernel", false), ("file", false), ("limit", true)];
    head.extend(archs.iter().map(|arch| (arch.as_str(), true)));
    head.extend(["stack", "spill stores", "spill loads", "shared"].map(|name| (name, true)));
    let mut table = table(&head);
    let shown = if all { rows.len() } else { ROWS.min(rows.len()) };
    for of in &rows[..shown] {
        let mut cells = vec![Cell::new(&of.kernel), Cell::new(of.file), right(of.limit.to_string())];
        cells.extend(
            of.on.iter().map(|on| right(on.as_ref().map_or("-".to_owned(), |on| on.registers.to_string()))),
        );
        let fields: [fn(&Resources) -> usize; 4] =
            [|on| on.stack, |on| on.spill_stores, |on| on.spill_loads, |on| on.shared];
        cells.extend(fields.map(|field| right(on_each(of, field))));
        table.add_row(cells);
    }
    let mut out = text(table);
    if shown < rows.len() {
        out += &format!("  (+{} more, --all)\n", rows.len() - shown);
    }
    for of in rows {
        for problem in of.problems(archs) {
            out += &format!("  {}, {problem}\n", of.kernel);
        }
    }
    format!("{out}\n{}\n", line(checked, archs))
}

/// The last line.
fn line(checked: &[Checked], archs: &[String]) -> String {
    let each = || checked.iter().flat_map(|of| of.on.iter().map(move |on| (of, on.as_ref())));
    let number =
        |is: &dyn Fn(&Checked, Option<&Resources>) -> bool| each().filter(|(of, on)| is(of, *on)).count();
    let local = number(&|_, on| on.is_some_and(Resources::is_local));
    let over = number(&|of, on| on.is_some_and(|on| on.registers > of.limit));
    let silent = number(&|_, on| on.is_none());
    let within = checked.iter().filter(|of| of.problems(archs).is_empty()).count();
    let most = checked.iter().max_by_key(|of| of.registers());
    let most = most.map_or(String::new(), |of| {
        format!("; most registers {} {} of {}", of.kernel, of.registers(), of.limit)
    });
    format!(
        "{} kernels for {}: {within} within budget; {local} spill or have a stack, {over} over budget, {silent} without numbers{most}",
        checked.len(),
        archs.join(" "),
    )
}

/// One number if it is the same everywhere, else all.
fn on_each(of: &Checked, field: fn(&Resources) -> usize) -> String {
    let mut values: Vec<String> = of.on.iter().flatten().map(|on| field(on).to_string()).collect();
    if values.iter().all(|value| *value == values[0]) {
        values.truncate(1);
    }
    values.join("/")
}

fn table(head: &[(&str, bool)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(head.iter().map(
        |&(name, is_number)| {
            if is_number { right(name.to_owned()) } else { Cell::new(name) }
        },
    ));
    table
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn text(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt().lines().map(|line| format!("  {}\n", line.trim_end())).collect()
}

/// The document for one invocation; ends with a line feed.
pub(super) fn kernels_json(checked: &[Checked], archs: &[String]) -> String {
    let kernels: Vec<KernelJson<'_>> = checked
        .iter()
        .map(|of| KernelJson {
            kernel: &of.kernel,
            file: of.file,
            parameters: &of.parameters,
            limit: of.limit,
            on: archs.iter().zip(&of.on).map(|(arch, on)| on_json(arch, on.as_ref())).collect(),
            problems: of.problems(archs),
        })
        .collect();
    let is_pass = !kernels.is_empty() && kernels.iter().all(|kernel| kernel.problems.is_empty());
    let document = Document { version: VERSION, is_pass, kernels };
    serde_json::to_string(&document).expect("plain structs with string keys") + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    is_pass: bool,
    kernels: Vec<KernelJson<'a>>,
}

#[derive(Serialize)]
struct KernelJson<'a> {
    kernel: &'a str,
    file: &'a str,
    parameters: &'a str,
    limit: usize,
    on: Vec<OnJson<'a>>,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct OnJson<'a> {
    arch: &'a str,
    registers: Option<usize>,
    stack: Option<usize>,
    spill_stores: Option<usize>,
    spill_loads: Option<usize>,
    shared: Option<usize>,
}

fn on_json<'a>(arch: &'a str, on: Option<&Resources>) -> OnJson<'a> {
    OnJson {
        arch,
        registers: on.map(|on| on.registers),
        stack: on.map(|on| on.stack),
        spill_stores: on.map(|on| on.spill_stores),
        spill_loads: on.map(|on| on.spill_loads),
        shared: on.map(|on| on.shared),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(kernel: &str, registers: usize, stack: usize) -> Checked {
        let on = Resources { kernel: kernel.to_owned(), registers, stack, ..Resources::default() };
        Checked {
            kernel: kernel.to_owned(),
            file: "a.cu",
            parameters: "wri".to_owned(),
            limit: 64,
            on: vec![Some(on)],
        }
    }

    fn last_line(checked: &[Checked]) -> String {
        kernels_table(checked, &["sm_90".to_owned()], false).lines().last().unwrap().to_owned()
    }

    #[test]
    fn within_budget() {
        assert_eq!(
            last_line(&[checked("a_f32", 64, 0), checked("b_f32", 8, 0)]),
            "2 kernels for sm_90: 2 within budget; 0 spill or have a stack, 0 over budget, 0 without numbers; most registers a_f32 64 of 64"
        );
    }

    #[test]
    fn what_is_wrong_is_named_and_comes_first() {
        let archs = ["sm_90".to_owned()];
        let mut silent = checked("d_f32", 0, 0);
        silent.on = vec![None];
        let all = [checked("a_f32", 64, 0), checked("b_f32", 65, 0), checked("c_f32", 8, 16), silent];
        let table = kernels_table(&all, &archs, false);
        assert!(table.contains("  b_f32, sm_90: 65 registers, at most 64\n"), "{table}");
        assert!(
            table.contains("  c_f32, sm_90: a stack of 16 bytes, 0 bytes spilled and 0 fetched back\n"),
            "{table}"
        );
        assert!(table.contains("  d_f32, sm_90: the compiler says nothing of it\n"), "{table}");
        assert!(table.lines().nth(1).unwrap().contains("b_f32"), "{table}");
        assert!(
            last_line(&all)
                .contains("1 within budget; 1 spill or have a stack, 1 over budget, 1 without numbers")
        );
        let json: serde_json::Value = serde_json::from_str(&kernels_json(&all, &archs)).unwrap();
        assert_eq!(json["is_pass"], false);
        assert_eq!(json["kernels"][2]["on"][0]["stack"], 16);
    }

    #[test]
    fn no_more_than_twenty_rows() {
        let all: Vec<Checked> = (0..25).map(|i| checked(&format!("k{i}_f32"), 8, 0)).collect();
        assert!(kernels_table(&all, &["sm_90".to_owned()], false).contains("  (+5 more, --all)\n"));
        assert!(!kernels_table(&all, &["sm_90".to_owned()], true).contains("more"));
    }
}
