//! Nothing is forgotten: each folder of alike members agrees with the table that lists them, and each has a recipe.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A folder of members, one per file, and the table in its `mod.rs`.
///
/// A file is a *member* if its stem is in the table. Another file may only be a *helper*: it must not look like a
/// member, and a member, or a helper of one, must use it.
struct Registry {
    folder: &'static str,
    /// Stems of the members, from the table.
    table: Vec<String>,
    /// Whether a file does what members do, by its text.
    looks_like_member: fn(&str) -> bool,
}

fn implements_format(source: &str) -> bool {
    source.lines().any(|line| line.starts_with("impl Format for "))
}

/// Its doc begins with the operator's name in ggml's capitals: `//! MUL_MAT: ..`
fn is_headed_by_an_operator(source: &str) -> bool {
    let first =
        source.strip_prefix("//! ").and_then(|doc| doc.split([' ', ':', ',']).next()).unwrap_or_default();
    first.len() > 1 && first.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn implements_oracle(source: &str) -> bool {
    source.lines().any(|line| line.starts_with("impl Oracle for "))
}

fn has_a_question(source: &str) -> bool {
    source.contains(" const QUESTION: Question")
}

fn implements_shape(source: &str) -> bool {
    source.lines().any(|line| line.starts_with("impl Shape for "))
}

fn has_args_and_run(source: &str) -> bool {
    source.contains("struct Args") && source.contains("fn run(")
}

fn registries() -> Vec<Registry> {
    let stem = |name: &str| name.to_lowercase();
    vec![
        Registry {
            folder: "quant",
            table: lockstep::quant::FORMATS.iter().map(|format| stem(format.ty().name())).collect(),
            looks_like_member: implements_format,
        },
        Registry {
            folder: "ops",
            table: lockstep::ops::OPS.iter().map(|(name, _)| stem(name)).collect(),
            looks_like_member: is_headed_by_an_operator,
        },
        Registry {
            folder: "ops/exact",
            table: lockstep::ops::exact::ORACLES.iter().map(|(name, _)| stem(name)).collect(),
            looks_like_member: implements_oracle,
        },
        Registry {
            folder: "question",
            table: lockstep::question::QUESTIONS.iter().map(|question| stem(question.name)).collect(),
            looks_like_member: has_a_question,
        },
        Registry {
            folder: "compare/diagnose",
            table: lockstep::compare::SHAPES.iter().map(|shape| shape.name().to_owned()).collect(),
            looks_like_member: implements_shape,
        },
        Registry {
            folder: "report",
            table: lockstep::report::FORMATS.iter().map(|format| stem(format.name())).collect(),
            looks_like_member: implements_format,
        },
        Registry {
            folder: "cli",
            table: commands(&read(Path::new("src/cli/mod.rs"))),
            looks_like_member: has_args_and_run,
        },
    ]
}

/// The modules in the table of subcommands, which is a macro: lines `Variant module`.
fn commands(root: &str) -> Vec<String> {
    let (_, table) = root.split_once("\ncommands! {").expect("the table of subcommands");
    let (table, _) = table.split_once("\n}").expect("its end");
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(|line| line.split_whitespace().nth(1).expect("variant and module").to_owned()).collect()
}

/// What `mod.rs` re-exports of a file: `pub use norm::{l2_norm, rms_norm};`
fn reexports(root: &str, stem: &str) -> Vec<String> {
    let names = |rest: &str| -> Vec<String> {
        let list = rest.trim_start_matches('{').split([';', '}']).next().unwrap_or_default().to_owned();
        list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    };
    let prefixes = [format!("pub use {stem}::"), format!("pub(super) use {stem}::")];
    root.split_inclusive(';')
        .filter_map(|item| prefixes.iter().find_map(|prefix| Some(item.split_once(prefix.as_str())?.1)))
        .flat_map(names)
        .collect()
}

/// The words of a text.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

/// Whether `source` imports the sibling, or something that `mod.rs` re-exports of it.
fn uses(source: &str, stem: &str, root: &str) -> bool {
    let mut offered = reexports(root, stem);
    offered.push(stem.to_owned());
    // items end with a semicolon and may span lines
    let imports = source.split(';').filter_map(|item| Some(item.rsplit_once("use super::")?.1));
    imports.into_iter().any(|import| offered.iter().any(|name| words(import).contains(name.as_str())))
}

/// Whether `mod.rs` declares the file for tests alone: it is neither a member nor a helper of one.
fn is_compiled_for_tests_only(root: &str, stem: &str) -> bool {
    root.contains(&format!("#[cfg(test)]\nmod {stem};\n"))
}

/// What is wrong with a folder: `files` are its sources by stem, `mod` included.
fn problems(registry: &Registry, files: &BTreeMap<String, String>) -> Vec<String> {
    let Registry { folder, table, looks_like_member } = registry;
    let root = &files["mod"];
    let members: BTreeSet<&str> = table.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    if members.len() != table.len() {
        found.push(format!("{folder}: the table names a member twice"));
    }
    for member in members.iter().filter(|member| !files.contains_key(**member)) {
        found.push(format!("{folder}/{member}.rs is in the table and not in the folder"));
    }
    // members, then their helpers, then theirs
    let mut reached = members.clone();
    while let Some(next) = files.keys().find(|stem| {
        !reached.contains(stem.as_str())
            && reached.iter().any(|user| files.get(*user).is_some_and(|s| uses(s, stem, root)))
    }) {
        reached.insert(next);
    }
    for (stem, source) in files.iter().filter(|(stem, _)| *stem != "mod") {
        let is_member = members.contains(stem.as_str());
        let looks_like_member = looks_like_member(source);
        if is_member && !looks_like_member {
            found.push(format!("{folder}/{stem}.rs is in the table and does not do what a member does"));
        } else if !is_member && looks_like_member {
            found.push(format!("{folder}/{stem}.rs is not in the table"));
        } else if !reached.contains(stem.as_str()) && !is_compiled_for_tests_only(root, stem) {
            found.push(format!("{folder}/{stem}.rs is neither in the table nor used by a member"));
        }
        if !root.lines().any(|line| line.trim_start_matches("pub ").trim_end() == format!("mod {stem};")) {
            found.push(format!("{folder}/{stem}.rs is not a module of the folder"));
        }
    }
    found
}

fn read(path: &Path) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The sources of a folder by stem; a folder inside is one source, all files together, or a registry of its own.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if registries().iter().any(|registry| folder.join(&stem) == Path::new("src").join(registry.folder)) {
            continue;
        }
        let source = if path.is_dir() {
            files(&folder.join(&stem)).into_values().collect::<Vec<_>>().join("\n")
        } else {
            read(&path)
        };
        assert!(found.insert(stem, source).is_none(), "{}: a file and a folder", path.display());
    }
    found
}

