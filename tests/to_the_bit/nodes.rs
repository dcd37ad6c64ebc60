//! Node by node, from the reference's own inputs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use lockstep::arithmetic::Isa;
use lockstep::dump::Dump;
use lockstep::gguf::{Gguf, sha256};
use lockstep::harness::{Case, HarnessError};
use lockstep::replay::{Arithmetic, NodeResult, Outcome as Ended, Replay, ReplayError, replay_in};
use lockstep::tensor::GgmlType;

use crate::common::{
    Copy, MICRO_NODES, NANO_PROMPT, Outcome, Reference, cache, case_folder, lockstep, synthetic, twin,
};

/// A dump replayed in the arithmetic of its build.
pub(crate) fn replayed(gguf: &Gguf, hash: &str, dump: &Dump) -> Result<Replay, ReplayError> {
    replay_in(Arithmetic::Ggml, gguf, hash, dump, &mut |_, _| {})
}

/// The operators of which a node is not bit-equal.
pub(crate) fn red(replay: &Replay) -> Vec<&str> {
    let red = replay.results.iter().filter(|result| result.outcome != Ended::Within);
    let operators: BTreeSet<&str> = red.map(|result| &result.op[..]).collect();
    operators.into_iter().collect()
}

/// Every committed dump of a model that is made, and how many of its nodes are compared; those of fetched models are in
/// `tests/replay_cases.rs`.
const DUMPS: [(&str, &str, Isa, u64); 14] = [
    ("early-2026", "nodes-4.npz", Isa::Avx2, 32),
    ("micro-bonsai", "nodes-5.npz", Isa::Avx2, 423),
    ("micro-bonsai", "prompt-130.npz", Isa::Avx2, 9),
    ("mini-bonsai", "prompt-7-decode-4.npz", Isa::Avx2, 2361),
    ("mini-bonsai", "token-1.npz", Isa::Avx2, 1829),
    ("nano-mixed-prompt", "logits-11-scalar.npz", Isa::Sse2, 20),
    ("nano-mixed-prompt", "logits-11.npz", Isa::Avx2, 20),
    ("nano-mixed-prompt", "prompt-2-scalar.npz", Isa::Sse2, 65),
    ("nano-mixed-prompt", "prompt-2.npz", Isa::Avx2, 65),
    ("nano-mixed-token", "token-1.npz", Isa::Avx2, 34),
    ("rollback", "back-1.npz", Isa::Avx2, 57),
    ("sequences", "interleaved.npz", Isa::Avx2, 184),
    ("unfused", "nodes-2.npz", Isa::Avx2, 62),
    ("unfused", "prompt-65-decode-2.npz", Isa::Avx2, 18),
];

