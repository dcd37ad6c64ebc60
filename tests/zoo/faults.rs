//! A mistake planted in the oracle of one operator.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lockstep::ops::exact::{Exact, Invocation, ORACLES, Oracle, OracleError, Oracles, Rounding, Setting};
use rayon::prelude::*;
use serde_json::Value;

use crate::dumps::{Pair, all, named, red};

/// An oracle that is wrong for some operators.
struct Wrong {
    right: &'static dyn Oracle,
    is_wrong: fn(&str, &BTreeSet<String>) -> bool,
    names: Arc<BTreeSet<String>>,
}

impl Oracle for Wrong {
    fn ops(&self) -> &'static [&'static str] {
        self.right.ops()
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        Ok(self.planted(node, self.right.exact(node)?))
    }

    fn roundings(&self, node: &Invocation<'_>, setting: &Setting) -> Vec<Rounding> {
        self.right.roundings(node, setting)
    }

    fn exact_with(&self, node: &Invocation<'_>, rounding: Rounding) -> Result<Exact, OracleError> {
        Ok(self.planted(node, self.right.exact_with(node, rounding)?))
    }
}

impl Wrong {
    fn planted(&self, node: &Invocation<'_>, exact: Exact) -> Exact {
        let name = named(node.op, node.variant);
        if (self.is_wrong)(&name, &self.names) { planted(exact) } else { exact }
    }
}

/// Numbers are off by a hundredth; indices and other whole numbers by one, as less could be lost in an integer; and where all is
/// masked, nothing is.
fn planted(exact: Exact) -> Exact {
    let mut exact = exact;
    exact.choice = None;
    // A mask is not infinite everywhere, but large.
    let is_mask = |value: &f64| value.abs() > 1e6;
    let is_whole = exact.values.iter().all(|value| value.fract() == 0.0 || is_mask(value));
    let is_masked = exact.values.iter().all(is_mask);
    for value in &mut exact.values {
        *value = match () {
            () if is_masked => 0.0,
            () if is_whole => *value + 1.0,
            () => *value * 1.01,
        };
    }
    exact
}

/// All oracles, wrong for the operators that a rule says of these names.
fn wrong<'a>(
    names: impl IntoIterator<Item = &'a str>,
    is_wrong: fn(&str, &BTreeSet<String>) -> bool,
) -> &'static Oracles {
    let names: Arc<BTreeSet<String>> = Arc::new(names.into_iter().map(str::to_owned).collect());
    let wrong = |&(name, right): &(&'static str, &'static dyn Oracle)| {
        let own: &'static dyn Oracle = Box::leak(Box::new(Wrong { right, is_wrong, names: names.clone() }));
        (name, own)
    };
    Box::leak(ORACLES.iter().map(wrong).collect::<Vec<_>>().into_boxed_slice())
}

fn is_one(name: &str, names: &BTreeSet<String>) -> bool {
    names.contains(name)
}

fn is_another(name: &str, names: &BTreeSet<String>) -> bool {
    !names.contains(name)
}

#[test]
#[ignore = "needs the models of scripts/zoo.sh"]
fn a_mistake_in_an_operator_turns_exactly_its_nodes_red() {
    let found: Vec<BTreeSet<String>> = all()
        .par_iter()
        .map(|path| {
            let pair = Pair::open(path);
            let operators = pair.operators();
            assert!(red(&pair.replay(ORACLES)).is_empty(), "{}: red without a mistake", pair.name);
            for (op, nodes) in &operators {
                let expected = [(op.clone(), *nodes)].into();
                let results = pair.replay(wrong([&op[..]], is_one));
                assert_eq!(red(&results), expected, "{}: a mistake in {op}", pair.name);
            }
            operators.into_keys().collect()
        })
        .collect();
    let seen: BTreeSet<String> = found.into_iter().flatten().collect();
    assert_eq!(seen, measured(), "the operators of the zoo");
}

#[test]
#[ignore = "needs the models of scripts/zoo.sh"]
fn a_mistake_in_what_a_model_has_not_is_not_seen() {
    all().par_iter().for_each(|path| {
        let pair = Pair::open(path);
        let operators = pair.operators();
        let others = wrong(operators.keys().map(String::as_str), is_another);
        assert!(red(&pair.replay(others)).is_empty(), "{}: red by an operator that it has not", pair.name);
        let everywhere = wrong([], is_another);
        assert_eq!(red(&pair.replay(everywhere)), operators, "{}: a mistake everywhere", pair.name);
    });
}

/// The operators of all models, as they were found.
fn measured() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/measured/zoo.json");
    let zoo: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let models = zoo["sets"]["exact"]["models"].as_object().unwrap().values();
    models.flat_map(|operators| operators.as_object().unwrap().keys().cloned()).collect()
}