#[test]
fn every_folder_agrees_with_its_table() {
    for registry in registries() {
        assert!(registry.table.len() >= 3, "{}: {:?}", registry.folder, registry.table);
        let found = problems(&registry, &files(&Path::new("src").join(registry.folder)));
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }
}

/// The problems of a folder with one change.
fn planted(folder: &str, change: impl FnOnce(&mut Registry, &mut BTreeMap<String, String>)) -> Vec<String> {
    let mut registry = registries().into_iter().find(|registry| registry.folder == folder).unwrap();
    let mut files = files(&Path::new("src").join(folder));
    change(&mut registry, &mut files);
    problems(&registry, &files)
}

fn add(files: &mut BTreeMap<String, String>, stem: &str, source: &str) {
    files.insert(stem.to_owned(), source.to_owned());
    files.get_mut("mod").unwrap().push_str(&format!("\nmod {stem};\n"));
}

#[test]
fn a_file_that_is_not_in_the_table_is_found() {
    for (folder, source) in [
        ("quant", "pub(super) struct New;\nimpl Format for New {\n}"),
        ("compare/diagnose", "pub(super) struct New;\nimpl Shape for New {\n}"),
        ("report", "pub(super) struct New;\nimpl Format for New {\n}"),
        ("ops", "//! NEW_OP: `y = x`\npub fn new_op() {}"),
        ("ops/exact", "pub(super) struct New;\nimpl Oracle for New {\n}"),
        ("question", "pub(super) const QUESTION: Question = Question {};"),
        ("cli", "pub(super) struct Args {}\npub(super) fn run(args: Args) -> Result<ExitCode> {}"),
    ] {
        let found = planted(folder, |_, files| add(files, "new", source));
        assert_eq!(found, [format!("{folder}/new.rs is not in the table")]);
    }
}

