//! The dumps of a folder, replayed with other oracles.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use lockstep::dump::Dump;
use lockstep::gguf::{Gguf, sha256};
use lockstep::ops::exact::Oracles;
use lockstep::replay::{Arithmetic, NodeResult, Outcome, Walk};

/// A model and its dump.
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) dump: Dump,
    gguf: Gguf,
    sha256: String,
}

/// Every dump below the folder that LOCKSTEP_ZOO names.
pub(crate) fn all() -> Vec<PathBuf> {
    let folder = env::var_os("LOCKSTEP_ZOO").expect("LOCKSTEP_ZOO names the folder of scripts/zoo.sh --keep");
    let mut dumps = Vec::new();
    for setting in fs::read_dir(&folder).expect("the folder of LOCKSTEP_ZOO") {
        let files = fs::read_dir(setting.unwrap().path()).unwrap().map(|file| file.unwrap().path());
        dumps.extend(files.filter(|path| path.extension().is_some_and(|end| end == "npz")));
    }
    dumps.sort();
    assert!(!dumps.is_empty(), "no dump in {}", Path::new(&folder).display());
    dumps
}

impl Pair {
    pub(crate) fn open(path: &Path) -> Pair {
        let model = path.with_extension("gguf");
        let setting = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = format!("{} {}", setting.to_string_lossy(), path.file_stem().unwrap().to_string_lossy());
        let sha256 = sha256(&model).unwrap();
        Pair { name, dump: Dump::open(path).unwrap(), gguf: Gguf::open(&model).unwrap(), sha256 }
    }

    /// The same model with another dump.
    pub(crate) fn with_dump(&self, path: &Path) -> Pair {
        let Pair { name, sha256, .. } = self;
        let gguf = Gguf::open(self.gguf.path()).unwrap();
        Pair { name: name.clone(), dump: Dump::open(path).unwrap(), gguf, sha256: sha256.clone() }
    }

    /// The operators of the nodes that are computed, each with its nodes.
    pub(crate) fn operators(&self) -> BTreeMap<String, usize> {
        let mut operators = BTreeMap::new();
        for node in self.dump.nodes().iter().filter(|node| !node.is_pure_view() && !node.ne.contains(&0)) {
            *operators.entry(named(&node.op, node.variant.as_deref())).or_default() += 1;
        }
        operators
    }

    /// Every node, replayed with these oracles.
    pub(crate) fn replay(&self, oracles: &'static Oracles) -> Vec<NodeResult> {
        let walk = Walk::new(Arithmetic::default(), &self.gguf, &self.sha256, &self.dump).unwrap();
        let mut walk = walk.with_oracles(oracles);
        let mut results = Vec::new();
        while let Some(judged) = walk.step().unwrap() {
            results.extend(judged.into_iter().map(|judged| judged.result));
        }
        results
    }
}

/// An operator with its variant, as results name it.
pub(crate) fn named(op: &str, variant: Option<&str>) -> String {
    variant.map_or(op.to_owned(), |variant| format!("{op} {variant}"))
}

/// How many nodes of each operator are not within their budgets.
pub(crate) fn red(results: &[NodeResult]) -> BTreeMap<String, usize> {
    let mut red = BTreeMap::new();
    for result in results.iter().filter(|result| result.outcome != Outcome::Within) {
        *red.entry(result.op.clone()).or_default() += 1;
    }
    red
}
