//! Synthetic models with other sizes or scaled tensors: what is written is what was asked for, and conventions part in them that a
//! preset cannot tell apart.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Built, Keep, ModelFile, check_in_process, relative_l2, run, ubatch};
use lockstep::compare::Comparison;
use lockstep::dump::{Dump, Model as DumpModel};
use lockstep::engine::{Conventions, Engine, Memory, cpu::CpuEngine};
use lockstep::gguf::sha256;
use lockstep::harness::{Recorder, Step, ubatches};
use lockstep::model::Model;
use lockstep::ops::Rows;
use lockstep::synth::{Preset, SynthError, Variant, preset, write_variant};
use lockstep::tensor::GgmlType;

const TOKENS: [u32; 5] = [7, 300, 12, 45, 501];

fn micro(change: impl FnOnce(&mut Preset), scales: &[(&str, f32)]) -> Variant {
    let mut preset = preset("micro-bonsai").unwrap().clone();
    change(&mut preset);
    let scales = scales.iter().map(|(name, factor)| ((*name).to_owned(), *factor)).collect();
    Variant { scales, ..Variant::from(&preset) }
}

fn written(variant: &Variant, ty: GgmlType) -> ModelFile {
    let file = ModelFile::new();
    write_variant(variant, 1, &[ty], &file.path, &mut |_, _| {}).unwrap();
    file
}

fn built(file: &ModelFile) -> Built {
    let path = file.path.clone();
    Built { model: Model::open(&path).unwrap(), sha256: sha256(&path).unwrap(), path }
}

/// All values of a tensor.
fn values(model: &Model, name: &str) -> Vec<f32> {
    let tensor = model.gguf().tensor(name).unwrap();
    let [n_in, n_out, ..] = tensor.info.ne.map(|n| n as usize);
    let rows = Rows::new(tensor.info.ty, tensor.data, n_in, n_out).unwrap();
    let mut values = vec![0.0; n_in * n_out];
    values.chunks_mut(n_in).enumerate().for_each(|(n, row)| rows.decode_row(n, row));
    values
}

#[test]
fn the_metadata_follows_the_sizes() {
    let variant = micro(
        |p| {
            (p.n_layer, p.full_attention_interval, p.n_embd) = (2, 2, 384);
            (p.n_rot, p.rope_sections) = (32, [3, 0, 0, 5]);
        },
        &[],
    );
    for ty in [GgmlType::PQ2_0, GgmlType::PTQ1_0, GgmlType::F32, GgmlType::Q8_0] {
        let file = written(&variant, ty);
        let model = Model::open(&file.path).unwrap();
        let h = model.hparams();
        assert_eq!((h.n_layer, h.n_embd, h.n_rot, h.rope_sections), (2, 384, 32, [3, 0, 0, 5]), "{ty}");
        assert_eq!(h.n_embd, h.n_embd_q());
        assert!(!run::<f32>(&model, &TOKENS, &[3, 2]).is_empty());
    }
}

#[test]
fn a_factor_scales_each_value_of_its_tensors_exactly_and_no_other() {
    let scales = [("token_embd", 2f32.powi(-10)), ("attn_k_norm", 8.0), ("ssm_alpha", 0.5), ("ssm_out", 4.0)];
    for ty in [GgmlType::PQ2_0, GgmlType::F32] {
        let (plain, scaled) = (written(&micro(|_| {}, &[]), ty), written(&micro(|_| {}, &scales), ty));
        let (plain, scaled) = (Model::open(&plain.path).unwrap(), Model::open(&scaled.path).unwrap());
        let mut n_scaled = 0;
        for info in plain.gguf().tensors() {
            let name = info.name.as_str();
            let is = |bare: &str| name.ends_with(&format!("{bare}.weight"));
            let factor = scales.iter().find(|(bare, _)| is(bare)).map_or(1.0, |(_, factor)| *factor);
            n_scaled += usize::from(factor != 1.0);
            let expected: Vec<f32> = values(&plain, name).iter().map(|x| x * factor).collect();
            assert!(values(&scaled, name) == expected, "{name} in {ty}");
        }
        assert_eq!(n_scaled, 1 + 1 + 3 + 3, "token_embd, a norm of one layer, two weights of three");
        let name = scaled.gguf().metadata().str("general.name").unwrap();
        assert!(
            name.starts_with("micro-bonsai seed 1, token_embd * 0.0009765625, attn_k_norm * 8"),
            "{name}"
        );
    }
}

#[test]
fn what_makes_no_model_is_refused_before_anything_is_written() {
    let refused = |variant: &Variant| {
        let file = ModelFile::new();
        let result = write_variant(variant, 1, &[GgmlType::F32], &file.path, &mut |_, _| {});
        assert!(!file.path.exists());
        result.unwrap_err()
    };
    let error = refused(&micro(|p| p.n_embd = 200, &[]));
    assert!(matches!(error, SynthError::Size { field: "n_embd", .. }), "{error}");
    let error = refused(&micro(|p| p.n_rot = 15, &[]));
    assert!(matches!(error, SynthError::Model(_)), "{error}");
    let error = refused(&micro(|_| {}, &[("token_embd", 0.3)]));
    assert!(matches!(error, SynthError::Scale { .. }), "{error}");
}