#[test]
fn every_node_of_every_committed_dump_has_the_bits_of_its_build() {
    let mut found = Vec::new();
    let mut folders: Vec<_> =
        fs::read_dir(case_folder("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        let case = Case::open(folder).unwrap();
        if case.dumps.iter().any(|dump| !dump.committed) {
            continue;
        }
        let model = match case.build_twin(&cache(), &mut |_, _| {}) {
            Ok(model) => model,
            Err(HarnessError::NotFetched { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let (gguf, hash) = (Gguf::open(&model).unwrap(), sha256(&model).unwrap());
        let mut files: Vec<&str> = case.dumps.iter().map(|dump| &dump.file[..]).collect();
        files.sort_unstable();
        for file in files {
            let dump = Dump::open(&folder.join(file)).unwrap();
            let replay = replayed(&gguf, &hash, &dump).unwrap();
            let summary = replay.summary();
            assert!(replay.is_pass(), "{}/{file}: {summary:?}", case.name);
            assert_eq!((summary.skipped, summary.within), (0, summary.compared), "{}/{file}", case.name);
            found.push((case.name.clone(), file.to_owned(), replay.arithmetic, summary.compared));
        }
    }
    let expected: Vec<_> = DUMPS
        .iter()
        .map(|&(case, file, isa, compared)| (case.to_owned(), file.to_owned(), Some(isa), compared))
        .collect();
    assert_eq!(found, expected);
}

/// Why a node of a dump that was made with a filter cannot be evaluated.
pub(crate) const FILTERED: &str = "a source is not in the dump";

/// A dump of `tests/goldens` of the smallest model, with weights of such a type, and that model with its hash.
pub(crate) fn golden(file: &str, ty: GgmlType) -> (Gguf, String, Dump) {
    let model = synthetic("nano-bonsai", 1, ty);
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let gguf = Gguf::open(&model.path).unwrap();
    (gguf, sha256(&model.path).unwrap(), Dump::open(&goldens.join(file)).unwrap())
}

/// How many nodes of an operator are bit-equal in such a dump; all that could be evaluated must be.
fn equal_in_golden(file: &str, ty: GgmlType, op: &str) -> usize {
    let (gguf, hash, dump) = golden(file, ty);
    let replay = replayed(&gguf, &hash, &dump).unwrap();
    for result in &replay.results {
        let is_filtered = matches!(&result.outcome, Ended::Skipped(why) if why.starts_with(FILTERED));
        assert!(is_filtered || result.outcome == Ended::Within, "{file}: {result:?}");
    }
    replay.results.iter().filter(|result| result.op == op && result.outcome == Ended::Within).count()
}

#[test]
fn flash_attention_over_f16_caches_has_the_bits_of_its_build() {
    assert_eq!(equal_in_golden("flash/nano-7.npz", GgmlType::Q8_0, "FLASH_ATTN_EXT"), 2);
}

#[test]
fn products_with_repacked_weights_have_the_bits_of_their_build() {
    for (file, ty) in [("repacked/q4_0-6.npz", GgmlType::Q4_0), ("repacked/q4_K-6.npz", GgmlType::Q4_K)] {
        assert_eq!(equal_in_golden(file, ty, "MUL_MAT"), 3, "{ty}");
        let (gguf, hash, dump) = golden(file, ty);
        let mut copy = Copy::of_dump(&dump);
        copy.manifest.run.repack = Some(false);
        let written = copy.write();
        let replay = replayed(&gguf, &hash, &Dump::open(&written.path).unwrap()).unwrap();
        // What comes behind a product that is not in the dump is red as well: it is computed from it.
        let is_red = |result: &&NodeResult| result.op == "MUL_MAT" && result.outcome == Ended::Over;
        assert_eq!(replay.results.iter().filter(is_red).count(), 3, "{ty}");
    }
}

#[test]
fn one_bit_of_one_element_is_found_where_it_is() {
    let twin = twin(MICRO_NODES);
    for (step, name) in [(0, "ffn_out-2"), (1, "Qcur_normed-3"), (2, "conv_output_silu-1")] {
        let mut copy = Copy::of(MICRO_NODES);
        let payload = copy.own_payload(step, name);
        payload.bytes[40] ^= 1; // the lowest bit of an element's mantissa
        let written = copy.write();
        let dump = Dump::open(&written.path).unwrap();
        let replay = replayed(&twin.gguf, &twin.sha256, &dump).unwrap();
        let first = replay.results.iter().find(|result| result.outcome != Ended::Within).unwrap();
        let bits = first.bits.unwrap();
        assert_eq!((first.id.step, &first.id.name[..], first.worst_index), (step, name, 10));
        assert_eq!((bits.differing, bits.ulps), (1, 1), "{name}");
    }
}

/// `lockstep replay --arithmetic ggml` of a dump whose producer says this of itself.
fn of_producer(backend: &str, system_info: &str) -> Outcome {
    let mut copy = Copy::of(Reference { case: "nano-mixed-prompt", file: "prompt-2-scalar.npz" });
    copy.manifest.producer.backend = backend.to_owned();
    copy.manifest.producer.system_info = system_info.to_owned();
    let written = copy.write();
    let [replay, arithmetic, ggml, model, dump] = ["replay", "--arithmetic", "ggml", "--model", "--dump"];
    let files = [twin(NANO_PROMPT).path.as_os_str(), written.path.as_os_str()];
    let words = [replay, arithmetic, ggml, model].map(OsStr::new);
    lockstep(words.into_iter().chain([files[0], OsStr::new(dump), files[1]]).map(OsStr::to_os_string))
}

#[test]
fn a_build_that_is_not_known_is_refused_by_what_it_says_of_itself() {
    let other = of_producer("CPU", &AVX2.replace("FMA", "AMX_INT8"));
    other.assert_refused(&["AMX_INT8", "--build scalar", "leave out --arithmetic ggml"]);
    of_producer("CUDA0", "CUDA : ARCHS = 900").assert_refused(&["backend CUDA0"]);
}

const AVX2: &str = "CPU : SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | BMI2 = 1 | LLAMAFILE = 1 | REPACK = 1 | ";

/// A scalar build's dump that says it is of the AVX2 build: what has the same order of operations in both stays equal.
#[test]
fn another_builds_arithmetic_shows_at_the_operators_that_it_has() {
    let mut copy = Copy::of(Reference { case: "nano-mixed-prompt", file: "prompt-2-scalar.npz" });
    copy.manifest.producer.system_info = AVX2.to_owned();
    let written = copy.write();
    let twin = twin(NANO_PROMPT);
    let replay = replayed(&twin.gguf, &twin.sha256, &Dump::open(&written.path).unwrap()).unwrap();
    assert_eq!(red(&replay), RED_IN_AVX2);
}

/// Operators that AVX2 rounds otherwise than a scalar build. Four taps of a convolution fill a register and are added in order by
/// both; a softmax over the two tokens of this dump has nothing to add up in another order.
const RED_IN_AVX2: [&str; 5] = ["GATED_DELTA_NET", "GLU SWIGLU", "MUL_MAT", "ROPE", "UNARY SILU"];
