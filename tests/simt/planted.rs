//! What the emulator says of each planted bug, in both flavours and every order, and that its README says the same.

use std::fs;
use std::path::Path;

use crate::bugs::{self, Argument, Bug, Fast, RIGHT};
use crate::library::{Emulator, Flavour, Memory, ORDERS, Order, emulator, kernel_names};

/// Files of planted bugs, with their bugs.
fn files() -> [(&'static str, Vec<Bug>); 3] {
    [
        ("bad_memory.cu", bugs::accesses()),
        ("bad_control.cu", bugs::control()),
        ("bad_matrix.cu", bugs::matrices()),
    ]
}

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Runs it; what is said, or else what was looked at.
fn run(bug: &Bug, emulator: &Emulator, order: Order) -> Result<Vec<f32>, String> {
    let memory: Vec<Option<Memory<'_, f32>>> = bug
        .arguments
        .iter()
        .map(|argument| match *argument {
            Argument::Fresh(n) => Some(emulator.fresh(n)),
            Argument::Zeros(n) => Some(emulator.upload(&vec![0.0; n])),
            Argument::Ones(n) => Some(emulator.upload(&vec![1.0; n])),
            Argument::Scalar(_) => None,
        })
        .collect();
    let args: Vec<u64> = bug
        .arguments
        .iter()
        .zip(&memory)
        .map(|(argument, memory)| match (argument, memory) {
            (Argument::Scalar(value), _) => *value,
            (_, memory) => memory.as_ref().unwrap().arg(),
        })
        .collect();
    emulator.launch(bug.kernel, bug.shape, &args, order)?;
    Ok(memory[0].as_ref().unwrap().read())
}

/// Where a kernel is wrong: `file.cu:line` of the lines that are marked so.
fn marked(kernel: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (file, _) in files() {
        let text = text(&format!("tests/simt/{file}"));
        let is_marked = |line: &&str| line.split_once("BUG ").is_some_and(|(_, name)| name == kernel);
        let lines = text.lines().enumerate().filter(|(_, line)| is_marked(line));
        found.extend(lines.map(|(i, _)| format!("{file}:{}", i + 1)));
    }
    found
}

/// The lines that are named in what is said, at their end or before anything that is no digit.
fn names_a_line(said: &str, lines: &[String]) -> bool {
    let ends = |behind: &str| !behind.starts_with(|c: char| c.is_ascii_digit());
    lines.iter().any(|line| said.match_indices(line.as_str()).any(|(i, _)| ends(&said[i + line.len()..])))
}

fn check(bugs: &[Bug]) {
    for bug in bugs {
        let lines = marked(bug.kernel);
        let has_no_line = bug.kernel == "bad_big_local";
        assert_eq!(lines.is_empty(), has_no_line, "lines with BUG {}", bug.kernel);
        let says = |said: &str, what: &str| {
            said.starts_with(&format!("{}: block (", bug.kernel)) && said.contains(what)
        };
        for order in ORDERS {
            let said = run(bug, emulator(Flavour::Checked), order)
                .expect_err(&format!("{} goes unnoticed, {order:?}", bug.kernel));
            assert!(bug.checked.iter().any(|what| says(&said, what)), "{order:?}: {said}");
            assert!(has_no_line || names_a_line(&said, &lines), "{order:?}, none of {lines:?}: {said}");
        }
        let right = RIGHT.iter().find(|(kernel, _)| *kernel == bug.kernel).map(|(_, value)| *value);
        let fast = ORDERS.map(|order| run(bug, emulator(Flavour::Fast), order));
        let is_right = |result: &Result<Vec<f32>, String>| match (result, right) {
            (Ok(values), Some([first, others])) => {
                values[0] == first && values[1..].iter().all(|&value| value == others)
            }
            _ => false,
        };
        match bug.fast {
            Fast::Names(what) => {
                for result in &fast {
                    let said = result.as_ref().expect_err(bug.kernel);
                    assert!(said.starts_with(bug.kernel) && said.contains(what), "{said}");
                }
            }
            Fast::Wrong => assert!(!fast.iter().any(is_right), "{}: {fast:?}", bug.kernel),
            // If this fails the emulator has become better than its README says.
            Fast::Misses => assert!(fast.iter().any(Result::is_ok), "{}: {fast:?}", bug.kernel),
        }
    }
}

#[test]
fn accesses() {
    check(&bugs::accesses());
}

#[test]
fn what_threads_do_together() {
    check(&bugs::control());
}

#[test]
fn matrices_and_copies() {
    check(&bugs::matrices());
}

#[test]
fn every_planted_bug_is_looked_for() {
    for (file, bugs) in files() {
        let mut looked_for: Vec<&str> = bugs.iter().map(|bug| bug.kernel).collect();
        looked_for.dedup();
        looked_for.sort_unstable();
        let mut planted = kernel_names(&text(&format!("tests/simt/{file}")));
        planted.sort_unstable();
        assert_eq!(looked_for, planted, "{file}");
    }
}

/// The table in the README.
fn table() -> String {
    let mut rows = String::from("| bug | fast | checked |\n| --- | --- | --- |\n");
    for (_, bugs) in files() {
        for bug in bugs {
            let said = |what: &str| format!("`{}`", what.trim());
            let fast = match bug.fast {
                Fast::Names(what) => said(what),
                Fast::Wrong => "wrong values".to_owned(),
                Fast::Misses => "**not seen**".to_owned(),
            };
            let checked: Vec<String> = bug.checked.iter().map(|what| said(what)).collect();
            rows += &format!("| {} | {fast} | {} |\n", bug.what, checked.join(" or "));
        }
    }
    rows
}

#[test]
fn the_readme_has_this_table() {
    let table = table();
    assert!(text("kernels/simt/README.md").contains(&table), "kernels/simt/README.md must have:\n\n{table}");
}
