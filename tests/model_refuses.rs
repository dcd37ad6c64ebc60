//! Files that are no model this crate can run: one test per cause, and what is accepted with a note.

mod common;

use std::sync::OnceLock;

use common::{Edit, assert_same, hparam_key, micro, run, synthetic};
use lockstep::gguf::{GgufError, Value};
use lockstep::model::{LayerKind, Model, ModelError};
use lockstep::tensor::GgmlType;

/// A sound model: 4 layers, the last one attention.
fn sound() -> Edit {
    static EDIT: OnceLock<Edit> = OnceLock::new();
    EDIT.get_or_init(|| Edit::of(&micro().path)).clone()
}

/// Its unfolded twin.
fn unfolded() -> Edit {
    static EDIT: OnceLock<Edit> = OnceLock::new();
    EDIT.get_or_init(|| Edit::of(&synthetic("micro-bonsai", 1, GgmlType::F32).path)).clone()
}

/// Every key that the architecture needs.
const REQUIRED: [&str; 15] = [
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "ssm.group_count",
    "attention.layer_norm_rms_epsilon",
    "rope.freq_base",
];
/// The first of them are sizes.
const N_SIZES: usize = 13;

#[track_caller]
fn refused(edit: &Edit) -> ModelError {
    edit.open().err().expect("a file that is no model was accepted")
}

#[track_caller]
fn rejects_hparam(edit: &Edit, key: &str, got: &str, expected: &str) {
    match refused(edit) {
        ModelError::Hparam { key: k, got: g, expected: e } => {
            assert_eq!((k.as_str(), g.as_str(), e.as_str()), (hparam_key(key).as_str(), got, expected));
        }
        other => panic!("{key} = {got}: {other:?}"),
    }
}

#[track_caller]
fn rejects_missing_tensor(edit: &Edit, expected: &str) {
    match refused(edit) {
        ModelError::MissingTensor { name } => assert_eq!(name, expected),
        other => panic!("{expected}: {other:?}"),
    }
}

#[track_caller]
fn rejects_shape(edit: &Edit, tensor: &str, actual: &[u64], reference: &[u64]) {
    match refused(edit) {
        ModelError::Shape { name, got, expected } => {
            assert_eq!((name.as_str(), got.as_slice(), expected.as_slice()), (tensor, actual, reference));
        }
        other => panic!("{tensor}: {other:?}"),
    }
}

#[test]
fn rejects_a_file_that_is_no_gguf() {
    let file = common::ModelFile::new();
    std::fs::write(&file.path, "not a model, but long enough for a header").unwrap();
    assert!(matches!(Model::open(&file.path), Err(ModelError::Gguf(GgufError::InFile { .. }))));
    let absent = Model::open(&file.path.with_file_name("absent.gguf"));
    assert!(matches!(absent, Err(ModelError::Gguf(GgufError::Io { operation: "open", .. }))));
}

