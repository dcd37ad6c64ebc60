//! Data flows one way: each module imports only those that the order of the layers allows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Every module of the crate in order, with what it may import. `tensor` holds the words that all of them share.
const LAYERS: &[(&str, &[&str])] = &[
    ("tensor", &[]),
    ("quant", &["tensor"]),
    ("gguf", &["tensor", "quant"]),
    ("arithmetic", &["tensor", "quant"]),
    ("ops", &["tensor", "quant", "arithmetic"]),
    ("dump", &["tensor", "gguf"]),
    ("model", &["tensor", "quant", "gguf", "ops"]),
    ("synth", &["tensor", "quant", "gguf", "ops", "model"]),
    ("engine", &["tensor", "quant", "arithmetic", "ops", "model"]),
    ("bench", &["tensor", "model", "synth", "engine"]),
    ("compare", &["tensor"]),
    ("replay", &["tensor", "quant", "arithmetic", "ops", "dump", "compare", "gguf"]),
    ("harness", &["tensor", "gguf", "dump", "model", "synth", "engine", "compare", "replay"]),
    ("question", &["tensor", "quant", "ops", "dump", "model", "compare", "harness"]),
    ("report", &["tensor", "arithmetic", "bench", "compare", "replay", "harness", "question"]),
    (
        "cli",
        &[
            "tensor",
            "quant",
            "gguf",
            "arithmetic",
            "ops",
            "dump",
            "model",
            "synth",
            "engine",
            "bench",
            "compare",
            "replay",
            "harness",
            "question",
            "report",
        ],
    ),
];

fn allowed(module: &str) -> Option<&'static [&'static str]> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, imports)| *imports)
}

/// Why a source file may not stand where it does; `path` is relative to `src`, with `/`.
fn problems(path: &str, source: &str) -> Vec<String> {
    let mut parts: Vec<&str> = path.strip_suffix(".rs").expect("a source file").split('/').collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    let module = parts[0];
    let Some(allowed) = allowed(module) else {
        return vec![format!("{path}: module `{module}` is not in the list of layers")];
    };
    let code = without_comments_and_strings(source);
    let mut imports = paths_behind(&code, "crate");
    imports.extend(paths_behind(&code, "lockstep"));
    // `super` once for each folder leads to the root too. In a module inside the file it takes one more, so that a
    // name that is no layer may be one of this module's own.
    let root = vec!["super"; parts.len()].join("::");
    imports.extend(paths_behind(&code, &root).into_iter().filter(|name| self::allowed(name).is_some()));
    imports
        .into_iter()
        .filter(|import| import != module && !allowed.contains(&import.as_str()))
        .map(|import| match self::allowed(&import) {
            Some(_) => format!("{path}: `{module}` must not import `{import}`"),
            None => format!("{path}: imports `{import}`, which is no module of the crate"),
        })
        .collect()
}

/// The first name of every path behind `root::`, groups in braces included.
fn paths_behind(code: &str, root: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(root) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "_:$".contains(c)) {
            continue;
        }
        let Some(rest) = code[at + root.len()..].trim_start().strip_prefix("::") else { continue };
        match rest.trim_start().strip_prefix('{') {
            None => drop(names.insert(first_name(rest))),
            Some(group) => names.extend(group_members(group).iter().map(|member| first_name(member))),
        }
    }
    names.remove("self");
    names.remove(""); // a trailing comma
    names
}

/// The members of a group, up to its closing brace.
fn group_members(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut members) = (0, 0, Vec::new());
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&group[start..i]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    members
}

fn first_name(path: &str) -> String {
    let path = path.trim_start();
    if path.starts_with('*') {
        return "*".to_owned();
    }
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Blanks comments and string literals, in which paths are words only.
fn without_comments_and_strings(source: &str) -> String {
    let (mut code, mut rest) = (String::new(), source);
    while let Some(c) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find("'").map_or(1, |end| end + 2)
        } else if c == '"' {
            string_length(rest)
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skip..];
    }
    code
}