/// Records a run of the verified conventions on a model.
fn record(built: &Built, path: &Path) -> Dump {
    let n_ctx = TOKENS.len();
    let mut engine = CpuEngine::<f32>::new(&built.model, Conventions::default(), n_ctx).unwrap();
    let mut recorder = Recorder::create(path).unwrap();
    let ubatch = ubatches(&TOKENS, &[n_ctx]).unwrap().remove(0);
    recorder.step(&mut engine, &Step { before: Vec::new(), ubatch }).unwrap();
    let model = DumpModel {
        file: "model.gguf".to_owned(),
        sha256: built.sha256.clone(),
        architecture: "qwen35".to_owned(),
        metadata: BTreeMap::new(),
    };
    recorder.finish("cpu f32", model, (Memory::default(), n_ctx as u32), 0).unwrap();
    Dump::open(path).unwrap()
}

/// What `check` says first of each wrong candidate, against a recording of the verified ones.
fn firsts(variant: &Variant, convention: &str) -> Vec<(&'static str, String)> {
    let file = written(variant, GgmlType::PQ2_0);
    let (built, folder) = (built(&file), tempfile::tempdir().unwrap());
    let dump = record(&built, &folder.path().join("run.npz"));
    let first = |comparison: &Comparison| match comparison.first_difference() {
        Some(first) => first.result.id.to_string(),
        None => "passes".to_owned(),
    };
    let (_, candidates) = Conventions::ALL.iter().find(|(name, _)| *name == convention).unwrap();
    let checked = candidates.iter().map(|candidate| {
        let mut conventions = Conventions::default();
        conventions.set(convention, candidate).unwrap();
        (*candidate, first(&check_in_process::<f32>(&built, &dump, conventions).unwrap().comparison))
    });
    checked.collect()
}

/// How far apart the outputs of the first norm are under each pair of candidates: the least relative L2.
fn least_distance(variant: &Variant, convention: &str) -> f64 {
    let file = written(variant, GgmlType::PQ2_0);
    let model = Model::open(&file.path).unwrap();
    let (_, candidates) = Conventions::ALL.iter().find(|(name, _)| *name == convention).unwrap();
    let norm = |candidate: &&str| {
        let mut conventions = Conventions::default();
        conventions.set(convention, candidate).unwrap();
        let mut keep = Keep::only(|name| name == "norm-0");
        let mut engine = CpuEngine::<f64>::new(&model, conventions, TOKENS.len()).unwrap();
        engine.step(&ubatch(&TOKENS, 0..TOKENS.len()), &mut keep).unwrap();
        keep.tensors.swap_remove(0).values
    };
    let norms: Vec<Vec<f64>> = candidates.iter().map(norm).collect();
    let pairs = (0..norms.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.map(|(a, b)| relative_l2(&norms[a], &norms[b])).fold(f64::INFINITY, f64::min)
}

#[test]
fn a_large_epsilon_tells_all_places_of_it_apart() {
    // Of rows of mean square 1: 1 + 4, 1 + 8 + 16, 16, 1 + 4 / 256, 1.
    let large = Variant { f_norm_rms_eps: 4.0, ..micro(|_| {}, &[]) };
    assert!(least_distance(&large, "rms_norm_eps_place") > 1e-3);
    // As long as the root is above the epsilon, its larger is the root.
    let tiny = micro(|_| {}, &[("token_embd", 2f32.powi(-10))]);
    assert_eq!(least_distance(&tiny, "rms_norm_eps_place"), 0.0);
}

#[test]
fn tiny_embeddings_show_where_the_epsilon_of_a_norm_stands() {
    // Their mean square is 2^-20, about the epsilon of 1e-6; `max` is `none` there (see above).
    let first = |name: &str| format!("{name} (step 0)");
    assert_eq!(
        firsts(&micro(|_| {}, &[("token_embd", 2f32.powi(-10))]), "rms_norm_eps_place"),
        [
            ("inside_root", "passes".to_owned()),
            ("outside_root", first("norm-0")),
            ("max", first("norm-0")),
            ("on_sum", first("norm-0")),
            ("none", first("norm-0")),
        ]
    );
}

#[test]
fn a_gate_as_wide_as_the_output_shows_on_which_side_of_the_projection_it_stands() {
    let firsts = firsts(&micro(|p| p.n_embd = 384, &[]), "attn_gate");
    assert_eq!(firsts[0], ("sigmoid", "passes".to_owned()));
    assert_eq!(firsts[3], ("after_output", "attn_gated-3 (step 0)".to_owned()));
}