#[test]
fn a_file_that_nobody_uses_is_found() {
    for registry in registries() {
        let folder = registry.folder;
        let found = planted(folder, |_, files| add(files, "new", "// the word new is used by nobody"));
        assert_eq!(found, [format!("{folder}/new.rs is neither in the table nor used by a member")]);
    }
    // nor one that only another of the kind uses
    let found = planted("quant", |_, files| {
        add(files, "new", "use super::newer;");
        add(files, "newer", "use super::new;");
    });
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_member_without_a_file_is_found() {
    for registry in registries() {
        let folder = registry.folder;
        let found = planted(folder, |registry, _| registry.table.push("absent".to_owned()));
        assert_eq!(found, [format!("{folder}/absent.rs is in the table and not in the folder")]);
    }
}

#[test]
fn a_helper_in_the_table_is_found() {
    let found = planted("quant", |registry, _| registry.table.push("two_bit".to_owned()));
    assert_eq!(found, ["quant/two_bit.rs is in the table and does not do what a member does"]);
    let found = planted("ops", |registry, _| registry.table.push("number".to_owned()));
    assert_eq!(found, ["ops/number.rs is in the table and does not do what a member does"]);
}

#[test]
fn a_member_that_is_taken_from_the_table_is_found() {
    for registry in registries() {
        let folder = registry.folder;
        for i in 0..registry.table.len() {
            let mut gone = String::new();
            let found = planted(folder, |registry, _| gone = registry.table.remove(i));
            let expected = format!("{folder}/{gone}.rs is not in the table");
            assert!(found.contains(&expected), "{folder} without {gone}: {found:?}");
        }
    }
}

#[test]
fn a_file_that_is_not_compiled_is_found() {
    let found = planted("quant", |_, files| {
        let root = files.get_mut("mod").unwrap();
        *root = root.replace("mod q8_0;", "");
    });
    assert_eq!(found, ["quant/q8_0.rs is not a module of the folder"]);
}

#[test]
fn helpers_are_told_apart() {
    for (folder, expected) in [
        (
            "quant",
            &[
                "blocks",
                "codes",
                "e2m1",
                "five_bit",
                "integers",
                "lattice",
                "six_bit_scales",
                "super_block",
                "tables",
                "trits",
                "two_bit",
            ][..],
        ),
        ("ops", &["number"]),
        (
            "ops/exact",
            &[
                "activation",
                "attention",
                "choice",
                "f16_accumulator",
                "flash_in_ggml",
                "matrices",
                "operand",
                "rope_angles",
                "rounding",
                "roundings",
                "sinkhorn",
            ],
        ),
        ("question", &["asking"]),
        ("compare/diagnose", &["axis", "nearest", "noise_tests", "pair", "regular", "tests", "wrong_parts"]),
        ("report", &["words"]),
        ("cli", &["cache", "conventions", "engine", "header", "output", "probe", "progress", "subject"]),
    ] {
        let registry = registries().into_iter().find(|registry| registry.folder == folder).unwrap();
        let files = files(&Path::new("src").join(folder));
        let helpers = files.keys().filter(|stem| *stem != "mod" && !registry.table.contains(*stem));
        assert_eq!(helpers.collect::<Vec<_>>(), expected, "{folder}");
    }
}

#[test]
fn every_question_says_what_it_must_in_few_lines() {
    const PARTS: [&str; 5] =
        ["What is unknown:", "Why it matters:", "Candidates", "Evidence:", "What cannot tell them apart:"];
    for question in lockstep::question::QUESTIONS {
        let source = read(&Path::new("src/question").join(format!("{}.rs", question.name)));
        let doc: Vec<&str> =
            source.lines().map_while(|line| line.strip_prefix("//! ").or(line.strip_prefix("//!"))).collect();
        let plain = |text: &str| text.replace('`', "");
        let head = format!("{}: {}", question.name, question.asks);
        assert_eq!(plain(doc[0]), plain(&head), "the first line of the doc");
        let at: Vec<usize> = PARTS
            .iter()
            .map(|part| {
                let found = doc.iter().position(|line| line.starts_with(part));
                found.unwrap_or_else(|| panic!("{}: no line begins with `{part}`", question.name))
            })
            .collect();
        assert!(at.is_sorted(), "{}: the parts of the doc are in another order", question.name);
        let lines = source.split("#[cfg(test)]").next().unwrap_or_default().lines().count();
        assert!(lines <= 60, "{}: {lines} lines", question.name);
        for candidate in question.candidates {
            let is_named = doc.iter().any(|line| line.contains(&format!("`{}`", candidate.name)));
            assert!(
                is_named || doc.iter().any(|line| line.contains(candidate.name)),
                "{}: {}",
                question.name,
                candidate.name
            );
        }
    }
}

/// Kernel files, headers, launchers and tests of kernels, each by stem, and the table of `launch/mod.rs`.
#[derive(Clone)]
struct Kernels {
    table: Vec<String>,
    kernels: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    launchers: BTreeMap<String, String>,
    tests: BTreeMap<String, String>,
}

/// Files of a folder with one extension, by stem.
fn with_extension(folder: &str, extension: &str) -> BTreeMap<String, String> {
    let paths = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    files.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), read(&path))).collect()
}

