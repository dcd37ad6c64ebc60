//! The fold contract: one test per rule, each with a file that breaks only that rule.

mod common;

use std::sync::OnceLock;

use common::{Edit, fold_key, micro, run, ubatch};
use lockstep::engine::{Conventions, Engine, EngineError, NullTap, cpu::CpuEngine};
use lockstep::gguf::{GgufError, Value};
use lockstep::model::{FoldError, ModelError, Role};
use lockstep::tensor::GgmlType;

const BLOCK: i32 = 128;
const WIDTHS: [i32; 3] = [256, 384, 512];
const N_SIGNS: usize = 256 + 384 + 512;

/// A sound folded model with three widths: 256 (n_embd), 384 (d_inner, q width) and 512 (n_ff).
fn folded() -> Edit {
    static EDIT: OnceLock<Edit> = OnceLock::new();
    EDIT.get_or_init(|| Edit::of(&micro().path)).clone()
}

#[track_caller]
fn refused(edit: &Edit) -> ModelError {
    edit.open().err().expect("a file that breaks the contract was accepted")
}

#[track_caller]
fn broken(edit: &Edit) -> FoldError {
    match refused(edit) {
        ModelError::Fold(error) => error,
        other => panic!("expected a FoldError, got {other:?}"),
    }
}

#[track_caller]
fn rejects_value(edit: &Edit, key: &'static str, got: &str, expected: &str) {
    let (got, expected) = (got.to_owned(), expected.to_owned());
    assert_eq!(broken(edit), FoldError::Value { key, got, expected });
}

#[track_caller]
fn rejects_type(edit: &Edit, key: &str, expected: &str, got: &str) {
    match refused(edit) {
        ModelError::Gguf(GgufError::KeyType { key: k, expected: e, got: g }) => {
            assert_eq!((k, e, g.as_str()), (fold_key(key), expected, got));
        }
        other => panic!("{key}: {other:?}"),
    }
}

/// `weight_names` with one more name.
fn with_name(name: &str) -> Edit {
    let mut names = folded().names("weight_names");
    names.push(name.to_owned());
    folded().set_fold("weight_names", names)
}

/// Signs that alternate.
fn signs(count: usize) -> Vec<i32> {
    (0..count).map(|i| if i % 2 == 0 { 1 } else { -1 }).collect()
}

/// The model with signs for these widths, as many as they ask for.
fn with_widths(widths: &[i32]) -> Edit {
    let count = widths.iter().map(|&w| w.max(0) as usize).sum();
    folded().set_fold("sign_widths", widths.to_vec()).set_fold("sign_values", signs(count))
}

fn identity() -> Edit {
    folded()
        .set_fold("sign_mode", "identity")
        .remove(&fold_key("sign_widths"))
        .remove(&fold_key("sign_values"))
}

#[test]
fn rejects_any_key_without_version() {
    let whole = folded();
    let keys: Vec<String> =
        whole.keys().filter(|k| k.starts_with("prism.hadamard.")).map(Into::into).collect();
    assert_eq!(keys.len(), 10);
    for key in keys.iter().filter(|key| **key != fold_key("version")) {
        let alone = folded().remove_fold().set(key, whole.value(key).clone());
        assert_eq!(broken(&alone), FoldError::NoVersion { key: key.clone() });
    }
    let key = fold_key("unheard_of");
    assert_eq!(broken(&folded().remove_fold().set(&key, true)), FoldError::NoVersion { key });
    let first = keys.iter().find(|key| **key != fold_key("version")).unwrap().clone();
    assert_eq!(broken(&folded().remove(&fold_key("version"))), FoldError::NoVersion { key: first });
}

#[test]
fn rejects_other_versions() {
    for version in [0u32, 2, u32::MAX] {
        rejects_value(&folded().set_fold("version", version), "version", &version.to_string(), "1");
    }
}

#[test]
fn rejects_version_2_by_its_number_and_not_by_its_new_key() {
    let newer = folded().set_fold("version", 2u32).set_fold("tied_output", true);
    rejects_value(&newer, "version", "2", "1");
}

