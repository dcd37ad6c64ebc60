//! Metadata values, and how each is stored.
//!
//! Source: `enum gguf_type` and the file description in gguf.h.
#![deny(clippy::indexing_slicing)]

use super::GgufError;
use super::cursor::Cursor;

/// The id of an array's type; the other ids are in the table below.
const ARRAY_ID: u32 = 9;
/// Longest string value in bytes. Chat templates have tens of KiB; llama.cpp's own cap is 1 GiB.
pub(super) const MAX_STRING: u64 = 64 << 20;
/// Most elements of one array. The largest vocabularies have under 2^20; llama.cpp's own cap is 2^30.
const MAX_ARRAY: u64 = 1 << 27;

/// One number, bool or string as GGUF stores it.
trait Element: Sized {
    /// The fewest bytes that an element takes.
    const MIN_BYTES: u64;
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, GgufError>;
    fn write(&self, out: &mut Vec<u8>);

    fn read_many(cursor: &mut Cursor<'_>) -> Result<Vec<Self>, GgufError> {
        let count = cursor.u64("array length")?;
        let count = cursor.check_count("array elements", count, MAX_ARRAY, Self::MIN_BYTES)?;
        (0..count).map(|_| Self::read(cursor)).collect()
    }
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Element for $t {
            const MIN_BYTES: u64 = size_of::<$t>() as u64;
            fn read(cursor: &mut Cursor<'_>) -> Result<Self, GgufError> {
                cursor.array("metadata value").map(<$t>::from_le_bytes)
            }
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
numbers!(u8 i8 u16 i16 u32 i32 f32 u64 i64 f64);

impl Element for bool {
    const MIN_BYTES: u64 = 1;
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, GgufError> {
        let offset = cursor.offset();
        match cursor.array("metadata value")? {
            [0] => Ok(false),
            [1] => Ok(true),
            [got] => Err(GgufError::BoolByte { offset, got }),
        }
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Element for String {
    const MIN_BYTES: u64 = 8;
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, GgufError> {
        cursor.string("string value", MAX_STRING)
    }
    fn write(&self, out: &mut Vec<u8>) {
        put_string(self, out);
    }
}

/// Appends a string prefixed with its length.
pub(super) fn put_string(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Declares [`Value`] and [`Array`] from one table: variant, Rust type, id in a file, name, array name.
macro_rules! values {
    ($($variant:ident $t:ty, $id:literal $name:literal $array:literal;)*) => {
        /// A metadata value.
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs)] // the variants are named for what they hold
        pub enum Value { $($variant($t),)* Array(Array) }

        /// The elements of a metadata array, all of one type. There are no arrays of arrays.
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs)]
        pub enum Array { $($variant(Vec<$t>),)* }

        impl Value {
            /// The type's name as in error messages: `u32`, `str`, `array of str`.
            pub const fn type_name(&self) -> &'static str {
                match self {
                    $(Value::$variant(_) => $name,)*
                    Value::Array(array) => array.type_name(),
                }
            }

            /// Reads a value with its type in front; `key` is for messages.
            pub(super) fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, GgufError> {
                match cursor.u32("value type")? {
                    $($id => <$t as Element>::read(cursor).map(Value::$variant),)*
                    ARRAY_ID => Array::read(cursor, key).map(Value::Array),
                    got => Err(GgufError::UnknownValueType { key: key.to_owned(), got }),
                }
            }

            /// Appends the value with its type in front.
            pub(super) fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Value::$variant(value) => { Element::write(&($id as u32), out); value.write(out); })*
                    Value::Array(array) => { Element::write(&ARRAY_ID, out); array.write(out); }
                }
            }
        }

        impl Array {
            /// The type's name as in error messages: `array of u32`.
            pub const fn type_name(&self) -> &'static str {
                match self { $(Array::$variant(_) => $array,)* }
            }

            /// Number of elements.
            pub const fn len(&self) -> usize {
                match self { $(Array::$variant(values) => values.len(),)* }
            }

            /// Whether there are no elements.
            pub const fn is_empty(&self) -> bool {
                self.len() == 0
            }

            fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<Array, GgufError> {
                match cursor.u32("array type")? {
                    $($id => <$t as Element>::read_many(cursor).map(Array::$variant),)*
                    ARRAY_ID => Err(GgufError::NestedArray { key: key.to_owned() }),
                    got => Err(GgufError::UnknownValueType { key: key.to_owned(), got }),
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Array::$variant(values) => {
                        Element::write(&($id as u32), out);
                        Element::write(&(values.len() as u64), out);
                        values.iter().for_each(|value| value.write(out));
                    })*
                }
            }
        }

        $(
            impl From<$t> for Value {
                fn from(value: $t) -> Value { Value::$variant(value) }
            }
            impl From<Vec<$t>> for Value {
                fn from(values: Vec<$t>) -> Value { Value::Array(Array::$variant(values)) }
            }
        )*
    };
}

values! {
    U8 u8, 0 "u8" "array of u8";
    I8 i8, 1 "i8" "array of i8";
    U16 u16, 2 "u16" "array of u16";
    I16 i16, 3 "i16" "array of i16";
    U32 u32, 4 "u32" "array of u32";
    I32 i32, 5 "i32" "array of i32";
    F32 f32, 6 "f32" "array of f32";
    Bool bool, 7 "bool" "array of bool";
    String String, 8 "str" "array of str";
    U64 u64, 10 "u64" "array of u64";
    I64 i64, 11 "i64" "array of i64";
    F64 f64, 12 "f64" "array of f64";
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::String(value.to_owned())
    }
}
