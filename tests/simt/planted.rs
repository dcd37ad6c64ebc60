//! bad_*.cu: what the emulator says of each planted bug. kernels/simt/README.md has the same table in words.

use std::fs;
use std::path::Path;

use crate::library::{Emulator, Flavour, Memory, ORDERS, Order, Shape, emulator};

/// How the fast flavour takes a bug.
enum Fast {
    /// It says this, in every order.
    Names(&'static str),
    /// Values are wrong in every order, or it says something.
    Wrong,
    /// It does not notice, not in every order at least.
    Misses,
}
use Fast::{Misses, Names, Wrong};

/// An argument of a kernel.
enum Argument {
    /// What is looked at afterwards; nothing was written to it.
    Out(usize),
    /// What is looked at afterwards, with as many zeros in it at first.
    Zeros(usize),
    /// As many ones.
    Ones(usize),
    /// Memory that nothing was written to.
    Fresh(usize),
    Scalar(u64),
}
use Argument::{Fresh, Ones, Out, Scalar, Zeros};

struct Bug {
    kernel: &'static str,
    shape: Shape,
    arguments: Vec<Argument>,
    /// One of these is in what the checked flavour says.
    checked: &'static [&'static str],
    fast: Fast,
}

/// What a kernel without its bug would give in all of its output, where the fast flavour may run it to the end.
const RIGHT: &[(&str, f32)] = &[
    ("bad_reduce_no_sync", 256.0),
    ("bad_reuse_no_sync", 2.0),
    ("bad_no_syncwarp", 1.0),
    ("bad_copy_no_wait", 1.0),
    ("bad_copy_wrong_wait", 1.0),
    ("bad_copy_no_barrier", 1.0),
    ("bad_copy_over_readers", 2.0),
    ("bad_uninitialised_shared", 1.0),
    ("bad_uninitialised_device", 1.0),
    ("bad_ldmatrix_uninitialised", 1.0),
];

const RACE: &str = "data race: ";
const COPYING: &str = "that a cp.async still writes";

#[rustfmt::skip]
fn memory_bugs() -> Vec<Bug> {
    let bug = |kernel, shape, arguments, checked, fast| Bug { kernel, shape, arguments, checked, fast };
    let threads = |n| Shape::new(1, n);
    vec![
        bug("bad_wht_no_sync", threads(256).dynamic(4096), vec![Ones(1024)], &[RACE], Misses),
        bug("bad_reduce_no_sync", threads(256), vec![Out(1), Ones(256)], &[RACE, "read of uninitialised shared memory"], Wrong),
        bug("bad_reuse_no_sync", threads(64), vec![Out(64), Ones(64)], &[RACE], Wrong),
        bug("bad_no_syncwarp", threads(32), vec![Out(32), Ones(32)], &[RACE, "read of uninitialised shared memory"], Wrong),
        bug("bad_sum_without_atomic", Shape::new(4, 64), vec![Zeros(1), Ones(256)], &[RACE], Misses),
        bug("bad_write_past_end", threads(128), vec![Out(100), Scalar(100)],
            &["out-of-bounds write of 4 bytes: 0 bytes past the end of a device buffer of 400 bytes"],
            Names("out-of-bounds write: 0 bytes past the end of a device buffer of 400 bytes")),
        bug("bad_write_past_end", threads(128), vec![Out(101), Scalar(101)],
            &["out-of-bounds write of 4 bytes: 0 bytes past the end of a device buffer of 404 bytes"],
            Names("a thread wrote past the end of a device buffer of 404 bytes")),
        bug("bad_read_before_start", Shape::new(4, 256), vec![Out(1024), Ones(1024)],
            &["out-of-bounds read of 4 bytes: 4 bytes before the start of a device buffer of 4096 bytes"],
            Names("out-of-bounds read: 4 bytes before the start of a device buffer of 4096 bytes")),
        bug("bad_index_overflow", threads(64), vec![Out(64), Scalar(70_000_000)], &["out-of-bounds write of 4 bytes"], Names("out-of-bounds write: ")),
        bug("bad_misaligned", threads(32), vec![Out(32), Ones(64)], &["misaligned"], Misses),
        bug("bad_uninitialised_shared", threads(64), vec![Out(64)], &["read of uninitialised shared memory: never written by this block"], Wrong),
        bug("bad_uninitialised_device", threads(64), vec![Out(64), Fresh(64)],
            &["read of uninitialised device memory: offset 0 of a device buffer of 256 bytes", "read of uninitialised device memory"], Wrong),
        bug("bad_shared_index", threads(64), vec![Out(64)], &["array index ", "out of bounds"], Misses),
        bug("bad_dynamic_shared", threads(64).dynamic(252), vec![Out(64)],
            &["out-of-bounds write of 4 bytes: it is at offset 252 of 252 bytes of dynamic shared memory"],
            Names("a thread wrote past the end of dynamic shared memory")),
        bug("bad_big_local", threads(64), vec![Out(64), Scalar(40000)], &["stack overflow: too much local memory"],
            Names("stack overflow: too much local memory")),
    ]
}

