//! What the writer writes, the reader reads.

use crate::gguf::{Array, Gguf, GgufError, GgufWriter, Metadata, Value};
use crate::tensor::GgmlType;
use proptest::collection::vec;
use proptest::prelude::*;
use std::fs;
use std::io;

/// Every value type, as a scalar and as an array. NaN would not equal itself, so floats are finite here.
fn any_value() -> impl Strategy<Value = Value> {
    let float = -1e30f32..1e30;
    let double = -1e300f64..1e300;
    let scalars = prop_oneof![
        any::<u8>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<u16>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        float.clone().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let wide = prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        double.clone().prop_map(Value::from),
    ];
    let narrow_arrays = prop_oneof![
        vec(any::<u8>(), 0..5).prop_map(Value::from),
        vec(any::<i8>(), 0..5).prop_map(Value::from),
        vec(any::<u16>(), 0..5).prop_map(Value::from),
        vec(any::<i16>(), 0..5).prop_map(Value::from),
        vec(any::<u32>(), 0..5).prop_map(Value::from),
        vec(any::<i32>(), 0..5).prop_map(Value::from),
    ];
    let wide_arrays = prop_oneof![
        vec(float, 0..5).prop_map(Value::from),
        vec(any::<bool>(), 0..5).prop_map(Value::from),
        vec(any::<String>(), 0..5).prop_map(Value::from),
        vec(any::<u64>(), 0..5).prop_map(Value::from),
        vec(any::<i64>(), 0..5).prop_map(Value::from),
        vec(double, 0..5).prop_map(Value::from),
    ];
    prop_oneof![scalars, wide, narrow_arrays, wide_arrays]
}

/// A type with extents of whole blocks.
fn any_tensor() -> impl Strategy<Value = (GgmlType, Vec<u64>)> {
    let ty = proptest::sample::select(GgmlType::ALL);
    (ty, vec(1u64..4, 1..=4)).prop_map(|(ty, mut ne)| {
        ne[0] *= ty.block_elements() as u64;
        (ty, ne)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn reads_what_was_written(
        values in vec(any_value(), 0..8),
        declared in vec(any_tensor(), 0..6),
        alignment in proptest::option::of(3u32..10),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let mut writer = GgufWriter::new();
        let mut expected = Metadata::new();
        if let Some(log2) = alignment {
            writer.alignment(1 << log2).unwrap();
            expected.insert("general.alignment", Value::U32(1 << log2)).unwrap();
        }
        for (i, value) in values.into_iter().enumerate() {
            writer.set(format!("key.{i}"), value.clone()).unwrap();
            expected.insert(format!("key.{i}"), value).unwrap();
        }
        for (i, (ty, ne)) in declared.iter().enumerate() {
            writer.tensor(format!("blk.{i}.weight"), ne, *ty).unwrap();
        }
        let fill = |bytes: u64, name: &str| -> Vec<u8> {
            (0..bytes).map(|b| (b as u8).wrapping_mul(7) ^ name.as_bytes()[4]).collect()
        };
        writer.write(&path, |tensor, out| out.write_all(&fill(tensor.bytes, &tensor.name))).unwrap();

        let gguf = Gguf::open(&path).unwrap();
        prop_assert_eq!(gguf.metadata(), &expected);
        prop_assert_eq!(gguf.version(), 3);
        prop_assert_eq!(gguf.alignment(), 1 << alignment.unwrap_or(5));
        prop_assert_eq!(gguf.file_bytes(), fs::metadata(&path).unwrap().len());
        prop_assert_eq!(gguf.tensors().len(), declared.len());
        for (info, (ty, ne)) in gguf.tensors().iter().zip(&declared) {
            prop_assert_eq!((info.ty, info.dims()), (*ty, ne.as_slice()));
            let tensor = gguf.tensor(&info.name).unwrap();
            prop_assert_eq!(tensor.data, fill(info.bytes, &info.name));
            prop_assert!(info.offset.is_multiple_of(gguf.alignment()));
        }
    }
}

fn entries(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn rejects_a_wrong_number_of_bytes_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, "before").unwrap();
    let mut writer = GgufWriter::new();
    writer.tensor("a", &[2], GgmlType::F32).unwrap();
    for wrong in [0usize, 7, 9] {
        let error = writer.write(&path, |_, out| out.write_all(&vec![1; wrong])).unwrap_err();
        assert!(
            matches!(&error, GgufError::TensorBytes { name, expected: 8, got } if name == "a" && *got == wrong as u64),
            "{error}"
        );
        assert_eq!(entries(folder.path()), ["model.gguf"]);
        assert_eq!(fs::read(&path).unwrap(), b"before");
    }
    // Bytes beyond the declaration are an error even if the closure ignores what `write` returns.
    let error = writer.write(&path, |_, out| out.write_all(&[1; 9]).or(Ok(()))).unwrap_err();
    assert!(matches!(error, GgufError::TensorBytes { expected: 8, got: 9, .. }), "{error}");
}

#[test]
fn rejects_a_closure_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = GgufWriter::new();
    writer.tensor("a", &[2], GgmlType::F32).unwrap();
    let error = writer
        .write(&folder.path().join("model.gguf"), |_, _| Err(io::Error::other("no such weight")))
        .unwrap_err();
    assert!(matches!(&error, GgufError::TensorData { name, .. } if name == "a"), "{error}");
    assert_eq!(error.to_string(), "tensor `a`: no such weight");
    assert_eq!(entries(folder.path()), [""; 0]);
}