#[test]
fn rejects_version_of_another_type() {
    rejects_type(&folded().set_fold("version", "1"), "version", "u32", "str");
    rejects_type(&folded().set_fold("version", 1.0f32), "version", "u32", "f32");
    rejects_type(&folded().set_fold("version", true), "version", "u32", "bool");
    let negative = refused(&folded().set_fold("version", -1i32));
    assert!(matches!(negative, ModelError::Gguf(GgufError::KeyRange { .. })), "{negative:?}");
}

#[test]
fn rejects_a_missing_key() {
    for key in ["block_size", "transform", "axis", "sign_mode", "sign_widths", "sign_values", "weight_names"]
    {
        match refused(&folded().remove(&fold_key(key))) {
            ModelError::Gguf(GgufError::MissingKey { key: missing, .. }) => {
                assert_eq!(missing, fold_key(key))
            }
            other => panic!("{key}: {other:?}"),
        }
    }
}

#[test]
fn rejects_values_of_another_type() {
    let names = || vec!["x".to_owned()];
    for (key, value, expected, got) in [
        ("block_size", Value::from("128"), "u32", "str"),
        ("transform", 1u32.into(), "str", "u32"),
        ("axis", 0u32.into(), "str", "u32"),
        ("sign_mode", true.into(), "str", "bool"),
        ("sign_widths", 256i32.into(), "array of i32", "i32"),
        ("sign_values", vec![1.0f32].into(), "array of i32", "array of f32"),
        ("weight_names", "output.weight".into(), "array of str", "str"),
        ("inverse_weight_names", true.into(), "array of str", "bool"),
        ("gdn_v_grouped", 1u8.into(), "bool", "u8"),
        ("gdn_v_grouped", names().into(), "bool", "array of str"),
    ] {
        rejects_type(&folded().set_fold(key, value), key, expected, got);
    }
}

#[test]
fn rejects_a_block_size_that_is_no_power_of_two_above_1() {
    for size in [0u32, 1, 100, u32::MAX] {
        let edit = folded().set_fold("block_size", size);
        rejects_value(&edit, "block_size", &size.to_string(), "a power of two, at least 2");
    }
}

#[test]
fn rejects_another_transform() {
    for name in ["sylvester-walsh-hadamard", "normalized-signed-sylvester-walsh-hadamard", ""] {
        let edit = folded().set_fold("transform", name);
        rejects_value(&edit, "transform", name, "normalized-sylvester-walsh-hadamard");
    }
}

#[test]
fn rejects_another_axis() {
    rejects_value(
        &folded().set_fold("axis", "output-dimension"),
        "axis",
        "output-dimension",
        "input-last-dimension",
    );
}

#[test]
fn rejects_another_sign_mode() {
    for mode in ["implicit", "Explicit", ""] {
        rejects_value(&folded().set_fold("sign_mode", mode), "sign_mode", mode, "`identity` or `explicit`");
    }
}

#[test]
fn rejects_explicit_signs_without_widths() {
    rejects_value(&with_widths(&[]), "sign_widths", "[]", "at least one width");
}

#[test]
fn rejects_a_width_that_is_no_positive_multiple_of_the_block() {
    for width in [192, 64, 1, 0, -BLOCK, i32::MIN] {
        let edit = with_widths(&[256, width]);
        rejects_value(&edit, "sign_widths", &width.to_string(), "a positive multiple of block_size 128");
    }
}

#[test]
fn rejects_another_number_of_signs() {
    let expected = "as many values as sign_widths [256, 384, 512] add up to";
    for count in [0, 1, N_SIGNS - 1, N_SIGNS + 1] {
        let edit = folded().set_fold("sign_values", signs(count));
        rejects_value(&edit, "sign_values", &format!("{count} values"), expected);
    }
    // a width near the largest i32 asks for no memory
    let edit = folded().set_fold("sign_widths", vec![i32::MAX - 127]);
    let expected = "as many values as sign_widths [2147483520] add up to";
    rejects_value(&edit, "sign_values", "1152 values", expected);
}