impl Kernels {
    fn read() -> Kernels {
        Kernels {
            table: lockstep::engine::gpu::launch::KERNELS.iter().map(|&stem| stem.to_owned()).collect(),
            kernels: with_extension("kernels", "cu"),
            headers: with_extension("kernels", "cuh"),
            launchers: with_extension("src/engine/gpu/launch", "rs"),
            tests: with_extension("tests/kernels", "rs"),
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut found = self.files_that_do_not_match();
        for (stem, text) in &self.kernels {
            for name in kernel_names(text) {
                let quoted = format!("\"{name}\"");
                if !self.launchers.get(stem).is_none_or(|launcher| launcher.contains(&quoted)) {
                    found.push(format!("launch/{stem}.rs does not launch {name}"));
                }
                let others =
                    self.launchers.iter().filter(|(other, text)| *other != stem && text.contains(&quoted));
                found.extend(
                    others.map(|(other, _)| format!("launch/{other}.rs launches {name} of {stem}.cu")),
                );
            }
            for line in ["grid", "oracle"].into_iter().filter(|line| !contract_has(text, line)) {
                found.push(format!("kernels/{stem}.cu: its contract has no line `{line}`"));
            }
        }
        let mut reached: BTreeSet<String> = self.kernels.values().flat_map(|text| included(text)).collect();
        while let Some(next) = reached
            .iter()
            .flat_map(|stem| self.headers.get(stem).map_or_else(Vec::new, |text| included(text)))
            .find(|stem| !reached.contains(stem))
        {
            reached.insert(next);
        }
        let unused = self.headers.keys().filter(|stem| !reached.contains(*stem));
        found.extend(unused.map(|stem| format!("kernels/{stem}.cuh is included by no kernel")));
        found
    }

    fn files_that_do_not_match(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !self.table.is_sorted_by(|a, b| a < b) {
            found.push("KERNELS is not sorted, or names a file twice".to_owned());
        }
        let folders = [
            ("kernels", "cu", &self.kernels),
            ("launch", "rs", &self.launchers),
            ("tests/kernels", "rs", &self.tests),
        ];
        for (folder, extension, files) in folders {
            let absent = self.table.iter().filter(|stem| !files.contains_key(*stem));
            found.extend(absent.map(|stem| format!("{folder}/{stem}.{extension} is missing")));
        }
        let others = |files: &BTreeMap<String, String>, root: &str| -> Vec<String> {
            files.keys().filter(|stem| *stem != root && !self.table.contains(stem)).cloned().collect()
        };
        found.extend(
            others(&self.kernels, "").iter().map(|stem| format!("kernels/{stem}.cu is not in KERNELS")),
        );
        found.extend(
            others(&self.launchers, "mod").iter().map(|stem| format!("launch/{stem}.rs is not in KERNELS")),
        );
        // What tests share
        for stem in others(&self.tests, "main") {
            let import = format!("use crate::{stem}::");
            if !self.tests.iter().any(|(user, text)| *user != stem && text.contains(&import)) {
                found.push(format!("tests/kernels/{stem}.rs is neither in KERNELS nor used by a test"));
            }
        }
        for (folder, files, root) in
            [("launch", &self.launchers, "mod"), ("tests/kernels", &self.tests, "main")]
        {
            let is_compiled = |stem: &str| files[root].lines().any(|line| line == format!("mod {stem};"));
            let stems = files.keys().filter(|stem| *stem != root && !is_compiled(stem));
            found.extend(stems.map(|stem| format!("{folder}/{stem}.rs is not a module of the folder")));
        }
        found
    }
}

/// Names of the `extern "C"` kernels of a file.
fn kernel_names(text: &str) -> Vec<String> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let heads = code.join(" ");
    let heads = heads.split("extern \"C\" __global__ void").skip(1);
    let name = |head: &str| {
        let head = head.trim_start();
        let behind = head
            .strip_prefix("__launch_bounds__(")
            .map_or(head, |rest| rest.split_once(')').expect("its end").1);
        behind.split('(').next().unwrap_or_default().trim().to_owned()
    };
    heads.map(name).collect()
}

