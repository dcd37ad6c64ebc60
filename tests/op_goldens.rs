//! Every oracle against ggml-cpu itself: `scripts/make-op-goldens.sh` computes single operators in llama.cpp, and the oracle
//! must explain each element of each result within its budget.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use lockstep::arithmetic::{GGML_CPU, Ggml};
use lockstep::compare::budget;
use lockstep::ops::Rows;
use lockstep::ops::exact::{
    Data, Exact, Executed, Invocation, ORACLES, Operand, OracleError, Setting, oracle,
};
use lockstep::quant;
use lockstep::tensor::{GgmlType, Values};
use serde::Deserialize;

/// Operators without a golden, and why.
const WITHOUT: &[(&str, &str)] = &[];

/// Operators whose goldens are also computed in ggml-cpu's own order; dumps show that of the others (`tests/to_the_bit`).
const TO_THE_BIT: [&str; 7] = ["ADD_ID", "ARANGE", "ARGSORT", "MUL_MAT_ID", "POOL_2D", "SSM_SCAN", "TOP_K"];

/// What ggml-cpu gets wrong, and why: `docs/zoo.md` has more.
const DEPARTS: [(&str, &str); 2] = [
    ("argsort of matrices that lie apart", "row i is taken at i * nb1"),
    ("top 3 of matrices that lie apart", "row i is taken at i * nb1"),
];

/// A planted error, as a part of the largest element.
const PLANTED: f64 = 1e-3;

#[derive(Deserialize)]
struct Tensor {
    r#type: String,
    ne: [u64; 4],
    contiguous: bool,
    /// The bytes of the elements, packed, in hexadecimal.
    data: String,
}

#[derive(Deserialize)]
struct Golden {
    name: String,
    op: String,
    variant: Option<String>,
    params: Vec<i32>,
    #[serde(default = "one")]
    threads: u32,
    sources: Vec<Option<Tensor>>,
    result: Tensor,
}

fn one() -> u32 {
    1
}

/// What the goldens were computed with: x86 as `scripts/build-llama.sh` builds for it.
const MACHINE: &str = "CPU : SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | ";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/ops")
}

/// The cases that ggml-cpu gets right.
fn goldens() -> Vec<Golden> {
    all_goldens().into_iter().filter(|golden| !departs(golden)).collect()
}

fn departs(golden: &Golden) -> bool {
    DEPARTS.iter().any(|(name, _)| golden.name == *name)
}

fn all_goldens() -> Vec<Golden> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let cases = files.iter().flat_map(|path| {
        let cases: Vec<Golden> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(cases.iter().all(|golden| golden.op.to_lowercase() == stem), "{}", path.display());
        cases
    });
    cases.collect()
}

impl Tensor {
    fn ty(&self) -> GgmlType {
        GgmlType::from_name(&self.r#type).unwrap_or_else(|| panic!("type {}", self.r#type))
    }

    fn bytes(&self) -> Vec<u8> {
        assert!(self.data.len().is_multiple_of(2));
        (0..self.data.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&self.data[i..i + 2], 16).unwrap())
            .collect()
    }

    fn ints(&self) -> Option<Vec<i64>> {
        let bytes = self.bytes();
        match self.ty() {
            GgmlType::I32 => {
                Some(bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b).into()).collect())
            }
            GgmlType::I64 => Some(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()),
            _ => None,
        }
    }

    /// Integers or not.
    fn values(&self) -> Vec<f64> {
        match self.ints() {
            Some(ints) => ints.into_iter().map(|int| int as f64).collect(),
            None => self.floats().into_iter().map(f64::from).collect(),
        }
    }

    fn floats(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.ne.iter().product::<u64>() as usize];
        quant::decode(self.ty(), &self.bytes(), &mut values).unwrap();
        values
    }

    /// As `replay` reads a source; `bytes` are those of this tensor.
    fn operand<'a>(&self, bytes: &'a [u8]) -> Operand<'a> {
        let data = match self.ty() {
            GgmlType::F32 => Data::Float(self.floats()),
            ty @ (GgmlType::F16 | GgmlType::BF16) => Data::Narrow(ty, self.floats()),
            GgmlType::I32 | GgmlType::I64 => Data::Int(self.ints().unwrap()),
            ty => {
                let [width, rows @ ..] = self.ne.map(|n| n as usize);
                Data::Weight(Rows::new(ty, bytes, width, rows.iter().product()).unwrap())
            }
        };
        Operand { ne: self.ne, data }
    }
}