/// Bytes of the string literal in front, quotes included.
fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    rest.len()
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file of a module: path from `src` to text.
fn sources() -> BTreeMap<String, String> {
    fn walk(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() {
                walk(&path, &format!("{name}/"), found);
            } else if name.ends_with(".rs") && name != "lib.rs" && name != "main.rs" {
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&src(), "", &mut found);
    found
}

#[test]
fn every_import_points_upwards() {
    let sources = sources();
    assert!(sources.len() > 100, "{} files", sources.len());
    let found: Vec<String> = sources.iter().flat_map(|(path, source)| problems(path, source)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn the_crate_declares_its_modules_in_this_order() {
    let root = fs::read_to_string(src().join("lib.rs")).unwrap();
    let declared: Vec<&str> =
        root.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let private = root.lines().filter(|l| l.trim_start().starts_with("mod ")).count();
    assert_eq!(private, 0, "a module outside the order");
    let expected: Vec<&str> =
        LAYERS.iter().map(|(name, _)| *name).filter(|name| declared.contains(name)).collect();
    assert_eq!(declared, expected);
    // and the binary only starts the command line
    assert_eq!(
        paths_behind(&fs::read_to_string(src().join("main.rs")).unwrap(), "lockstep")
            .into_iter()
            .collect::<Vec<_>>(),
        ["cli"]
    );
}

#[test]
fn the_list_itself_points_upwards() {
    for (i, (module, imports)) in LAYERS.iter().enumerate() {
        for import in *imports {
            assert!(LAYERS[..i].iter().any(|(above, _)| above == import), "{module} imports {import}");
        }
    }
}

#[test]
fn a_planted_import_is_found() {
    let finds = |path: &str, source: &str| problems(path, source).len();
    for (path, source) in [
        ("tensor/id.rs", "use crate::gguf::Gguf;"),
        ("ops/norm.rs", "    let x = crate::model::Model::open(path);"),
        ("ops/norm.rs", "#[cfg(test)]\nmod tests {\n    use crate::engine::Engine;\n}"),
        ("compare/mod.rs", "pub use crate::report::Report;"),
        ("compare/mod.rs", "use crate::{\n    tensor::TensorId,\n    dump::{self, Dump},\n};"),
        ("compare/mod.rs", "use super::engine;"),
        ("compare/mod.rs", "use crate :: engine;"),
        ("compare/metrics.rs", "use super::super::engine::Engine;"),
        ("dump/tests/values.rs", "use super::super::super::engine::Engine;"),
        ("dump.rs", "use super::engine::Engine;"),
        ("engine/cpu/mod.rs", "use crate::harness::ubatches;"),
        ("gguf/reader.rs", "type T = Vec<crate::model::Hparams>;"),
        ("gguf/reader.rs", "let quoted = '\"'; use crate::model; let other = \"\";"),
        ("gguf/reader.rs", "use lockstep::model::Model;"),
        // a root that no layer is
        ("compare/mod.rs", "use crate::helpers::clamp;"),
        ("compare/mod.rs", "use crate::*;"),
        ("helpers/mod.rs", ""),
        ("helpers.rs", "pub fn clamp() {}"),
    ] {
        assert_eq!(finds(path, source), 1, "{path}: {source}");
    }
    assert_eq!(finds("tensor/id.rs", "use crate::{gguf, ops};"), 2);
}

#[test]
fn what_is_no_import_is_passed_over() {
    for (path, source) in [
        ("compare/mod.rs", "use crate::tensor::{TensorId, Values};"),
        ("compare/mod.rs", "use crate::compare::verdict;\nuse self::engine::X;"),
        ("compare/mod.rs", "//! See [`crate::report`].\n/* crate::engine */\nlet x = \"crate::engine\";"),
        ("compare/mod.rs", "let x = \"\\\"crate::engine\"; use ::engine::x; use other_crate::engine;"),
        ("dump/tests/values.rs", "use super::super::sample::embd;"),
        ("cli/check.rs", "use crate::{harness::check, report::{self, Report}};"),
    ] {
        assert_eq!(problems(path, source), [""; 0], "{path}: {source}");
    }
}