/// Whether the comment at the head of a kernel file has a line for it, alone or in a list: `grid  ..`, `signs, grid  as fold.cu`.
fn contract_has(text: &str, name: &str) -> bool {
    let head = text.lines().map_while(|line| line.strip_prefix("//"));
    head.into_iter().any(|line| {
        let items: Vec<&str> = line.trim().split(", ").collect();
        // The list ends where one of its names has something behind it.
        let n = items.iter().position(|item| item.contains(' ')).map_or(items.len(), |last| last + 1);
        items[..n].iter().any(|item| item.split(' ').next() == Some(name))
    })
}

/// Stems of the headers that a file includes.
fn included(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix("#include \"")?.split_once(".cuh\""));
    names.map(|(stem, _)| stem.to_owned()).collect()
}

#[test]
fn kernels_launchers_and_tests_agree() {
    let kernels = Kernels::read();
    assert!(kernels.table.len() > 20 && kernels.headers.len() > 5, "{:?}", kernels.table);
    let found = kernels.problems();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// The problems of the kernels with one change.
fn planted_in_kernels(change: impl FnOnce(&mut Kernels)) -> Vec<String> {
    let mut kernels = Kernels::read();
    change(&mut kernels);
    kernels.problems()
}

#[test]
fn a_kernel_file_without_its_launcher_test_or_line_is_found() {
    let of = |folder: fn(&mut Kernels) -> &mut BTreeMap<String, String>| {
        planted_in_kernels(|kernels| drop(folder(kernels).remove("unary")))
    };
    assert!(of(|kernels| &mut kernels.kernels).contains(&"kernels/unary.cu is missing".to_owned()));
    assert!(of(|kernels| &mut kernels.launchers).contains(&"launch/unary.rs is missing".to_owned()));
    assert!(of(|kernels| &mut kernels.tests).contains(&"tests/kernels/unary.rs is missing".to_owned()));
    let found = planted_in_kernels(|kernels| kernels.table.retain(|stem| stem != "unary"));
    let expected = [
        "kernels/unary.cu is not in KERNELS",
        "launch/unary.rs is not in KERNELS",
        "tests/kernels/unary.rs is neither in KERNELS nor used by a test",
    ];
    assert_eq!(found, expected);
    let found = planted_in_kernels(|kernels| kernels.table.push("unary".to_owned()));
    assert_eq!(found, ["KERNELS is not sorted, or names a file twice"]);
}

#[test]
fn a_launcher_or_a_test_that_is_not_compiled_is_found() {
    let without = |root: &mut String| *root = root.replace("mod unary;\n", "");
    let found = planted_in_kernels(|kernels| without(kernels.launchers.get_mut("mod").unwrap()));
    assert_eq!(found, ["launch/unary.rs is not a module of the folder"]);
    let found = planted_in_kernels(|kernels| without(kernels.tests.get_mut("main").unwrap()));
    assert_eq!(found, ["tests/kernels/unary.rs is not a module of the folder"]);
}

#[test]
fn a_kernel_that_is_not_launched_by_its_launcher_is_found() {
    let kernel = "\nextern \"C\" __global__ void __launch_bounds__(256)\nnew_f32(float* y, int n) {}\n";
    let found = planted_in_kernels(|kernels| kernels.kernels.get_mut("unary").unwrap().push_str(kernel));
    assert_eq!(found, ["launch/unary.rs does not launch new_f32"]);
    let found =
        planted_in_kernels(|kernels| kernels.launchers.get_mut("norm").unwrap().push_str("\"silu_f32\""));
    assert_eq!(found, ["launch/norm.rs launches silu_f32 of unary.cu"]);
}

#[test]
fn a_header_that_no_kernel_includes_is_found() {
    let found = planted_in_kernels(|kernels| {
        kernels.headers.insert("new".to_owned(), "#include \"newer.cuh\"".to_owned());
        kernels.headers.insert("newer".to_owned(), "#include \"new.cuh\"".to_owned());
    });
    assert_eq!(
        found,
        ["kernels/new.cuh is included by no kernel", "kernels/newer.cuh is included by no kernel"]
    );
}

#[test]
fn a_kernel_without_its_contract_is_found() {
    for line in ["grid", "oracle"] {
        let found = planted_in_kernels(|kernels| {
            let text = kernels.kernels.get_mut("unary").unwrap();
            *text = text.replace(&format!("//   {line} "), "//   what ");
        });
        assert_eq!(found, [format!("kernels/unary.cu: its contract has no line `{line}`")]);
    }
    assert!(contract_has("//   signs, H, grid, shared  as fold.cu\n", "grid"));
    assert!(!contract_has("//   signs  of a grid, grid of threads\n", "grid"));
    assert!(!contract_has("#include \"common.cuh\"\n//   grid  one thread\n", "grid"));
}

#[test]
fn every_registry_has_a_recipe() {
    let contributing = read(Path::new("CONTRIBUTING.md"));
    for heading in [
        "## Add a block format",
        "## Add an operator",
        "## Add an oracle",
        "## Add a primitive of ggml's arithmetic",
        "## Add a shape",
        "## Add a report format",
        "## Add a subcommand",
        "## Add a preset",
        "## Add a convention",
        "## Add a case",
        "## Add an importer",
        "## Add a kernel",
        "## Add a question",
    ] {
        let (_, rest) = contributing
            .split_once(&format!("\n{heading}\n"))
            .unwrap_or_else(|| panic!("CONTRIBUTING.md has no heading `{heading}`"));
        let recipe = rest.split("\n## ").next().unwrap_or_default();
        assert!(!recipe.trim().is_empty(), "the recipe under `{heading}` is empty");
    }
}
