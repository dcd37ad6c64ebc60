//! The metadata of a model: keys with values, in the order of the file.

use super::{Array, GgufError, Value};
use std::collections::HashMap;

/// Longest key in bytes (the GGUF specification's own limit).
pub(super) const MAX_KEY: u64 = 65_535;

/// Keys and values in the order of the file, with getters that check types.
///
/// `u32(key)` and its siblings require the key; `optional_u32(key)` and its siblings return `None`
/// when it is missing. Both refuse a value of another type, and a number that does not fit. Integer
/// getters accept every integer type, float getters both float types (`f32` only what it holds exactly).
#[derive(Clone, Default, Debug)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Metadata) -> bool {
        self.entries == other.entries
    }
}

impl Metadata {
    /// No keys.
    pub fn new() -> Metadata {
        Metadata::default()
    }

    /// Adds a key at the end.
    ///
    /// # Errors
    /// If the key is empty, longer than 65535 bytes, or there already.
    pub fn insert(&mut self, key: impl Into<String>, value: Value) -> Result<(), GgufError> {
        let key = key.into();
        if key.is_empty() {
            return Err(GgufError::EmptyKey);
        }
        if key.len() as u64 > MAX_KEY {
            let got = key.len() as u64;
            return Err(GgufError::StringTooLong { what: "metadata key", offset: 0, got, limit: MAX_KEY });
        }
        if self.index.contains_key(&key) {
            return Err(GgufError::DuplicateKey { key });
        }
        self.index.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        Ok(())
    }

    /// Removes the keys for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.entries.retain(|(key, _)| keep(key));
        self.index = self.entries.iter().enumerate().map(|(i, (key, _))| (key.clone(), i)).collect();
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).and_then(|&i| self.entries.get(i)).map(|(_, value)| value)
    }

    /// Keys and values in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Why a value is not what was asked for.
enum Mismatch {
    Type,
    Range(String),
}

/// Declares a required and an optional getter for each line: names, type, name for messages, conversion.
macro_rules! getters {
    ($($required:ident $optional:ident -> $t:ty, $expected:literal $convert:expr;)*) => {
        impl Metadata {$(
            #[doc = concat!("The value of a key as ", $expected, ".")]
            ///
            /// # Errors
            /// If the key is missing, has another type, or a number in it does not fit.
            pub fn $required(&self, key: &str) -> Result<$t, GgufError> {
                self.$optional(key)?
                    .ok_or_else(|| GgufError::MissingKey { key: key.to_owned(), expected: $expected })
            }

            #[doc = concat!("The value of a key as ", $expected, ", or `None` if the key is missing.")]
            ///
            /// # Errors
            /// If the value has another type, or a number in it does not fit.
            pub fn $optional(&self, key: &str) -> Result<Option<$t>, GgufError> {
                let Some(value) = self.get(key) else { return Ok(None) };
                let key = || key.to_owned();
                let converted: Result<$t, Mismatch> = $convert(value);
                converted.map(Some).map_err(|mismatch| match mismatch {
                    Mismatch::Type => GgufError::KeyType {
                        key: key(),
                        expected: $expected,
                        got: value.type_name().to_owned(),
                    },
                    Mismatch::Range(got) => GgufError::KeyRange { key: key(), expected: $expected, got },
                })
            }
        )*}
    };
}

getters! {
    u32 optional_u32 -> u32, "u32" int_of;
    i32 optional_i32 -> i32, "i32" int_of;
    u64 optional_u64 -> u64, "u64" int_of;
    i64 optional_i64 -> i64, "i64" int_of;
    f32 optional_f32 -> f32, "f32" f32_of;
    f64 optional_f64 -> f64, "f64" f64_of;
    bool optional_bool -> bool, "bool" bool_of;
    str optional_str -> &str, "str" str_of;
    u32_array optional_u32_array -> Vec<u32>, "array of u32" ints_of;
    i32_array optional_i32_array -> Vec<i32>, "array of i32" ints_of;
    f32_array optional_f32_array -> &[f32], "array of f32" f32s_of;
    str_array optional_str_array -> &[String], "array of str" strs_of;
    bool_array optional_bool_array -> &[bool], "array of bool" bools_of;
}

/// An integer of any type; 128 bits hold them all.
fn int_of<T: TryFrom<i128>>(value: &Value) -> Result<T, Mismatch> {
    fit(match *value {
        Value::U8(v) => v.into(),
        Value::I8(v) => v.into(),
        Value::U16(v) => v.into(),
        Value::I16(v) => v.into(),
        Value::U32(v) => v.into(),
        Value::I32(v) => v.into(),
        Value::U64(v) => v.into(),
        Value::I64(v) => v.into(),
        _ => return Err(Mismatch::Type),
    })
}

fn fit<T: TryFrom<i128>>(value: i128) -> Result<T, Mismatch> {
    T::try_from(value).map_err(|_| Mismatch::Range(value.to_string()))
}

/// Fits each integer of an array of any integer type.
fn ints_of<T: TryFrom<i128>>(value: &Value) -> Result<Vec<T>, Mismatch> {
    fn each<I: Copy + Into<i128>, T: TryFrom<i128>>(values: &[I]) -> Result<Vec<T>, Mismatch> {
        values.iter().map(|&v| fit(v.into())).collect()
    }
    match value {
        Value::Array(Array::U8(v)) => each(v),
        Value::Array(Array::I8(v)) => each(v),
        Value::Array(Array::U16(v)) => each(v),
        Value::Array(Array::I16(v)) => each(v),
        Value::Array(Array::U32(v)) => each(v),
        Value::Array(Array::I32(v)) => each(v),
        Value::Array(Array::U64(v)) => each(v),
        Value::Array(Array::I64(v)) => each(v),
        _ => Err(Mismatch::Type),
    }
}

fn f64_of(value: &Value) -> Result<f64, Mismatch> {
    match *value {
        Value::F32(v) => Ok(v.into()),
        Value::F64(v) => Ok(v),
        _ => Err(Mismatch::Type),
    }
}

fn f32_of(value: &Value) -> Result<f32, Mismatch> {
    match *value {
        Value::F32(v) => Ok(v),
        Value::F64(v) if f64::from(v as f32).to_bits() == v.to_bits() => Ok(v as f32),
        Value::F64(v) => Err(Mismatch::Range(v.to_string())),
        _ => Err(Mismatch::Type),
    }
}

fn bool_of(value: &Value) -> Result<bool, Mismatch> {
    if let Value::Bool(v) = value { Ok(*v) } else { Err(Mismatch::Type) }
}

fn str_of(value: &Value) -> Result<&str, Mismatch> {
    if let Value::String(v) = value { Ok(v) } else { Err(Mismatch::Type) }
}

fn f32s_of(value: &Value) -> Result<&[f32], Mismatch> {
    if let Value::Array(Array::F32(v)) = value { Ok(v) } else { Err(Mismatch::Type) }
}

fn strs_of(value: &Value) -> Result<&[String], Mismatch> {
    if let Value::Array(Array::String(v)) = value { Ok(v) } else { Err(Mismatch::Type) }
}

fn bools_of(value: &Value) -> Result<&[bool], Mismatch> {
    if let Value::Array(Array::Bool(v)) = value { Ok(v) } else { Err(Mismatch::Type) }
}