#[rustfmt::skip]
fn control_bugs() -> Vec<Bug> {
    let same = |kernel, shape, arguments, says: &'static [&'static str]| Bug { kernel, shape, arguments, checked: says, fast: Names(says[0]) };
    let threads = |n| Shape::new(1, n);
    vec![
        same("bad_barrier_in_branch", threads(64), vec![Out(64)], &["__syncthreads at bad_control.cu:"]),
        same("bad_two_barriers", threads(64), vec![Out(64)], &["divergent barrier: reaches __syncthreads at bad_control.cu:"]),
        same("bad_shuffle_in_branch", threads(32), vec![Out(32)], &["warp operation at bad_control.cu:"]),
        same("bad_shuffle_mask", threads(32), vec![Out(32)], &["mask 0000ffff does not include the calling lane"]),
        same("bad_shuffle_against_barrier", threads(32), vec![Out(32)], &["threads wait for each other forever: [warp 0 lanes 0000ffff in a warp operation"]),
        same("bad_divide", threads(32), vec![Out(32), Scalar(0)], &["integer division by zero"]),
        same("bad_assert", threads(32), vec![Out(32), Scalar(31)], &["assertion failed: (int)blockDim.x <= n at bad_control.cu:"]),
        same("bad_spin_on_flag", threads(64), vec![Out(64), Zeros(64)], &["spins: lets no other thread of its block run for"]),
        same("bad_spin_on_volatile", threads(64), vec![Out(64), Zeros(64)], &["spins: lets no other thread of its block run for"]),
        same("bad_endless", threads(32), vec![Out(32), Scalar(1)], &["spins: lets no other thread of its block run for"]),
        same("bad_endless_barriers", threads(64), vec![Out(64), Scalar(1)], &["runs without an end: its block has taken more than"]),
        same("bad_endless_shuffles", threads(64), vec![Out(64), Scalar(1)], &["runs without an end: its block has taken more than"]),
    ]
}

#[rustfmt::skip]
fn matrix_bugs() -> Vec<Bug> {
    let bug = |kernel, dynamic, arguments, checked, fast| Bug { kernel, shape: Shape::new(1, 32).dynamic(dynamic), arguments, checked, fast };
    vec![
        bug("bad_ldmatrix_row", 1024, vec![Out(32), Ones(256)], &["misaligned row of ldmatrix at address"], Names("misaligned row of ldmatrix at address")),
        bug("bad_ldmatrix_past_end", 512, vec![Out(32), Ones(128)],
            &["out-of-bounds row of ldmatrix: it is at offset 512 of 512 bytes of dynamic shared memory"],
            Names("out-of-bounds row of ldmatrix: it is at offset 512 of 512 bytes of dynamic shared memory")),
        bug("bad_ldmatrix_uninitialised", 512, vec![Out(32), Ones(128)], &["read of uninitialised shared memory"], Wrong),
        bug("bad_ldmatrix_no_sync", 512, vec![Out(32), Ones(128)], &[RACE], Misses),
        bug("bad_mma_in_branch", 0, vec![Out(32)], &["warp operation at bad_matrix.cu:", "in a warp operation of mask ffffffff at bad_matrix.cu:"], Wrong),
        bug("bad_two_mmas", 0, vec![Out(32)], &["divergent warp operation: is at bad_matrix.cu:"], Names("divergent warp operation: is at bad_matrix.cu:")),
        bug("bad_copy_no_wait", 512, vec![Out(32), Ones(128)], &[COPYING], Wrong),
        bug("bad_copy_wrong_wait", 512, vec![Out(32), Ones(128)], &[COPYING], Wrong),
        bug("bad_copy_no_barrier", 512, vec![Out(32), Ones(128)], &[RACE, COPYING, "read of uninitialised shared memory"], Wrong),
        bug("bad_copy_over_readers", 512, vec![Out(32), Ones(256)], &[RACE, COPYING], Misses),
        bug("bad_copy_misaligned", 512, vec![Out(32), Ones(133)], &["misaligned cp.async from address"], Names("misaligned cp.async from address")),
        bug("bad_copy_past_end", 512, vec![Out(32), Ones(128)],
            &["out-of-bounds read of 1 bytes: 0 bytes past the end of a device buffer of 512 bytes"],
            Names("out-of-bounds read: 0 bytes past the end of a device buffer of 512 bytes")),
    ]
}