#[test]
fn rejects_a_sign_that_is_neither_1_nor_minus_1() {
    for bad in [0, 2, -2, 129, i32::MIN] {
        for at in [0, 300, N_SIGNS - 1] {
            let mut values = signs(N_SIGNS);
            values[at] = bad;
            let edit = folded().set_fold("sign_values", values);
            rejects_value(&edit, "sign_values", &bad.to_string(), "1 or -1");
        }
    }
}

#[test]
fn rejects_a_repeated_width() {
    assert_eq!(broken(&with_widths(&[256, 384, 512, 384])), FoldError::RepeatedWidth { width: 384 });
}

#[test]
fn rejects_an_empty_list_of_weights() {
    let edit = folded().set_fold("weight_names", Vec::<String>::new());
    rejects_value(&edit, "weight_names", "[]", "at least one name");
}

#[test]
fn rejects_a_weight_that_is_listed_twice() {
    let name = "blk.3.attn_q.weight".to_owned();
    assert_eq!(broken(&with_name(&name)), FoldError::DuplicateName { key: "weight_names", name });
}

#[test]
fn rejects_a_weight_that_is_not_read_through_a_transform() {
    for name in [
        "blk.0.ssm_alpha.weight",
        "blk.0.ssm_beta.weight",
        "blk.0.ssm_conv1d.weight",
        "blk.0.ssm_norm.weight",
        "blk.0.ssm_a",
        "blk.0.ssm_dt.bias",
        "blk.0.attn_norm.weight",
        "blk.3.attn_q_norm.weight",
        "token_embd.weight",
        "output_norm.weight",
        // no layer, or the same layer under another name
        "blk.99.attn_q.weight",
        "blk.4.attn_q.weight",
        "blk.03.attn_q.weight",
        "blk.+3.attn_q.weight",
        "blk.-1.attn_q.weight",
        "blk..attn_q.weight",
        "blk.3.attn_q",
        "blk.3.attn_q.bias",
        "blk.3.x.attn_q.weight",
        "attn_q.weight",
        "output",
        "Output.weight",
        "",
    ] {
        let expected = FoldError::NotFoldable { key: "weight_names", name: name.to_owned() };
        assert_eq!(broken(&with_name(name)), expected);
    }
}

#[test]
fn rejects_a_listed_weight_that_is_not_in_the_file() {
    // layer 0 is a delta net, layer 3 attention
    for name in ["blk.0.attn_q.weight", "blk.3.ssm_out.weight"] {
        let expected = FoldError::MissingWeight { key: "weight_names", name: name.to_owned() };
        assert_eq!(broken(&with_name(name)), expected);
    }
    let untied = folded().drop_tensor("output.weight").remove(&fold_key("inverse_weight_names"));
    let name = "output.weight".to_owned();
    assert_eq!(broken(&untied), FoldError::MissingWeight { key: "weight_names", name });
}

#[test]
fn rejects_an_inverse_table_that_is_not_the_embedding() {
    for name in ["output_norm.weight", "blk.3.attn_q.weight", "blk.0.ssm_alpha.weight", "token_embd"] {
        let mut names = folded().names("weight_names");
        names.retain(|listed| listed != name);
        let edit =
            folded().set_fold("weight_names", names).set_fold("inverse_weight_names", vec![name.to_owned()]);
        let expected = FoldError::NotFoldable { key: "inverse_weight_names", name: name.to_owned() };
        assert_eq!(broken(&edit), expected);
    }
}

#[test]
fn rejects_an_inverse_table_that_is_listed_twice() {
    let name = "token_embd.weight".to_owned();
    let edit = folded().set_fold("inverse_weight_names", vec![name.clone(); 2]);
    assert_eq!(broken(&edit), FoldError::DuplicateName { key: "inverse_weight_names", name });
}

