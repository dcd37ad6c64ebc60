//! The kernels with all mistakes in them, as one library of the emulator.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{Edit, Mutant, With};

#[path = "../../../kernels/simt/compile.rs"]
#[allow(dead_code, unreachable_pub)]
mod compile;

pub(super) use compile::kernel_names;

/// Asks which mistake is awake. It is not watched, and the compiler may ask once for many uses.
const DECLARATION: &str = "extern \"C\" __attribute__((const)) int is_mutant(unsigned id); ";

const DEFINITION: &str = r#"// Which mistake is awake: the number in LOCKSTEP_MUTANT.
#include <cstdlib>
static unsigned awake;
__attribute__((constructor, no_sanitize_thread)) static void wake() {
    const char* id = getenv("LOCKSTEP_MUTANT");
    if (id) awake = (unsigned)strtoul(id, nullptr, 10);
}
extern "C" __attribute__((const, no_sanitize_thread)) int is_mutant(unsigned id) { return id == awake; }
"#;

/// Kernels of files that have one for each of many types; the others are left out, they take long to compile.
const KEPT: &[(&str, &[&str])] = &[
    ("mul_mat.cu", &["mul_mat_pq2_0_f32", "mul_mat_f16_f32", "mul_mat_q8_0_f32"]),
    ("mul_mat_q8_1.cu", &["mul_mat_pq2_0_q8_1", "mul_mat_q4_0_q8_1", "mul_mat_q4_k_q8_1"]),
    (
        "mul_mat_vec.cu",
        &[
            "mul_mat_vec_pq2_0_f32",
            "mul_mat_vec_q4_k_f32",
            "mul_mat_vec_bf16_f32",
            "mul_mat_vec_f16_f32",
            "mul_mat_vec_f32_f32",
        ],
    ),
    ("mul_mat_vec_q8_1.cu", &["mul_mat_vec_pq2_0_q8_1", "mul_mat_vec_q4_0_q8_1", "mul_mat_vec_q4_k_q8_1"]),
];

/// Kernel files and headers by name.
pub(super) struct Sources {
    pub(super) text: BTreeMap<String, String>,
}

impl Sources {
    pub(super) fn read() -> Sources {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let files = ["cu", "cuh"].iter().flat_map(|extension| compile::files(&folder, extension).unwrap());
        let text = files.map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let mut text = fs::read_to_string(&path).unwrap();
            if let Some((_, kept)) = KEPT.iter().find(|(file, _)| *file == name) {
                text = without_others(&text, kept);
            }
            (name, text)
        });
        Sources { text: text.collect() }
    }
}

/// The text with these kernels only; lines keep their numbers.
fn without_others(text: &str, kept: &[&str]) -> String {
    let mut is_left_out = false;
    let lines = text.lines().map(|line| {
        if line.starts_with("extern \"C\" __global__") {
            is_left_out = !kept.iter().any(|name| line.contains(&format!("{name}(")));
        }
        let shown = if is_left_out { "" } else { line };
        is_left_out &= line != "}";
        format!("{shown}\n")
    });
    let text: String = lines.collect();
    assert_eq!(kernel_names(&text).len(), kept.len(), "{kept:?}");
    text
}

/// Where a piece of code occurs; comments do not count.
pub(super) fn occurrences(text: &str, code: &str) -> Vec<usize> {
    let is_code = |at: usize| {
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        !text[line..at].contains("//")
    };
    text.match_indices(code).map(|(at, _)| at).filter(|&at| is_code(at)).collect()
}

/// The library, and the number of each mutant.
pub(super) struct Planted {
    pub(super) path: PathBuf,
    pub(super) ids: Vec<u32>,
}

/// A number that does not depend on other mutants: what is compiled stays as it is when they change.
fn id(mutant: &Mutant) -> u32 {
    let mut hash = DefaultHasher::new();
    mutant.what().hash(&mut hash);
    mutant.edits.iter().for_each(|edit| edit.at.hash(&mut hash));
    hash.finish() as u32 | 1
}

fn replacement(edit: &Edit, id: u32) -> String {
    let awake = format!("is_mutant({id}u)");
    match &edit.with {
        With::Raw(code) => code.replace("MUTANT", &awake),
        With::Code(code) if edit.find.ends_with(';') => {
            format!("if ({awake}) {{ {code} }} else {{ {} }}", edit.find)
        }
        With::Code(code) => format!("({awake} ? ({code}) : ({}))", edit.find),
    }
}