#[test]
fn rejects_another_architecture() {
    for name in ["qwen3", "qwen35moe", "Qwen35", ""] {
        match refused(&sound().set("general.architecture", name)) {
            ModelError::Architecture { got } => assert_eq!(got, name),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn rejects_a_missing_key() {
    let sections = ["rope.dimension_sections"];
    let keys = REQUIRED.iter().chain(&sections).map(|key| hparam_key(key));
    for key in keys.chain(["general.architecture".to_owned()]) {
        match refused(&sound().remove(&key)) {
            ModelError::Gguf(GgufError::MissingKey { key: missing, .. }) => assert_eq!(missing, key),
            other => panic!("{key}: {other:?}"),
        }
    }
}

#[test]
fn rejects_a_key_of_another_type() {
    let sections = ["rope.dimension_sections", "nextn_predict_layers", "full_attention_interval"];
    let optional = ["attention.recurrent_layers", "attention.scale", "context_length"];
    let keys = REQUIRED.iter().chain(&sections).chain(&optional).map(|key| hparam_key(key));
    for key in keys {
        match refused(&sound().set(&key, "256")) {
            ModelError::Gguf(GgufError::KeyType { key: wrong, got, .. }) => {
                assert_eq!((wrong, got.as_str()), (key, "str"));
            }
            other => panic!("{key}: {other:?}"),
        }
    }
    let architecture = refused(&sound().set("general.architecture", 35u32));
    assert!(matches!(architecture, ModelError::Gguf(GgufError::KeyType { .. })), "{architecture:?}");
}

#[test]
fn rejects_a_size_of_zero() {
    for key in &REQUIRED[..N_SIZES] {
        match refused(&sound().set_hparam(key, 0u32)) {
            ModelError::Hparam { key: wrong, got, .. } => {
                assert_eq!((wrong, got.as_str()), (hparam_key(key), "0"));
            }
            other => panic!("{key}: {other:?}"),
        }
    }
    rejects_hparam(
        &sound().set_hparam("full_attention_interval", 0u32),
        "full_attention_interval",
        "0",
        "1 to 16777216",
    );
}

#[test]
fn rejects_a_negative_size() {
    for key in &REQUIRED[..N_SIZES] {
        let error = refused(&sound().set_hparam(key, -1i32));
        assert!(matches!(error, ModelError::Gguf(GgufError::KeyRange { .. })), "{key}: {error:?}");
    }
}

#[test]
fn rejects_huge_sizes_without_overflow_or_memory() {
    for size in [1u64 << 24, (1 << 24) + 1, 1 << 32, u64::MAX] {
        for key in &REQUIRED[..N_SIZES] {
            let error = refused(&sound().set_hparam(key, size));
            let typed = matches!(
                error,
                ModelError::Hparam { .. } | ModelError::Shape { .. } | ModelError::MissingTensor { .. }
            );
            assert!(typed, "{key} = {size}: {error:?}");
        }
        let all = REQUIRED[..N_SIZES].iter().fold(sound(), |edit, key| edit.set_hparam(key, size));
        let error = refused(&all);
        assert!(matches!(error, ModelError::Hparam { .. }), "{error:?}");
    }
}

#[test]
fn rejects_the_largest_sizes_that_belong_together() {
    // every relation between the sizes holds, so that only the tensors contradict
    const HUGE: u32 = 1 << 24;
    let edit = [
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "rope.dimension_count",
        "ssm.conv_kernel",
        "ssm.inner_size",
        "ssm.state_size",
        "ssm.group_count",
    ]
    .iter()
    .fold(sound(), |edit, key| edit.set_hparam(key, HUGE))
    .set_hparam("ssm.time_step_rank", 1u32)
    .set_hparam("ssm.group_count", 1u32);
    rejects_shape(&edit, "token_embd.weight", &[256, 512], &[HUGE.into(), 512]);
    let heads = sound()
        .set_hparam("ssm.time_step_rank", HUGE)
        .set_hparam("ssm.group_count", HUGE)
        .set_hparam("ssm.state_size", 1u32)
        .set_hparam("ssm.inner_size", HUGE);
    let channels = 3 * u64::from(HUGE);
    rejects_shape(&heads, "blk.0.attn_qkv.weight", &[256, 640], &[256, channels]);
}

#[test]
fn rejects_more_layers_than_any_model_has() {
    rejects_hparam(&sound().set_hparam("block_count", 513u32), "block_count", "513", "1 to 512");
    // 512 are looked for
    rejects_missing_tensor(&sound().set_hparam("block_count", 512u32), "blk.4.attn_norm.weight");
}

#[test]
fn rejects_heads_that_cannot_be_shared_out() {
    let edit = sound().set_hparam("attention.head_count_kv", 5u32);
    rejects_hparam(&edit, "attention.head_count", "12", "a multiple of head_count_kv");
    let edit = sound().set_hparam("attention.head_count_kv", 24u32);
    rejects_hparam(&edit, "attention.head_count", "12", "a multiple of head_count_kv");
    let edit = sound().set_hparam("ssm.group_count", 7u32);
    rejects_hparam(&edit, "ssm.time_step_rank", "24", "a multiple of group_count");
}

#[test]
fn rejects_sizes_that_contradict_each_other() {
    let edit = sound().set_hparam("attention.value_length", 16u32);
    rejects_hparam(&edit, "attention.value_length", "16", "equal to key_length");
    let edit = sound().set_hparam("ssm.inner_size", 400u32);
    rejects_hparam(&edit, "ssm.inner_size", "400", "state_size * time_step_rank");
    let edit = sound().set_hparam("ssm.conv_kernel", 1u32);
    rejects_hparam(&edit, "ssm.conv_kernel", "1", "at least 2");
}

#[test]
fn rejects_rotations_that_do_not_fit_a_head() {
    for got in [15u32, 34] {
        let edit = sound().set_hparam("rope.dimension_count", got);
        rejects_hparam(&edit, "rope.dimension_count", &got.to_string(), "even and at most key_length");
    }
    let sections = |values: &[i32]| sound().set_hparam("rope.dimension_sections", values.to_vec());
    rejects_hparam(&sections(&[]), "rope.dimension_sections", "0", "a sum from 1 to key_length");
    rejects_hparam(&sections(&[0; 4]), "rope.dimension_sections", "0", "a sum from 1 to key_length");
    rejects_hparam(&sections(&[32, 1, 0, 0]), "rope.dimension_sections", "33", "a sum from 1 to key_length");
    rejects_hparam(
        &sections(&[3, 3, 2, 0, 0]),
        "rope.dimension_sections",
        "[3, 3, 2, 0, 0]",
        "at most 4 numbers",
    );
    let huge = sound().set_hparam("rope.dimension_sections", vec![u32::MAX; 4]);
    rejects_hparam(&huge, "rope.dimension_sections", "17179869180", "a sum from 1 to key_length");
    assert!(matches!(refused(&sections(&[3, 3, 2, -1])), ModelError::Gguf(GgufError::KeyRange { .. })));
}

#[test]
fn rejects_constants_that_are_no_positive_number() {
    for key in ["attention.layer_norm_rms_epsilon", "rope.freq_base"] {
        for (value, got) in [(0.0f32, "0"), (-1.0, "-1"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
            rejects_hparam(&sound().set_hparam(key, value), key, got, "finite and above 0");
        }
    }
    for (value, got) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf")] {
        rejects_hparam(&sound().set_hparam("attention.scale", value), "attention.scale", got, "finite");
    }
}

#[test]
fn rejects_a_list_of_layer_kinds_of_another_length() {
    for n in [0, 3, 5] {
        let edit = sound().set_hparam("attention.recurrent_layers", vec![true; n]);
        let got = format!("{n} values");
        rejects_hparam(&edit, "attention.recurrent_layers", &got, "4 values, as block_count says");
    }
}

#[test]
fn rejects_more_mtp_layers_than_layers() {
    for nextn in [4u64, 5, u64::MAX] {
        let edit = sound().set_hparam("nextn_predict_layers", nextn);
        rejects_hparam(&edit, "nextn_predict_layers", &nextn.to_string(), "less than block_count = 4");
    }
}

#[test]
fn rejects_a_missing_tensor() {
    let model = sound().open().unwrap();
    let names: Vec<String> = model.gguf().tensors().iter().map(|info| info.name.clone()).collect();
    for name in names.iter().filter(|name| *name != "output.weight") {
        rejects_missing_tensor(&sound().drop_tensor(name), name);
    }
}

#[test]
fn rejects_layers_of_another_kind_than_the_metadata_says() {
    rejects_missing_tensor(&sound().set_hparam("full_attention_interval", 2u32), "blk.1.attn_q.weight");
    rejects_missing_tensor(&sound().set_hparam("full_attention_interval", 5u32), "blk.3.attn_qkv.weight");
}

#[test]
fn rejects_another_shape() {
    for (name, got, expected, ty) in [
        ("blk.3.attn_k.weight", &[256u64, 128][..], &[256u64, 64][..], GgmlType::PQ2_0),
        // the same number of elements, the other way round
        ("blk.3.attn_output.weight", &[256, 384], &[384, 256], GgmlType::PQ2_0),
        ("blk.0.ssm_conv1d.weight", &[640, 4], &[4, 640], GgmlType::F32),
        ("output_norm.weight", &[512], &[256], GgmlType::F32),
        ("blk.0.ssm_a", &[12, 2], &[24], GgmlType::F32),
        ("output.weight", &[256, 256], &[256, 512], GgmlType::PQ2_0),
        ("blk.2.ffn_up.weight", &[256, 512, 2], &[256, 512], GgmlType::PQ2_0),
    ] {
        rejects_shape(&sound().zeros(name, got, ty), name, got, expected);
    }
}

#[test]
fn rejects_a_small_tensor_of_a_block_type() {
    for (name, ne, ty) in [
        ("output_norm.weight", 256, GgmlType::Q8_0),
        ("blk.0.attn_norm.weight", 256, GgmlType::PQ2_0),
        ("blk.3.attn_q_norm.weight", 32, GgmlType::Q8_0),
        ("blk.0.ssm_a", 24, GgmlType::I32),
    ] {
        match refused(&sound().zeros(name, &[ne], ty)) {
            ModelError::PlainType { name: wrong, got } => assert_eq!((wrong.as_str(), got), (name, ty)),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn rejects_a_scale_that_is_not_one_number() {
    let edit = sound().zeros("blk.0.ffn_up.scale", &[2], GgmlType::F32);
    rejects_shape(&edit, "blk.0.ffn_up.scale", &[2], &[1]);
    let edit = sound().zeros("blk.0.ffn_up.scale", &[1], GgmlType::I32);
    assert!(matches!(refused(&edit), ModelError::PlainType { got: GgmlType::I32, .. }));
}

#[test]
fn a_weight_without_a_decoder_is_named_when_it_is_read() {
    let model = sound().zeros("blk.3.attn_k.weight", &[256, 64], GgmlType::I32).open().unwrap();
    match model.matrix("blk.3.attn_k.weight") {
        Err(ModelError::Quant { name, .. }) => assert_eq!(name, "blk.3.attn_k.weight"),
        other => panic!("{:?}", other.err()),
    }
    assert!(matches!(model.matrix("blk.9.attn_k.weight"), Err(ModelError::MissingTensor { .. })));
    assert!(matches!(model.vector("blk.9.attn_norm.weight"), Err(ModelError::MissingTensor { .. })));
}

#[test]
fn the_list_of_layer_kinds_wins_over_the_interval() {
    let model = sound()
        .set_hparam("full_attention_interval", 2u32)
        .set_hparam("attention.recurrent_layers", vec![true, true, true, false])
        .open()
        .unwrap();
    assert_eq!(model.hparams().layers[..3], [LayerKind::DeltaNet; 3]);
    assert_eq!(model.hparams().layers[3], LayerKind::Attention);
    let contradicts = sound().set_hparam("attention.recurrent_layers", vec![true, true, false, false]);
    rejects_missing_tensor(&contradicts, "blk.2.attn_q.weight");
}

#[test]
fn without_list_and_interval_every_fourth_layer_is_attention() {
    let model = sound().remove(&hparam_key("full_attention_interval")).open().unwrap();
    assert_eq!(model.hparams(), sound().open().unwrap().hparams());
}

#[test]
fn an_attention_scale_of_zero_is_the_default_one() {
    let scale =
        |value: f32| sound().set_hparam("attention.scale", value).open().unwrap().hparams().f_attention_scale;
    assert_eq!((scale(0.0), scale(0.25)), (None, Some(0.25)));
}

#[test]
fn mtp_layers_are_left_out_with_a_note() {
    let mtp = sound()
        .set_hparam("block_count", 5u32)
        .set_hparam("nextn_predict_layers", 1u32)
        .zeros("blk.4.nextn.eh_proj.weight", &[512, 256], GgmlType::F32)
        .zeros("blk.4.attn_norm.weight", &[256], GgmlType::F32);
    let model = mtp.open().unwrap();
    assert_eq!((model.hparams().n_layer, model.hparams().n_layer_nextn), (4, 1));
    assert_eq!(model.notes(), ["1 MTP layer(s) behind the trunk are not run (2 tensors)"]);
    let plain = sound().open().unwrap();
    assert_same(&run::<f32>(&plain, &[7, 300], &[2]), &run::<f32>(&model, &[7, 300], &[2]));
    // the list of kinds counts the MTP layers too, llama.cpp never takes one as recurrent
    let listed = mtp.set_hparam("attention.recurrent_layers", vec![true, true, true, false, false]);
    assert_eq!(listed.open().unwrap().hparams(), model.hparams());
}

#[test]
fn tensors_without_a_use_are_noted() {
    let names = ["cls.output.weight", "blk.4.attn_norm.weight", "blk.0.attn_norm.scale", "rope_freqs.weight"];
    let edit = names.iter().fold(sound(), |edit, name| edit.zeros(name, &[1], GgmlType::F32));
    let expected = names.map(|name| format!("tensor `{name}` is not used"));
    assert_eq!(edit.open().unwrap().notes(), expected);
}

#[test]
fn a_scale_multiplies_its_matrix() {
    let scaled = |factor: f32| {
        sound()
            .tensor("blk.0.ffn_up.scale", &[1], GgmlType::F32, factor.to_le_bytes().to_vec())
            .open()
            .unwrap()
    };
    assert!(scaled(0.5).notes().is_empty());
    let (whole, half) = (run::<f32>(&scaled(1.0), &[7], &[1]), run::<f32>(&scaled(0.5), &[7], &[1]));
    let first = whole.iter().zip(&half).find(|(x, y)| x != y).unwrap();
    assert_eq!(first.0.id.name, "ffn_up-0");
    assert!(first.0.values.iter().zip(&first.1.values).all(|(x, y)| x / 2.0 == *y));
}

#[test]
fn a_model_without_an_output_head_uses_its_embedding_table() {
    let tied = unfolded().drop_tensor("output.weight").open().unwrap();
    assert!(tied.has_tied_embeddings() && tied.fold().is_none());
    assert_eq!(tied.output_name(), "token_embd.weight");
    let explicit = unfolded().copy_tensor("token_embd.weight", "output.weight").open().unwrap();
    assert!(!explicit.has_tied_embeddings());
    let tensors = run::<f32>(&tied, &[7, 300, 12], &[3]);
    assert!(tensors.last().unwrap().values.iter().any(|&v| v != 0.0));
    assert_same(&run::<f32>(&explicit, &[7, 300, 12], &[3]), &tensors);
}

#[test]
fn integers_of_every_type_are_read() {
    let model = sound()
        .set_hparam("embedding_length", 256u64)
        .set_hparam("attention.head_count", Value::U8(12))
        .set_hparam("rope.dimension_sections", vec![3u32, 3, 2])
        .open()
        .unwrap();
    assert_eq!(model.hparams(), sound().open().unwrap().hparams());
}