/// Runs it; what is said, or else what was looked at.
fn run(bug: &Bug, emulator: &Emulator, order: Order) -> Result<Vec<f32>, String> {
    let memory: Vec<Option<Memory<'_, f32>>> = bug
        .arguments
        .iter()
        .map(|argument| match *argument {
            Out(n) | Fresh(n) => Some(emulator.fresh(n)),
            Zeros(n) => Some(emulator.upload(&vec![0.0; n])),
            Ones(n) => Some(emulator.upload(&vec![1.0; n])),
            Scalar(_) => None,
        })
        .collect();
    let args: Vec<u64> = bug
        .arguments
        .iter()
        .zip(&memory)
        .map(|(argument, memory)| match (argument, memory) {
            (Scalar(value), _) => *value,
            (_, memory) => memory.as_ref().unwrap().arg(),
        })
        .collect();
    emulator.launch(bug.kernel, bug.shape, &args, order)?;
    Ok(memory[0].as_ref().unwrap().read())
}

/// Where a kernel is wrong: `file.cu:line` of the lines that are marked so.
fn marked(kernel: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in ["bad_memory.cu", "bad_control.cu", "bad_matrix.cu"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simt").join(file);
        let text = fs::read_to_string(path).unwrap();
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
        let says = |said: &str, what: &str| {
            said.starts_with(&format!("{}: block (", bug.kernel)) && said.contains(what)
        };
        for order in ORDERS {
            let said = run(bug, emulator(Flavour::Checked), order)
                .expect_err(&format!("{} goes unnoticed, {order:?}", bug.kernel));
            assert!(bug.checked.iter().any(|what| says(&said, what)), "{order:?}: {said}");
            assert!(lines.is_empty() || names_a_line(&said, &lines), "{order:?}, none of {lines:?}: {said}");
        }
        let right = RIGHT.iter().find(|(kernel, _)| *kernel == bug.kernel).map(|(_, value)| *value);
        let fast = ORDERS.map(|order| run(bug, emulator(Flavour::Fast), order));
        let is_right = |result: &Result<Vec<f32>, String>| match (result, right) {
            (Ok(values), Some(right)) => values.iter().all(|&value| value == right),
            _ => false,
        };
        match bug.fast {
            Names(what) => {
                for result in &fast {
                    let said = result.as_ref().expect_err(bug.kernel);
                    assert!(said.starts_with(bug.kernel) && said.contains(what), "{said}");
                }
            }
            Wrong => assert!(!fast.iter().any(is_right), "{}: {fast:?}", bug.kernel),
            // If this fails the emulator has become better than its README says.
            Misses => assert!(fast.iter().any(Result::is_ok), "{}: {fast:?}", bug.kernel),
        }
    }
}

#[test]
fn accesses() {
    check(&memory_bugs());
}

#[test]
fn what_threads_do_together() {
    check(&control_bugs());
}

#[test]
fn matrices_and_copies() {
    check(&matrix_bugs());
}

#[test]
fn every_planted_bug_is_looked_for() {
    let bugs = [memory_bugs(), control_bugs(), matrix_bugs()].into_iter().flatten().map(|bug| bug.kernel);
    let mut looked_for: Vec<&str> = bugs.collect();
    looked_for.dedup();
    let mut planted = Vec::new();
    for file in ["bad_memory.cu", "bad_control.cu", "bad_matrix.cu"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simt").join(file);
        planted.extend(crate::library::kernel_names(&fs::read_to_string(path).unwrap()));
    }
    looked_for.sort_unstable();
    planted.sort_unstable();
    assert_eq!(looked_for, planted);
}