/// The files with every mistake in them.
fn planted(sources: &Sources, mutants: &[Mutant]) -> Result<(BTreeMap<String, String>, Vec<u32>), String> {
    let ids: Vec<u32> = mutants.iter().map(id).collect();
    let mut changes: BTreeMap<&str, Vec<(usize, &str, String)>> = BTreeMap::new();
    for (i, (mutant, &id)) in mutants.iter().zip(&ids).enumerate() {
        if ids[..i].contains(&id) {
            return Err(format!("{}: there are two of it", mutant.what()));
        }
        let text =
            sources.text.get(&mutant.file).ok_or_else(|| format!("{}: no such file", mutant.what()))?;
        for edit in &mutant.edits {
            let found = edit.at.map_or_else(|| occurrences(text, &edit.find), |at| vec![at]);
            if found.len() != edit.times {
                return Err(format!("{}: `{}` occurs {} times", mutant.what(), edit.find, found.len()));
            }
            let of_file = changes.entry(&mutant.file).or_default();
            of_file.extend(found.into_iter().map(|at| (at, edit.find.as_str(), replacement(edit, id))));
        }
    }
    let mut all = sources.text.clone();
    for (file, mut changes) in changes {
        changes.sort_by_key(|(at, ..)| *at);
        let text = &sources.text[file];
        let (mut changed, mut done) = (DECLARATION.to_owned(), 0);
        for (at, find, new) in changes {
            if at < done {
                return Err(format!("{file}: two mutants change `{find}`"));
            }
            changed += &text[done..at];
            changed += &new;
            done = at + find.len();
        }
        changed += &text[done..];
        all.insert(file.to_owned(), changed);
    }
    Ok((all, ids))
}

/// Compiles the kernels with every mistake in them; what was compiled before and did not change is not compiled again.
pub(super) fn build(sources: &Sources, mutants: &[Mutant]) -> Result<Planted, String> {
    let (mut files, ids) = planted(sources, mutants)?;
    files.insert("mutant.cu".to_owned(), DEFINITION.to_owned());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    fs::create_dir_all(&folder).unwrap();
    for extension in ["cu", "cuh"] {
        for path in compile::files(&folder, extension).unwrap() {
            fs::remove_file(path).unwrap();
        }
    }
    files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    let kernels = compile::files(&folder, "cu").unwrap();
    let compiler = || Command::new(env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    let simt = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/simt");
    let path =
        compile::library(&compiler, &kernels, &simt, compile::Flavour::Checked, &folder.join("objects"))?;
    Ok(Planted { path, ids })
}

#[cfg(test)]
mod tests {
    use super::super::{Noticed, edit, raw};
    use super::*;

    fn sources() -> Sources {
        let text = "// a + b\ny = a + b;\nif (i < n) x = c;\n";
        Sources { text: [("x.cu".to_owned(), text.to_owned())].into() }
    }

    fn mutant(edit: Edit) -> Mutant {
        Mutant { file: "x.cu".to_owned(), edits: vec![edit], tests: vec![], noticed: Noticed::ByEmulator }
    }

    #[test]
    fn a_mistake_sleeps_beside_the_code() {
        let mutants = [
            mutant(edit("a + b", "a - b")),
            mutant(edit("x = c;", "")),
            mutant(raw("if (i < n)", "if (i < n || MUTANT)")),
        ];
        let (files, ids) = planted(&sources(), &mutants).unwrap();
        let expected = format!(
            "{DECLARATION}// a + b\ny = (is_mutant({0}u) ? (a - b) : (a + b));\n\
             if (i < n || is_mutant({2}u)) if (is_mutant({1}u)) {{  }} else {{ x = c; }}\n",
            ids[0], ids[1], ids[2]
        );
        assert_eq!(files["x.cu"], expected);
    }

    #[test]
    fn code_that_is_not_there_as_often_is_an_error() {
        let refused = |mutants: &[Mutant]| planted(&sources(), mutants).unwrap_err();
        assert!(refused(&[mutant(edit("a * b", "a"))]).ends_with("`a * b` occurs 0 times"));
        assert!(refused(&[mutant(edit("a + b", "a").times(2))]).ends_with("`a + b` occurs 1 times"));
        assert!(
            refused(&[mutant(edit("a + b", "a")), mutant(edit("+ b", "b"))]).contains("two mutants change")
        );
        assert!(refused(&[mutant(edit("a + b", "a")), mutant(edit("a + b", "a"))]).contains("two of it"));
    }

    #[test]
    fn kernels_that_are_left_out_leave_their_lines() {
        let text = "extern \"C\" __global__ void a_f32(\n    int n) {\n}\n\nextern \"C\" __global__ void b_f32(int n) {\n}\n";
        assert_eq!(
            without_others(text, &["b_f32"]),
            "\n\n\n\nextern \"C\" __global__ void b_f32(int n) {\n}\n"
        );
    }
}
