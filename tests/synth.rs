//! Synthetic models, unfolded twins and slices: which bytes they are, and what is left when one cannot be written.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use common::{Edit, Keep, ModelFile, Tensor, assert_same, fold_key, hparam_key, micro, synthetic, ubatch};
use lockstep::engine::{Conventions, Engine, cpu::CpuEngine};
use lockstep::gguf::{Gguf, GgufError, Value, sha256};
use lockstep::model::{FOLD_PREFIX, LayerKind, Model, ModelError, UNFOLDED_FROM};
use lockstep::synth::{PRESETS, SynthError, TYPES, preset, slice, unfold, write_mixed, write_model};
use lockstep::tensor::GgmlType;

const TOKENS: [u32; 3] = [7, 300, 12];

fn mini() -> &'static ModelFile {
    static FILE: OnceLock<ModelFile> = OnceLock::new();
    FILE.get_or_init(|| synthetic("mini-bonsai", 1, GgmlType::PQ2_0))
}

/// The SHA-256 in a case: the dumps were made from these bytes.
fn sha256_of_case(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reference-dumps").join(name).join("case.toml");
    let case: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let model = case["model"].as_table().unwrap();
    assert_eq!((model["seed"].as_integer(), model["type"].as_str()), (Some(1), Some("pq2_0")));
    model["sha256"].as_str().unwrap().to_owned()
}

fn sliced(input: &Path, n_layer: usize) -> ModelFile {
    let file = ModelFile::new();
    slice(input, n_layer, &file.path, &mut |_, _| {}).unwrap();
    file
}

fn unfolded(input: &Path) -> ModelFile {
    let file = ModelFile::new();
    unfold(input, &file.path, &mut |_, _| {}).unwrap();
    file
}

/// The residual stream behind every layer.
fn l_outs(path: &Path) -> Vec<Tensor> {
    let model = Model::open(path).unwrap();
    let mut keep = Keep::only(|name| name.starts_with("l_out-"));
    let mut engine = CpuEngine::<f32>::new(&model, Conventions::default(), 8).unwrap();
    engine.step(&ubatch(&TOKENS, 0..3), &mut keep).unwrap();
    keep.tensors
}

mod bytes {
    use super::*;

    /// No dump is made from this one.
    const MICRO_PTQ1_0: &str = "e53a05964b37287900e62267d5f4de810e85886a07af14b9db3a8c0e8642f818";

    #[test]
    fn are_those_that_the_reference_dumps_were_made_from() {
        assert_eq!(sha256(&micro().path).unwrap(), sha256_of_case("micro-bonsai"));
        assert_eq!(sha256(&mini().path).unwrap(), sha256_of_case("mini-bonsai"));
        assert_eq!(sha256(&synthetic("micro-bonsai", 1, GgmlType::PTQ1_0).path).unwrap(), MICRO_PTQ1_0);
    }

    #[test]
    fn are_the_same_each_time() {
        for ty in [GgmlType::PQ2_0, GgmlType::PTQ1_0, GgmlType::F32] {
            let [one, other] = [(); 2].map(|()| fs::read(&synthetic("micro-bonsai", 1, ty).path).unwrap());
            assert!(one == other, "{ty}");
        }
    }

    #[test]
    fn of_f32_are_those_of_the_unfolded_twin() {
        let twin = unfolded(&micro().path);
        let written = synthetic("micro-bonsai", 1, GgmlType::F32);
        assert!(fs::read(&twin.path).unwrap() == fs::read(&written.path).unwrap());
    }

    #[test]
    fn of_every_large_tensor_depend_on_the_seed() {
        let [one, other] = [1, 2].map(|seed| synthetic("micro-bonsai", seed, GgmlType::PQ2_0));
        let (one, other) = (Gguf::open(&one.path).unwrap(), Gguf::open(&other.path).unwrap());
        for info in one.tensors() {
            let (x, y) = (one.tensor(&info.name).unwrap(), other.tensor(&info.name).unwrap());
            // two seeds may put the longest memory into the same head
            let may_agree = info.name.ends_with("ssm_a");
            assert!(may_agree || x.data != y.data, "{} is the same for two seeds", info.name);
        }
        let signs = fold_key("sign_values");
        assert_ne!(one.metadata().get(&signs), other.metadata().get(&signs));
    }