/// What is made of the node of a case.
fn with_node<T>(golden: &Golden, make: impl FnOnce(&Invocation<'_>) -> T) -> T {
    let bytes: Vec<Vec<u8>> =
        golden.sources.iter().map(|source| source.as_ref().map_or(Vec::new(), Tensor::bytes)).collect();
    let operands: Vec<Option<Operand<'_>>> = golden
        .sources
        .iter()
        .zip(&bytes)
        .enumerate()
        // the second source of a copy is where it goes
        .filter(|(index, _)| golden.op != "CPY" || *index == 0)
        .map(|(_, (source, bytes))| source.as_ref().map(|source| source.operand(bytes)))
        .collect();
    make(&Invocation {
        op: &golden.op,
        variant: golden.variant.as_deref(),
        params: &golden.params,
        ne: golden.result.ne,
        sources: &operands,
    })
}

/// What the oracle of a case gives, and what ggml-cpu gave.
fn evaluate(golden: &Golden) -> Result<(Exact, Vec<f64>), OracleError> {
    let setting = Setting {
        backend: "CPU".to_owned(),
        n_threads: golden.threads,
        system_info: MACHINE.to_owned(),
        ..Setting::default()
    };
    let reference = golden.result.values();
    let mut exact = with_node(golden, |node| {
        let oracle = oracle(node)?;
        // The first is what ggml's source says it does; another is tried by nobody here.
        let rounding = oracle.roundings(node, &setting)[0];
        oracle.exact_with(node, rounding)
    })?;
    if let Some(choice) = &exact.choice {
        exact.values = choice.settle(Values::F64(&reference)).values;
    }
    if golden.result.ty() == GgmlType::I32 {
        exact.values.iter_mut().for_each(|value| *value = value.trunc());
    } else if exact.additions == 0.0 {
        exact.values.iter_mut().for_each(|value| *value = f64::from(*value as f32));
    }
    Ok((exact, reference))
}

/// Which part of its budget an element uses; beyond a flip the rest is judged.
fn share(exact: &Exact, i: usize, reference: f64) -> f64 {
    if reference == exact.values[i] {
        return 0.0; // what is masked is -inf on both sides
    }
    let error = (reference - exact.values[i]).abs();
    let budget = budget(exact.terms[i], exact.additions);
    if error <= budget {
        return error / budget;
    }
    let beyond = error - exact.flips.get(i).copied().unwrap_or(0.0);
    if beyond <= 0.0 { 0.0 } else { beyond / budget }
}

/// Whether a share is one of the budget; NaN is not.
fn is_within(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

#[test]
fn every_result_of_ggml_is_within_its_budget() {
    let mut over = Vec::new();
    for golden in goldens() {
        let (exact, reference) = evaluate(&golden).unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        assert!(!reference.is_empty() && reference.len() == exact.values.len(), "{}", golden.name);
        assert_eq!(exact.terms.len(), reference.len(), "{}", golden.name);
        for (i, &reference) in reference.iter().enumerate() {
            let share = share(&exact, i, reference);
            if !is_within(share) {
                over.push(format!(
                    "{}: element {i} is {reference:e}, exact {:e}, terms {:e}: {share:.2} of its budget",
                    golden.name, exact.values[i], exact.terms[i]
                ));
                break;
            }
        }
    }
    assert!(over.is_empty(), "\n{}", over.join("\n"));
}

#[test]
fn what_ggml_gets_wrong_is_found() {
    let wrong: Vec<Golden> = all_goldens().into_iter().filter(departs).collect();
    assert_eq!(wrong.len(), DEPARTS.len());
    for golden in wrong {
        let (exact, reference) = evaluate(&golden).unwrap();
        let rows = golden.result.ne.map(|n| n as usize);
        let over: Vec<usize> =
            (0..reference.len()).filter(|&i| !is_within(share(&exact, i, reference[i]))).collect();
        // The first matrix is right.
        assert!(!over.is_empty() && over[0] >= rows[0] * rows[1], "{}: {over:?}", golden.name);
    }
}

#[test]
fn the_order_of_operations_is_known_to_the_bit() {
    let ggml = Ggml::of(MACHINE).unwrap();
    let executed = Executed { ggml, primitives: &GGML_CPU, contiguous: &[] };
    for golden in goldens().iter().filter(|golden| TO_THE_BIT.contains(&golden.op.as_str())) {
        let values = with_node(golden, |node| oracle(node).unwrap().ggml(node, &executed)).unwrap();
        let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        let own = values.into_iter().map(f64::from).collect();
        assert!(bits(own) == bits(golden.result.values()), "{}", golden.name);
    }
}

#[test]
fn a_planted_error_is_found_in_every_case() {
    let mut blind = Vec::new();
    for golden in goldens() {
        let (exact, reference) = evaluate(&golden).unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        let finite = (0..reference.len()).filter(|&i| reference[i].is_finite());
        let largest = finite.max_by(|&i, &j| reference[i].abs().total_cmp(&reference[j].abs()));
        let i = largest.unwrap();
        let planted = if exact.additions == 0.0 {
            reference[i].next_up() // what is moved must be equal to the last bit
        } else {
            reference[i] + PLANTED * reference[i].abs()
        };
        if is_within(share(&exact, i, planted)) || is_within(share(&exact, i, f64::NAN)) {
            blind.push(format!("{}: terms {:e}", golden.name, exact.terms[i]));
        }
    }
    assert!(blind.is_empty(), "\n{}", blind.join("\n"));
}

/// Whether the oracle gives what ggml-cpu gave.
fn is_explained(golden: &Golden) -> bool {
    evaluate(golden).is_ok_and(|(exact, reference)| {
        (0..reference.len()).all(|i| is_within(share(&exact, i, reference[i])))
    })
}

#[test]
fn no_parameter_and_no_source_is_ignored() {
    // for each of them, whether a case does without it
    let mut ignored: BTreeMap<(String, &str, usize), bool> = BTreeMap::new();
    let mut note = |golden: &Golden, kind, index| {
        let so_far = ignored.entry((golden.op.clone(), kind, index)).or_insert(true);
        *so_far = *so_far && is_explained(golden);
    };
    for mut golden in goldens() {
        for index in 0..golden.params.len() {
            let kept = std::mem::take(&mut golden.params[index]);
            if kept != 0 {
                note(&golden, "parameter", index);
            }
            golden.params[index] = kept;
        }
        for index in 0..golden.sources.len() {
            let kept = golden.sources[index].take();
            if kept.is_some() {
                note(&golden, "source", index);
            }
            golden.sources[index] = kept;
        }
    }
    let ignored = ignored.into_iter().filter(|(_, ignored)| *ignored);
    let ignored: Vec<String> =
        ignored.map(|((op, kind, index), _)| format!("{op}: {kind} {index}")).collect();
    let harmless = [
        "CPY: source 1",      // where the copy goes
        "FILL: source 0",     // its shape is that of the result
        "GLU: parameter 0",   // the variant
        "SET: parameter 4",   // whether in place
        "UNARY: parameter 0", // the variant
    ];
    assert_eq!(ignored, harmless);
}

#[test]
fn every_operator_has_a_golden() {
    let goldens = goldens();
    let compared: BTreeSet<&str> = goldens.iter().map(|golden| golden.op.as_str()).collect();
    let excepted: BTreeSet<&str> = WITHOUT.iter().map(|(op, _)| *op).collect();
    let known: BTreeSet<&str> = ORACLES.iter().flat_map(|(_, oracle)| oracle.ops()).copied().collect();
    assert_eq!(compared.union(&excepted).copied().collect::<BTreeSet<_>>(), known);
    assert!(compared.is_disjoint(&excepted) && WITHOUT.iter().all(|(_, why)| !why.is_empty()));
    let names: BTreeSet<&str> = goldens.iter().map(|golden| golden.name.as_str()).collect();
    assert_eq!(names.len(), goldens.len(), "two cases have one name, and so the same numbers");
    let strided =
        goldens.iter().flat_map(|golden| golden.sources.iter().flatten()).any(|source| !source.contiguous);
    assert!(strided, "no source is a strided view");
}
