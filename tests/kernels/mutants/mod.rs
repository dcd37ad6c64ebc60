//! Mistakes planted in the kernels: the tests beside this folder must fail on each of them, and say which kernel it was.
//!
//! All mistakes are compiled into one library (`library`), each asleep until LOCKSTEP_MUTANT names it; so a mistake costs a run of
//! the tests that must see it, and no compilation. This binary runs itself for that, with the library as its driver.
#![cfg(all(feature = "simt", target_arch = "x86_64", target_os = "linux"))]

mod automatic;
mod bounds;
mod library;
mod values;

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use library::{Sources, kernel_names};

/// How a mistake is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Noticed {
    /// By the emulator, which names the kernel and a line.
    ByEmulator,
    /// By a comparison, which begins with these words.
    ByValues(&'static str),
}

/// A mistake in one file.
#[derive(Clone, Debug)]
struct Mutant {
    file: String,
    edits: Vec<Edit>,
    /// Names of the tests that are run; one of them must fail.
    tests: Vec<&'static str>,
    noticed: Noticed,
}

/// A piece of code and what stands in its place.
#[derive(Clone, Debug)]
struct Edit {
    find: String,
    /// Occurrences, all of which change; comments do not count.
    times: usize,
    /// Where the only one is, if it is known: the offset in the text.
    at: Option<usize>,
    with: With,
}

#[derive(Clone, Debug)]
enum With {
    /// The code is an expression, or a statement (it ends with `;`), and so is this.
    Code(String),
    /// This, in which MUTANT is whether the mistake is awake.
    Raw(String),
}

/// An expression, or a statement, that occurs once.
fn edit(find: &str, replacement: &str) -> Edit {
    Edit { find: find.to_owned(), times: 1, at: None, with: With::Code(replacement.to_owned()) }
}

/// Any piece of code that occurs once; the replacement says itself what MUTANT changes.
fn raw(find: &str, replacement: &str) -> Edit {
    Edit { find: find.to_owned(), times: 1, at: None, with: With::Raw(replacement.to_owned()) }
}

impl Edit {
    fn times(self, times: usize) -> Edit {
        Edit { times, ..self }
    }
}

impl Mutant {
    fn what(&self) -> String {
        let edits: Vec<String> = self
            .edits
            .iter()
            .map(|edit| match &edit.with {
                With::Code(code) | With::Raw(code) => format!("`{}` -> `{code}`", edit.find),
            })
            .collect();
        format!("{}: {}", self.file, edits.join(", "))
    }
}

/// What a run of tests gave.
struct Outcome {
    passed: bool,
    output: String,
}

/// Runs tests of this binary on the library with one mistake awake, or none.
fn run(library: &Path, tests: &[&str], mutant: Option<u32>) -> Outcome {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(tests).args(["--exact", "--test-threads=1"]);
    command.env("LOCKSTEP_DRIVER", library).env("RUST_BACKTRACE", "0").env_remove("LOCKSTEP_MUTANT");
    if let Some(id) = mutant {
        command.env("LOCKSTEP_MUTANT", id.to_string());
    }
    let run = command.output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    let running = format!("running {} test", tests.len());
    assert!(output.contains(&running), "{tests:?}: not all of these tests exist\n{output}");
    Outcome { passed: run.status.success(), output }
}

/// Whether it names a kernel of the file (of a header: any), as the emulator does, and a line.
fn names_a_kernel_and_a_line(output: &str, file: &str, sources: &Sources) -> bool {
    let files = sources.text.iter().filter(|(name, _)| *name == file || file.ends_with(".cuh"));
    let mut kernels = files.flat_map(|(_, text)| kernel_names(text));
    let has_a_line = [".cu:", ".cuh:"]
        .iter()
        .any(|end| output.split(end).skip(1).any(|behind| behind.starts_with(|c: char| c.is_ascii_digit())));
    has_a_line && kernels.any(|kernel| output.contains(&format!("{kernel}: block (")))
}

/// Whether a comparison failed that begins with these words, alone or behind "assertion failed"; what the emulator says is none.
fn compares(output: &str, words: &str) -> bool {
    let behind = format!(": {words}");
    let lines = output.lines().filter(|line| !line.contains(": block ("));
    lines.into_iter().any(|line| line.starts_with(words) || line.contains(&behind))
}