    #[test]
    fn of_layers_and_tensors_differ_from_each_other() {
        let gguf = Gguf::open(&micro().path).unwrap();
        let mut seen: BTreeMap<&[u8], &str> = BTreeMap::new();
        for info in gguf.tensors().iter().filter(|info| !info.name.ends_with("ssm_a")) {
            if let Some(twin) = seen.insert(gguf.tensor(&info.name).unwrap().data, &info.name) {
                panic!("{} and {twin} hold the same bytes", info.name);
            }
        }
    }

    #[test]
    fn progress_ends_at_the_size_of_all_tensors() {
        let file = ModelFile::new();
        let mut calls = Vec::new();
        let record: &mut dyn FnMut(u64, u64) = &mut |done, total| calls.push((done, total));
        write_model(&PRESETS[0], 1, GgmlType::PQ2_0, &file.path, record).unwrap();
        let total: u64 = Gguf::open(&file.path).unwrap().tensors().iter().map(|info| info.bytes).sum();
        assert!(calls.is_sorted() && calls.iter().all(|call| call.1 == total));
        assert_eq!(calls.last(), Some(&(total, total)));
    }
}

mod fold_list {
    use super::*;

    /// `blk.3.attn_q.weight` -> `attn_q`
    fn class(name: &str) -> &str {
        name.strip_suffix(".weight").unwrap().rsplit('.').next().unwrap()
    }

    #[test]
    fn of_mini_bonsai_has_the_classes_of_the_27b() {
        let model = Model::open(&mini().path).unwrap();
        let names = model.fold().unwrap().forward_names();
        assert_eq!(names.len(), 401);
        let count = |classes: &[&str]| names.iter().filter(|name| classes.contains(&class(name))).count();
        for (classes, expected) in [
            (&["output"][..], 1),
            (&["attn_q", "attn_k", "attn_v"], 48),
            (&["attn_output"], 16),
            (&["attn_qkv", "attn_gate"], 96),
            (&["ssm_out"], 48),
            (&["ffn_gate", "ffn_up"], 128),
            (&["ffn_down"], 64),
        ] {
            assert_eq!(count(classes), expected, "{classes:?}");
        }
        assert_eq!(model.fold().unwrap().inverse_names(), ["token_embd.weight"]);
        let h = model.hparams();
        assert_eq!((h.count(LayerKind::DeltaNet), h.count(LayerKind::Attention)), (48, 16));
    }

    #[test]
    fn of_mini_bonsai_is_what_is_ternary() {
        let model = Model::open(&mini().path).unwrap();
        let of = |ty| model.gguf().tensors().iter().filter(|info| info.ty == ty).count();
        // as in the 27B: 402 ternary (with the embedding), 96 BF16, 353 F32
        assert_eq!([GgmlType::PQ2_0, GgmlType::BF16, GgmlType::F32].map(of), [402, 96, 353]);
        let ternary = model.gguf().tensors().iter().filter(|info| info.ty == GgmlType::PQ2_0);
        assert!(ternary.clone().all(|info| model.fold().unwrap().role(&info.name).is_some()));
    }
}

mod slices {
    use super::*;

    #[test]
    fn compute_what_the_whole_model_does() {
        let whole = l_outs(&mini().path);
        assert_eq!(whole.len(), 64);
        for n_layer in [1, 4, 8] {
            let part = l_outs(&sliced(&mini().path, n_layer).path);
            assert_same(&whole[..n_layer], &part);
        }
    }

    #[test]
    fn of_slices_are_slices() {
        let direct = sliced(&mini().path, 4);
        let twice = sliced(&sliced(&mini().path, 8).path, 4);
        assert!(fs::read(&direct.path).unwrap() == fs::read(&twice.path).unwrap());
    }

    #[test]
    fn of_all_layers_are_the_model() {
        assert!(fs::read(&sliced(&micro().path, 4).path).unwrap() == fs::read(&micro().path).unwrap());
    }