#[test]
fn rejects_a_name_in_both_lists() {
    let edit = with_name("token_embd.weight");
    let name = "token_embd.weight".to_owned();
    assert_eq!(broken(&edit), FoldError::NotFoldable { key: "weight_names", name: name.clone() });
    let output = "output.weight".to_owned();
    let edit = folded().set_fold("inverse_weight_names", vec![name, output.clone()]);
    assert_eq!(broken(&edit), FoldError::NotFoldable { key: "inverse_weight_names", name: output });
}

#[test]
fn rejects_a_block_that_does_not_divide_the_input_width() {
    let expected = FoldError::Block { name: "blk.0.ssm_out.weight".into(), width: 384, block: 256 };
    assert_eq!(broken(&identity().set_fold("block_size", 256u32)), expected);
    assert_eq!(broken(&with_widths(&[256, 512]).set_fold("block_size", 256u32)), expected);
}

#[test]
fn rejects_an_input_width_without_signs() {
    let expected =
        FoldError::NoSigns { name: "blk.0.ssm_out.weight".into(), width: 384, have: vec![256, 512] };
    assert_eq!(broken(&with_widths(&[512, 256])), expected);
    // the embedding table is checked too: it is the only one left of its width
    let edit = folded()
        .set_fold("weight_names", vec!["blk.0.ffn_down.weight".to_owned()])
        .set_fold("sign_widths", vec![512])
        .set_fold("sign_values", signs(512));
    let expected = FoldError::NoSigns { name: "token_embd.weight".into(), width: 256, have: vec![512] };
    assert_eq!(broken(&edit), expected);
}

#[test]
fn rejects_signs_in_identity_mode() {
    for (key, value) in [("sign_widths", WIDTHS.to_vec()), ("sign_values", signs(N_SIGNS))] {
        let edit = identity().set_fold(key, value);
        assert_eq!(broken(&edit), FoldError::UnknownKey { key: fold_key(key) });
    }
}

#[test]
fn rejects_a_key_that_the_contract_does_not_have() {
    for key in ["tied_output", "seed", "Version", ""] {
        let edit = folded().set_fold(key, false);
        assert_eq!(broken(&edit), FoldError::UnknownKey { key: fold_key(key) });
    }
}

#[test]
fn rejects_a_rotated_embedding_that_is_the_output_head_too() {
    let mut names = folded().names("weight_names");
    names.retain(|name| name != "output.weight");
    let edit = folded().drop_tensor("output.weight").set_fold("weight_names", names);
    assert_eq!(broken(&edit), FoldError::TiedOutput { name: "token_embd.weight".into() });
    // a plain table may be: nothing of it is folded
    let plain = edit.remove(&fold_key("inverse_weight_names")).open().unwrap();
    assert!(plain.has_tied_embeddings());
    assert_eq!(plain.fold().unwrap().role("token_embd.weight"), None);
}

#[test]
fn accepts_what_the_shipped_files_have() {
    let model = folded().open().unwrap();
    let fold = model.fold().unwrap();
    assert_eq!((fold.version(), fold.block(), fold.gdn_v_grouped()), (1, 128, true));
    assert_eq!(fold.widths().collect::<Vec<_>>(), [256, 384, 512]);
    assert_eq!(fold.inverse_names(), ["token_embd.weight"]);
    assert_eq!(fold.role("token_embd.weight"), Some(Role::Inverse));
    assert_eq!(fold.role("output.weight"), Some(Role::Forward));
    assert_eq!(fold.role("blk.0.ssm_alpha.weight"), None);
    assert!(model.notes().is_empty(), "{:?}", model.notes());
}

#[test]
fn signs_are_given_out_in_the_order_of_the_widths() {
    // 512 first: its signs are the first 512 values
    let mut values = vec![1; N_SIGNS];
    (values[0], values[512], values[512 + 256]) = (-1, -1, -1);
    (values[1], values[N_SIGNS - 1]) = (-1, -1);
    let model =
        folded().set_fold("sign_widths", vec![512, 256, 384]).set_fold("sign_values", values).open().unwrap();
    let negative = |name: &str, width: usize| -> Vec<usize> {
        let transform = model.fold().unwrap().transform(name, width).unwrap();
        let signs = transform.signs.unwrap();
        assert_eq!(signs.len(), width);
        (0..width).filter(|&i| signs[i] == -1).collect()
    };
    assert_eq!(negative("blk.0.ffn_down.weight", 512), [0, 1]);
    assert_eq!(negative("output.weight", 256), [0]);
    assert_eq!(negative("blk.3.attn_output.weight", 384), [0, 383]);
}