/// Why a mistake does not count as caught.
fn complaint(mutant: &Mutant, outcome: &Outcome, sources: &Sources) -> Option<String> {
    let line =
        mutant.edits[0].at.map(|at| format!("line {}, ", sources.text[&mutant.file][..at].lines().count()));
    let what = line.unwrap_or_default() + &mutant.what();
    let output = &outcome.output;
    if outcome.passed {
        return Some(format!("{what}\n    is not noticed by {:?}", mutant.tests));
    }
    let is_named = match mutant.noticed {
        Noticed::ByEmulator => names_a_kernel_and_a_line(output, &mutant.file, sources),
        Noticed::ByValues(words) => compares(output, words),
    };
    (!is_named).then(|| format!("{what}\n    is not noticed {:?}:\n{output}", mutant.noticed))
}

/// Does something with each of them, two at a time.
fn two_at_a_time<T: Sync>(all: &[T], f: impl Fn(&T) + Sync) {
    let next = Mutex::new(all.iter());
    let work = || {
        while let Some(one) = { next.lock().unwrap().next() } {
            f(one);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}

/// Barriers, guards, and the tables of bounds and values.
fn all(sources: &Sources) -> Vec<Mutant> {
    [automatic::mutants(sources), bounds::mutants(), values::mutants()].concat()
}

#[test]
#[allow(clippy::print_stderr)]
fn every_mutant_is_noticed() {
    if let Some(driver) = env::var_os("LOCKSTEP_DRIVER") {
        eprintln!("SKIPPED mutants: they run on the emulator, not on {}", driver.display());
        return;
    }
    let sources = Sources::read();
    let mutants = all(&sources);
    let planted = library::build(&sources, &mutants).unwrap_or_else(|error| panic!("{error}"));
    let complaints = Mutex::new(Vec::new());
    let complain = |complaint: String| complaints.lock().unwrap().push(complaint);
    // With all of them asleep the tests pass: the library is that of the kernels.
    let tests: BTreeSet<&str> = mutants.iter().flat_map(|mutant| mutant.tests.iter().copied()).collect();
    let tests: Vec<&str> = tests.into_iter().collect();
    two_at_a_time(&tests, |test| {
        let outcome = run(&planted.path, &[*test], None);
        if !outcome.passed {
            complain(format!("{test} fails without a mutant:\n{}", outcome.output));
        }
    });
    let with_ids: Vec<(&Mutant, u32)> = mutants.iter().zip(planted.ids.iter().copied()).collect();
    two_at_a_time(&with_ids, |(mutant, id)| {
        let outcome = run(&planted.path, &mutant.tests, Some(*id));
        complaint(mutant, &outcome, &sources).into_iter().for_each(complain);
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(
        complaints.is_empty(),
        "{} of {} mutants:\n{}",
        complaints.len(),
        mutants.len(),
        complaints.join("\n")
    );
}

#[test]
fn every_kernel_file_has_a_mutant() {
    let sources = Sources::read();
    let mutants = all(&sources);
    let files = sources.text.keys().filter(|file| file.ends_with(".cu"));
    let without: Vec<_> = files.filter(|file| !mutants.iter().any(|mutant| mutant.file == **file)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn a_mutant_that_is_not_noticed_is_reported() {
    let sources = Sources::read();
    let mutant = Mutant {
        file: "unary.cu".to_owned(),
        edits: vec![edit("a", "b")],
        tests: vec!["unary::silu_of_every_size"],
        noticed: Noticed::ByEmulator,
    };
    let outcome = |passed: bool, output: &str| Outcome { passed, output: output.to_owned() };
    let complaint =
        |noticed, outcome: Outcome| complaint(&Mutant { noticed, ..mutant.clone() }, &outcome, &sources);
    let said = "kernel silu_f32: silu_f32: block (0,0,0): out-of-bounds write at unary.cu:18";
    assert!(complaint(Noticed::ByEmulator, outcome(true, said)).is_some());
    assert!(complaint(Noticed::ByEmulator, outcome(false, said)).is_none());
    assert!(complaint(Noticed::ByEmulator, outcome(false, "silu_f32: block (0,0,0), no line")).is_some());
    assert!(complaint(Noticed::ByEmulator, outcome(false, "fold_f32: block (0,0,0), fold.cu:18")).is_some());
    assert!(complaint(Noticed::ByValues("silu"), outcome(false, "silu of 3: 1 at 0")).is_none());
    assert!(complaint(Noticed::ByValues("silu"), outcome(false, "sigmoid of 3: 1 at 0")).is_some());
    assert!(complaint(Noticed::ByValues("silu"), outcome(false, said)).is_some());
}