    #[test]
    fn keep_everything_outside_the_layers() {
        let (whole, part) = (Gguf::open(&mini().path).unwrap(), sliced(&mini().path, 8));
        let part = Gguf::open(&part.path).unwrap();
        for (key, value) in whole.metadata().iter() {
            let kept = part.metadata().get(key).unwrap();
            match key {
                "qwen35.block_count" => assert_eq!(*kept, Value::U32(8)),
                "prism.hadamard.weight_names" => {}
                _ => assert_eq!(kept, value, "{key}"),
            }
        }
        assert_eq!(part.metadata().len(), whole.metadata().len());
        let names = Model::open(part.path()).unwrap().fold().unwrap().forward_names().len();
        assert_eq!(names, 1 + 6 * 6 + 2 * 7);
        for name in ["token_embd.weight", "output.weight", "output_norm.weight", "blk.7.attn_q.weight"] {
            assert_eq!(part.tensor(name).unwrap().data, whole.tensor(name).unwrap().data, "{name}");
        }
        assert!(part.tensor("blk.8.attn_qkv.weight").is_none());
    }

    #[test]
    fn leave_mtp_layers_and_unknown_layers_out() {
        let mtp = Edit::of(&micro().path)
            .set_hparam("block_count", 5u32)
            .set_hparam("nextn_predict_layers", 1u32)
            .set_hparam("attention.recurrent_layers", vec![true, true, true, false, false])
            .zeros("blk.4.attn_norm.weight", &[256], GgmlType::F32)
            .write();
        let part = Model::open(&sliced(&mtp.path, 4).path).unwrap();
        assert_eq!((part.hparams().n_layer, part.hparams().n_layer_nextn), (4, 0));
        assert!(part.notes().is_empty() && part.gguf().tensor("blk.4.attn_norm.weight").is_none());
        let recurrent = part.gguf().metadata().bool_array(&hparam_key("attention.recurrent_layers")).unwrap();
        assert_eq!(recurrent, [true, true, true, false]);
        assert!(part.gguf().metadata().get(&hparam_key("nextn_predict_layers")).is_none());
    }

    #[test]
    fn of_no_layers_or_too_many_are_refused() {
        for wanted in [0, 65, usize::MAX] {
            let file = ModelFile::new();
            match slice(&mini().path, wanted, &file.path, &mut |_, _| {}) {
                Err(SynthError::Layers { got, have: 64 }) => assert_eq!(got, wanted),
                other => panic!("{other:?}"),
            }
            assert!(!file.path.exists());
        }
    }

    #[test]
    fn of_an_unfolded_model_are_unfolded() {
        let part = sliced(&unfolded(&micro().path).path, 2);
        assert!(Model::open(&part.path).unwrap().fold().is_none());
        assert_eq!(l_outs(&part.path).len(), 2);
    }
}

mod twins {
    use super::*;