#[test]
fn rejects_declarations_that_the_reader_would_refuse() {
    let mut writer = GgufWriter::new();
    writer.set("key", 1u32).unwrap();
    writer.tensor("a", &[64, 2], GgmlType::Q8_0).unwrap();
    let long = "x".repeat(64);

    assert!(matches!(writer.set("key", 2u32), Err(GgufError::DuplicateKey { .. })));
    assert!(matches!(writer.set("", 2u32), Err(GgufError::EmptyKey)));
    assert!(matches!(writer.alignment(48), Err(GgufError::Alignment { got: 48 })));
    assert!(matches!(writer.set("general.alignment", 32u64), Err(GgufError::KeyType { .. })));
    assert!(matches!(writer.tensor("a", &[1], GgmlType::F32), Err(GgufError::DuplicateTensor { .. })));
    assert!(matches!(writer.tensor("", &[1], GgmlType::F32), Err(GgufError::EmptyTensorName)));
    assert!(matches!(writer.tensor(long, &[1], GgmlType::F32), Err(GgufError::StringTooLong { .. })));
    assert!(matches!(writer.tensor("b", &[], GgmlType::F32), Err(GgufError::DimensionCount { got: 0, .. })));
    assert!(matches!(
        writer.tensor("b", &[1; 5], GgmlType::F32),
        Err(GgufError::DimensionCount { got: 5, .. })
    ));
    assert!(matches!(writer.tensor("b", &[0], GgmlType::F32), Err(GgufError::ZeroDimension { .. })));
    assert!(matches!(writer.tensor("b", &[33], GgmlType::Q8_0), Err(GgufError::PartialBlock { .. })));
    assert!(matches!(writer.tensor("b", &[1 << 63], GgmlType::F32), Err(GgufError::SizeOverflow { .. })));
    // What was refused left no trace: `b` is still free.
    writer.tensor("b", &[32], GgmlType::Q8_0).unwrap();
}

#[test]
fn getters_check_type_and_range() {
    let mut metadata = Metadata::new();
    metadata.insert("n", Value::I64(300)).unwrap();
    metadata.insert("eps", Value::F32(1e-6)).unwrap();
    metadata.insert("third", Value::F64(1.0 / 3.0)).unwrap();
    metadata.insert("sections", Value::Array(Array::I32(vec![11, 11, -1]))).unwrap();
    metadata.insert("name", Value::from("mini")).unwrap();

    assert_eq!(metadata.u32("n").unwrap(), 300);
    assert_eq!(metadata.optional_u64("absent").unwrap(), None);
    assert_eq!(metadata.f64("eps").unwrap(), f64::from(1e-6f32));
    assert_eq!(metadata.i32_array("sections").unwrap(), [11, 11, -1]);
    assert_eq!(metadata.str("name").unwrap(), "mini");

    let missing = metadata.u32("absent").unwrap_err();
    assert!(matches!(&missing, GgufError::MissingKey { key, expected: "u32" } if key == "absent"));
    let ty = metadata.optional_u32("name").unwrap_err();
    assert!(matches!(&ty, GgufError::KeyType { key, expected: "u32", got } if key == "name" && got == "str"));
    let range = metadata.u32_array("sections").unwrap_err();
    assert_eq!(range.to_string(), "metadata key `sections`: -1 does not fit, expected array of u32");
    assert!(matches!(metadata.f32("third"), Err(GgufError::KeyRange { .. })));
    assert!(matches!(metadata.f32("n"), Err(GgufError::KeyType { .. })));
}