#[test]
fn accepts_identity_mode() {
    let model = identity().open().unwrap();
    let fold = model.fold().unwrap();
    assert_eq!(fold.widths().count(), 0);
    assert_eq!(fold.transform("output.weight", 256).unwrap().signs, None);
    let tensors = run::<f32>(&model, &[7, 300], &[2]);
    assert!(tensors.iter().all(|t| t.values.iter().all(|v| v.is_finite())));
}

#[test]
fn accepts_a_model_without_the_keys() {
    let model = folded().remove_fold().open().unwrap();
    assert!(model.fold().is_none());
}

#[test]
fn accepts_no_inverse_table() {
    for edit in [
        folded().remove(&fold_key("inverse_weight_names")),
        folded().set_fold("inverse_weight_names", Vec::<String>::new()),
    ] {
        let model = edit.open().unwrap();
        assert_eq!(model.fold().unwrap().role("token_embd.weight"), None);
    }
}

#[test]
fn without_gdn_v_grouped_only_the_order_of_heads_changes() {
    let (whole, ungrouped) =
        (folded().open().unwrap(), folded().remove(&fold_key("gdn_v_grouped")).open().unwrap());
    let off = folded().set_fold("gdn_v_grouped", false).open().unwrap();
    assert_eq!(ungrouped.fold(), off.fold());
    let (with, without) = (whole.fold().unwrap(), ungrouped.fold().unwrap());
    assert!(with.gdn_v_grouped() && !without.gdn_v_grouped());
    for name in with.forward_names() {
        let width = whole.gguf().tensor(name).unwrap().info.ne[0] as usize;
        let (mut one, other) =
            (with.transform(name, width).unwrap(), without.transform(name, width).unwrap());
        assert_eq!(one.permutation.is_some(), name.ends_with(".ssm_out.weight"), "{name}");
        one.permutation = None;
        assert_eq!(one, other, "{name}");
    }
    // and in a run, `ssm_out` of layer 0 gives the first tensor that differs
    let tokens = [7, 300, 12];
    let (with, without) = (run::<f32>(&whole, &tokens, &[3]), run::<f32>(&ungrouped, &tokens, &[3]));
    let first = with.iter().zip(&without).find(|(x, y)| x != y).unwrap();
    assert_eq!(first.0.id.to_string(), "linear_attn_out-0 (step 0)");
}

#[test]
fn a_folded_weight_that_the_graph_does_not_read_is_found_when_it_runs() {
    // layer 0 is a delta net: this tensor is in the file and in the list, but nothing multiplies with it
    let name = "blk.0.attn_q.weight";
    let model = with_name(name).zeros(name, &[256, 768], GgmlType::PQ2_0).open().unwrap();
    assert_eq!(model.notes(), [format!("tensor `{name}` is not used")]);
    let mut engine = CpuEngine::<f32>::new(&model, Conventions::default(), 8).unwrap();
    match engine.step(&ubatch(&[7], 0..1), &mut NullTap) {
        Err(EngineError::FoldNotReached { name: unreached }) => assert_eq!(unreached, name),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_message_names_the_key_and_the_value() {
    for (error, expected) in [
        (
            broken(&folded().set_fold("block_size", 100u32)),
            "prism.hadamard.block_size = 100, expected a power of two, at least 2",
        ),
        (
            broken(&with_name("output_norm.weight")),
            "prism.hadamard.weight_names names `output_norm.weight`, which is not read through a transform in qwen35",
        ),
        (
            broken(&folded().set_fold("tied_output", true)),
            "unexpected metadata key `prism.hadamard.tied_output`: this version of the contract does not know it; refused rather than ignored",
        ),
    ] {
        assert_eq!(error.to_string(), expected);
    }
}