    #[test]
    fn keep_the_metadata_and_name_their_source() {
        let (source, twin) = (micro(), unfolded(&micro().path));
        let (folded, plain) = (Gguf::open(&source.path).unwrap(), Gguf::open(&twin.path).unwrap());
        let expected: Vec<(&str, Value)> = folded
            .metadata()
            .iter()
            .filter(|(key, _)| !key.starts_with(FOLD_PREFIX))
            .map(|(key, value)| match key {
                "general.file_type" => (key, Value::U32(0)), // all f32
                _ => (key, value.clone()),
            })
            .chain([(UNFOLDED_FROM, Value::String(sha256(&source.path).unwrap()))])
            .collect();
        let got: Vec<(&str, Value)> = plain.metadata().iter().map(|(k, v)| (k, v.clone())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn have_every_tensor_in_f32() {
        let (source, twin) = (micro(), unfolded(&micro().path));
        let (folded, plain) = (Gguf::open(&source.path).unwrap(), Gguf::open(&twin.path).unwrap());
        let shapes = |gguf: &Gguf| -> Vec<(String, Vec<u64>)> {
            gguf.tensors().iter().map(|info| (info.name.clone(), info.dims().to_vec())).collect()
        };
        assert_eq!(shapes(&folded), shapes(&plain));
        assert!(plain.tensors().iter().all(|info| info.ty == GgmlType::F32));
        // what is not folded keeps its bits
        let (one, other) = (Model::open(&source.path).unwrap(), Model::open(&twin.path).unwrap());
        for name in ["blk.0.ssm_alpha.weight", "blk.0.ssm_conv1d.weight", "output_norm.weight"] {
            assert_eq!(one.vector(name).unwrap(), other.vector(name).unwrap(), "{name}");
        }
        assert_ne!(one.vector("token_embd.weight").unwrap(), other.vector("token_embd.weight").unwrap());
    }

    #[test]
    fn of_both_ternary_types_hold_the_same_weights() {
        let twins =
            [GgmlType::PQ2_0, GgmlType::PTQ1_0].map(|ty| unfolded(&synthetic("micro-bonsai", 1, ty).path));
        let [one, other] = twins.each_ref().map(|file| Gguf::open(&file.path).unwrap());
        for info in one.tensors() {
            assert!(
                one.tensor(&info.name).unwrap().data == other.tensor(&info.name).unwrap().data,
                "{}",
                info.name
            );
        }
    }

    #[test]
    fn of_unfolded_models_are_refused() {
        let twin = unfolded(&micro().path);
        let file = ModelFile::new();
        match unfold(&twin.path, &file.path, &mut |_, _| {}) {
            Err(SynthError::NotFolded { model }) => assert_eq!(model, twin.path.display().to_string()),
            other => panic!("{other:?}"),
        }
        assert!(!file.path.exists());
    }
}

mod failures {
    use super::*;

    /// Every way to make a model, with the path that it is written to.
    type Make = (&'static str, fn(&Path) -> Result<(), SynthError>);
    const MAKERS: [Make; 4] = [
        ("pq2_0", |out| write_model(&PRESETS[0], 1, GgmlType::PQ2_0, out, &mut |_, _| {})),
        ("f32", |out| write_model(&PRESETS[0], 1, GgmlType::F32, out, &mut |_, _| {})),
        ("slice", |out| slice(&micro().path, 2, out, &mut |_, _| {})),
        ("unfold", |out| unfold(&micro().path, out, &mut |_, _| {})),
    ];

    fn entries(folder: &Path) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    #[test]
    fn a_model_is_one_file() {
        for (name, make) in MAKERS {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("model.gguf");
            make(&out).unwrap();
            assert_eq!(entries(folder.path()), [out], "{name}");
        }
    }

    #[test]
    fn a_file_beside_the_model_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (out, beside) = (folder.path().join("model.gguf"), folder.path().join("model.gguf.folded"));
        fs::write(&beside, "precious").unwrap();
        write_model(&PRESETS[0], 1, GgmlType::F32, &out, &mut |_, _| {}).unwrap();
        assert_eq!(fs::read(&beside).unwrap(), b"precious");
        assert_eq!(entries(folder.path()), [out, beside]);
    }

    #[test]
    fn nothing_is_left_where_the_file_cannot_get_its_name() {
        for (name, make) in MAKERS {
            // a folder with something in it has the name already
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("model.gguf");
            fs::create_dir(&out).unwrap();
            fs::write(out.join("inside"), "").unwrap();
            match make(&out) {
                Err(SynthError::Gguf(GgufError::Io { .. })) => {}
                other => panic!("{name}: {other:?}"),
            }
            assert_eq!(entries(folder.path()), [out], "{name}");
        }
    }

    #[test]
    fn nothing_is_left_where_there_is_no_folder() {
        for (name, make) in MAKERS {
            let folder = tempfile::tempdir().unwrap();
            match make(&folder.path().join("absent").join("model.gguf")) {
                Err(SynthError::Gguf(GgufError::Io { .. })) => {}
                other => panic!("{name}: {other:?}"),
            }
            assert_eq!(entries(folder.path()).len(), 0, "{name}");
        }
    }

    #[test]
    fn nothing_is_left_of_a_model_with_a_weight_that_cannot_be_decoded() {
        let folder = tempfile::tempdir().unwrap();
        let broken = Edit::of(&micro().path).zeros("blk.3.attn_k.weight", &[256, 64], GgmlType::I32).write();
        let out = folder.path().join("twin.gguf");
        match unfold(&broken.path, &out, &mut |_, _| {}) {
            Err(SynthError::Gguf(GgufError::TensorData { name, .. })) => {
                assert_eq!(name, "blk.3.attn_k.weight")
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(entries(folder.path()).len(), 0);
    }

    #[test]
    fn an_old_file_stays_when_the_new_one_fails() {
        let file = ModelFile::new();
        fs::write(&file.path, "old").unwrap();
        let absent = file.path.with_file_name("absent.gguf");
        for result in [
            slice(&absent, 1, &file.path, &mut |_, _| {}),
            unfold(&absent, &file.path, &mut |_, _| {}),
            write_model(&PRESETS[0], 1, GgmlType::Q5_0, &file.path, &mut |_, _| {}),
        ] {
            assert!(result.is_err());
            assert_eq!(fs::read(&file.path).unwrap(), b"old");
        }
    }

    #[test]
    fn types_that_are_not_offered_are_refused() {
        for ty in [GgmlType::Q5_0, GgmlType::Q3_K, GgmlType::I32] {
            let result = write_model(&PRESETS[0], 1, ty, &ModelFile::new().path, &mut |_, _| {});
            assert!(matches!(result, Err(SynthError::Type { got }) if got == ty), "{ty}");
        }
        assert!(preset("maxi-bonsai").is_none() && preset("").is_none());
    }

    #[test]
    fn a_source_that_is_no_model_is_refused() {
        let other = Edit::of(&micro().path).set("general.architecture", "llama").write();
        let out = ModelFile::new();
        let is_refused = |result: Result<(), SynthError>| matches!(result, Err(SynthError::Model(ModelError::Architecture { got })) if got == "llama");
        assert!(is_refused(slice(&other.path, 1, &out.path, &mut |_, _| {})));
        assert!(is_refused(unfold(&other.path, &out.path, &mut |_, _| {})));
        assert!(!out.path.exists());
    }
}

#[test]
fn quantised_models_hold_their_type_or_the_fallback() {
    for &ty in TYPES.iter().filter(|ty| !matches!(ty, GgmlType::PQ2_0 | GgmlType::PTQ1_0 | GgmlType::F32)) {
        let file = synthetic("micro-bonsai", 1, ty);
        let model = Model::open(&file.path).unwrap();
        assert!(model.fold().is_none() && model.notes().is_empty(), "{ty}: {:?}", model.notes());
        let stored = |name: &str| model.gguf().tensor(name).unwrap().info.ty;
        // rows of 256 and 384: a block of 256 does not divide the second
        let expected = if ty.block_elements() == 256 { GgmlType::Q8_0 } else { ty };
        let types = ["blk.0.ffn_up.weight", "token_embd.weight", "blk.0.ssm_out.weight"].map(stored);
        assert_eq!(types, [ty, ty, expected]);
        assert_eq!(["blk.0.ssm_alpha.weight", "blk.0.attn_norm.weight"].map(stored), [GgmlType::F32; 2]);
        assert_eq!(
            fs::read_dir(file.path.parent().unwrap()).unwrap().count(),
            1,
            "{ty}: the model and nothing else"
        );
    }
}

#[test]
fn several_types_take_turns_at_the_matrices() {
    let file = ModelFile::new();
    let types = [GgmlType::Q4_K, GgmlType::F16, GgmlType::Q6_K];
    write_mixed(preset("nano-bonsai").unwrap(), 1, &types, &file.path, &mut |_, _| {}).unwrap();
    let gguf = Gguf::open(&file.path).unwrap();
    let large = gguf.tensors().iter().filter(|info| info.ty != GgmlType::F32);
    let stored: Vec<GgmlType> = large.map(|info| info.ty).collect();
    // the table, the head, 6 matrices of a delta net's layer, 7 of an attention layer's: all rows hold whole blocks of 256
    assert_eq!(stored, types.into_iter().cycle().take(15).collect::<Vec<_>>());

    let refused = |types: &[GgmlType]| {
        write_mixed(preset("nano-bonsai").unwrap(), 1, types, &ModelFile::new().path, &mut |_, _| {})
    };
    assert!(matches!(refused(&[]), Err(SynthError::NoType)));
    for got in [GgmlType::PQ2_0, GgmlType::Q5_0] {
        let result = refused(&[GgmlType::Q8_0, got]);
        assert!(matches!(result, Err(SynthError::Mixed { got: g }) if g == got), "{got}");
    }
}
