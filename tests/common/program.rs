//! The committed dumps with their models, the check of one in this process, and the program itself.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use lockstep::dump::Dump;
use lockstep::engine::{Conventions, cpu::CpuEngine};
use lockstep::gguf::sha256;
use lockstep::harness::{Case, Check, HarnessError, ModelRecipe, check};
use lockstep::model::Model;
use lockstep::ops::Real;

/// A committed dump: a case and one of its files.
#[derive(Clone, Copy)]
pub struct Reference {
    pub case: &'static str,
    pub file: &'static str,
}

pub const MICRO_NODES: Reference = Reference { case: "micro-bonsai", file: "nodes-5.npz" };
/// Captured with a filter.
pub const MICRO_PROMPT: Reference = Reference { case: "micro-bonsai", file: "prompt-130.npz" };
pub const MINI_TOKEN: Reference = Reference { case: "mini-bonsai", file: "token-1.npz" };
pub const MINI_PROMPT: Reference = Reference { case: "mini-bonsai", file: "prompt-7-decode-4.npz" };
/// A model of ten weight types, not folded: llama.cpp ran it as it is.
pub const NANO_PROMPT: Reference = Reference { case: "nano-mixed-prompt", file: "prompt-2.npz" };

impl Reference {
    pub fn path(self) -> PathBuf {
        case_folder(self.case).join(self.file)
    }

    pub fn open(self) -> Dump {
        Dump::open(&self.path()).unwrap()
    }

    /// The model that it is checked with.
    pub fn built(self) -> &'static Built {
        static MICRO: OnceLock<Built> = OnceLock::new();
        static MINI: OnceLock<Built> = OnceLock::new();
        static NANO: OnceLock<Built> = OnceLock::new();
        let slot = match self.case {
            "micro-bonsai" => &MICRO,
            "mini-bonsai" => &MINI,
            "nano-mixed-prompt" => &NANO,
            other => panic!("{other} has no slot here"),
        };
        slot.get_or_init(|| {
            let case = Case::open(&case_folder(self.case)).unwrap();
            let path = case.build_model(&cache(), &mut |_, _| {}).unwrap();
            Built { model: Model::open(&path).unwrap(), sha256: sha256(&path).unwrap(), path }
        })
    }
}

/// A model made from its recipe.
pub struct Built {
    pub path: PathBuf,
    pub model: Model,
    pub sha256: String,
}

pub fn case_folder(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("reference-dumps").join(case)
}

/// The user's cache, where fetched weights lie.
fn user_cache() -> PathBuf {
    let named = env::var_os("LOCKSTEP_CACHE").filter(|cache| !cache.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/lockstep"))
}

/// The file that llama.cpp ran for a case; none, said on stderr, for weights that were not fetched. `.ci/run` fetches them and
/// replays these cases, so that they cannot be absent everywhere.
#[allow(clippy::print_stderr)]
pub fn model_of_case(name: &str) -> Option<PathBuf> {
    let case = Case::open(&case_folder(name)).unwrap();
    let cache = match case.model {
        ModelRecipe::Fetched { .. } => user_cache(),
        _ => cache(),
    };
    match case.build_twin(&cache, &mut |_, _| {}) {
        Ok(path) => Some(path),
        Err(absent @ HarnessError::NotFetched { .. }) => {
            eprintln!("SKIPPED {name}: {absent}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Where models are kept between tests, apart from the user's own.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("lockstep-cache")
}

/// Checks in this process, in arithmetic `T`.
pub fn check_in_process<T: Real>(
    built: &Built,
    dump: &Dump,
    conventions: Conventions,
) -> Result<Check, HarnessError> {
    let n_ctx = dump.manifest().run.n_ctx as usize;
    let mut engine = CpuEngine::<T>::new(&built.model, conventions, n_ctx)?;
    check(&mut engine, &built.sha256, dump, &mut |_, _| {})
}

/// What the program printed and returned.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program.
pub fn lockstep<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    let output = command.args(args).env("LOCKSTEP_CACHE", cache()).output().unwrap();
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// `lockstep check --model M --dump D`.
pub fn check_files(model: &Path, dump: &Path) -> Outcome {
    let (check, m, d) = (OsStr::new("check"), OsStr::new("--model"), OsStr::new("--dump"));
    lockstep([check, m, model.as_os_str(), d, dump.as_os_str()])
}

impl Outcome {
    /// The last line of the result.
    pub fn last_line(&self) -> &str {
        self.stdout.lines().next_back().unwrap_or_default()
    }

    /// Asserts that a difference was found (exit code 1) and that the result says each of `words`.
    #[track_caller]
    pub fn assert_differs(&self, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(words.iter().all(|word| self.stdout.contains(word)), "expected {words:?} in {self:?}");
    }

    /// Asserts that it could not run (exit code 2), that stdout claims nothing, and that stderr says each of `words`.
    #[track_caller]
    pub fn assert_refused(&self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert!(words.iter().all(|word| self.stderr.contains(word)), "expected {words:?} in {self:?}");
    }
}
